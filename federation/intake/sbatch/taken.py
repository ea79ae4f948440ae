"""The options of sbatch with which a job is taken: mapped, carried, or dropped."""

from typing import Final

from federation.intake.fate import Fate
from federation.intake.sbatch.option import Option, Takes

_NONE, _VALUE, _MAYBE = Takes.NOTHING, Takes.VALUE, Takes.OPTIONAL
_MAPPED, _CARRIED, _DROPPED = Fate.MAPPED, Fate.CARRIED, Fate.DROPPED


def _variable(
    name: str, short: str, variable: str, takes: Takes = _VALUE, versions: str = ""
) -> Option:
    """An option that sbatch itself hands to srun in a variable; so does Muster."""
    words = f"As `{variable}` in the job's environment, where `srun` finds it."
    return Option(name, short, takes, _CARRIED, words, variable=variable, versions=versions)


_SUBMITS = "It is about sbatch itself, not about the job."
_NODES = "Muster pins whole gangs to nodes by itself."
_OWN = "The cluster's admin decides it."

MAPPED: Final = (
    Option(
        "account",
        "A",
        _VALUE,
        _MAPPED,
        "`tenant`, where `?tenant=` is not given: its path, or the last part of its path.",
    ),
    Option(
        "begin",
        "b",
        _VALUE,
        _MAPPED,
        "`not_before`. `now+2hours`, or a date and time, taken as UTC.",
    ),
    Option(
        "chdir",
        "D",
        _VALUE,
        _MAPPED,
        "`run.workdir`, an absolute path. Without it: the account's home, not where sbatch was called.",
    ),
    Option(
        "clusters",
        "M",
        _VALUE,
        _MAPPED,
        "`clusters.only`, by the names that clusters have in Muster.",
    ),
    Option("cluster", "", _VALUE, _MAPPED, "Another name of `--clusters`.", same_as="clusters"),
    Option(
        "comment",
        "",
        _VALUE,
        _MAPPED,
        "The label `comment`: a job's comment in Slurm is Muster's own.",
    ),
    Option(
        "constraint",
        "C",
        _VALUE,
        _MAPPED,
        "`flavors`, where it names GPU models only (`h100`, `h100|a100`); else it is refused, as features of nodes are each cluster's own.",
    ),
    Option("cpus-per-gpu", "", _VALUE, _MAPPED, "`gang.cpus_per_gpu`."),
    Option(
        "cpus-per-task",
        "c",
        _VALUE,
        _MAPPED,
        "`gang.cpus_per_gpu`: the CPUs of a node's tasks over its GPUs, rounded up.",
    ),
    Option("error", "e", _VALUE, _MAPPED, "`run.error`."),
    Option(
        "exclusive",
        "",
        _MAYBE,
        _MAPPED,
        "`gang.exclusive`. `=user`, `=mcs` and `=topo` are refused.",
    ),
    Option(
        "export",
        "",
        _VALUE,
        _MAPPED,
        "`environment`, for what has a value (`NAME=value`). `ALL` and `NONE` are the same here: the caller's shell does not travel. A name without a value is refused.",
    ),
    Option(
        "gpus",
        "G",
        _VALUE,
        _MAPPED,
        "`gang.gpus_per_node`: the total over the nodes, which must divide it.",
    ),
    Option("gpus-per-node", "", _VALUE, _MAPPED, "`gang.gpus_per_node`; a type narrows `flavors`."),
    Option(
        "gpus-per-task", "", _VALUE, _MAPPED, "`gang.gpus_per_node`: times the tasks of a node."
    ),
    Option(
        "gres",
        "",
        _VALUE,
        _MAPPED,
        "`gang.gpus_per_node` (`gpu:8`, `gpu:h100:8`); a type narrows `flavors`. Other resources, and parts of GPUs, are refused.",
    ),
    Option("job-name", "J", _VALUE, _MAPPED, "`name`."),
    Option(
        "mem",
        "",
        _VALUE,
        _MAPPED,
        "`gang.memory_per_node`. 0 (all of it) is dropped: the cluster's own rule holds.",
    ),
    Option("mem-per-cpu", "", _VALUE, _MAPPED, "`gang.memory_per_node`: times the CPUs of a node."),
    Option("mem-per-gpu", "", _VALUE, _MAPPED, "`gang.memory_per_node`: times the GPUs of a node."),
    Option("mincpus", "", _VALUE, _MAPPED, "`gang.cpus_per_gpu`: at least so many CPUs a node."),
    Option("no-requeue", "", _NONE, _MAPPED, "`gang.max_restarts` 0."),
    Option(
        "nodes",
        "N",
        _VALUE,
        _MAPPED,
        "`gang.nodes`: one number. Ranges and lists are not supported yet.",
    ),
    Option(
        "ntasks",
        "n",
        _VALUE,
        _MAPPED,
        "`run.tasks_per_node`: over the nodes, which must divide it.",
    ),
    Option(
        "ntasks-per-gpu", "", _VALUE, _MAPPED, "`run.tasks_per_node`: times the GPUs of a node."
    ),
    Option("ntasks-per-node", "", _VALUE, _MAPPED, "`run.tasks_per_node`."),
    Option(
        "tasks-per-node",
        "",
        _VALUE,
        _MAPPED,
        "Another name of `--ntasks-per-node`.",
        same_as="ntasks-per-node",
    ),
    Option("output", "o", _VALUE, _MAPPED, "`run.output`. `%x` becomes the job's name."),
    Option(
        "requeue",
        "",
        _MAYBE,
        _MAPPED,
        "Restarts are Muster's default (`gang.max_restarts` 3). `=expedite` is refused.",
    ),
    Option(
        "signal",
        "",
        _VALUE,
        _MAPPED,
        "`checkpoint.signal` and `checkpoint.grace` (60 s without a time): the job says that it can save, and so may be moved. `R:` is refused.",
    ),
    Option(
        "switches",
        "",
        _VALUE,
        _MAPPED,
        "`topology.preferred` `leaf`: Slurm, too, takes other nodes after a while. For a job that must not start elsewhere, submit the body with `topology.required`.",
    ),
    Option(
        "time",
        "t",
        _VALUE,
        _MAPPED,
        "`time_limit`, in every form of Slurm's, rounded up to minutes. It is needed, and has to be finite.",
    ),
    Option("wckey", "", _VALUE, _MAPPED, "The label `wckey`."),
)

CARRIED: Final = (
    _variable("acctg-freq", "", "SLURM_ACCTG_FREQ"),
    _variable("cpu-freq", "", "SLURM_CPU_FREQ_REQ"),
    _variable("distribution", "m", "SLURM_DISTRIBUTION"),
    _variable("gpu-bind", "", "SLURM_GPU_BIND"),
    _variable("gpu-freq", "", "SLURM_GPU_FREQ"),
    _variable("hint", "", "SLURM_HINT"),
    _variable("mem-bind", "", "SLURM_MEM_BIND"),
    _variable("network", "", "SLURM_NETWORK"),
    _variable("overcommit", "O", "SLURM_OVERCOMMIT", _NONE),
    _variable("profile", "", "SLURM_PROFILE"),
    _variable("threads-per-core", "", "SLURM_THREADS_PER_CORE"),
    _variable("tres-bind", "", "SLURM_TRES_BIND", versions="from 23.11"),
    Option(
        "ignore-pbs",
        "",
        _NONE,
        _CARRIED,
        "Muster reads no `#PBS` lines; without this option it refuses them.",
    ),
    Option("kill-on-invalid-dep", "", _VALUE, _CARRIED, "It means nothing without a dependency."),
    Option(
        "no-kill",
        "k",
        _MAYBE,
        _CARRIED,
        "`=off` is how every gang is. Without `=off` it is refused: a gang is whole or not at all.",
    ),
    Option("parsable", "", _NONE, _CARRIED, _SUBMITS),
    Option("quiet", "Q", _NONE, _CARRIED, _SUBMITS),
    Option("use-min-nodes", "", _NONE, _CARRIED, "The number of nodes is fixed anyway."),
    Option("verbose", "v", _NONE, _CARRIED, _SUBMITS),
    Option("wait", "W", _NONE, _CARRIED, f"{_SUBMITS} Read the job to see its end."),
    Option("wait-all-nodes", "", _VALUE, _CARRIED, "A gang runs when all of its nodes do."),
)

DROPPED: Final = (
    Option("contiguous", "", _NONE, _DROPPED, f"{_NODES} Nearness is `topology`."),
    Option("core-spec", "S", _VALUE, _DROPPED, f"{_OWN} It sets cores apart for the system."),
    Option("delay-boot", "", _VALUE, _DROPPED, "Nodes are chosen among those that are up."),
    Option(
        "exclude",
        "x",
        _VALUE,
        _DROPPED,
        f"{_NODES} It avoids those where an attempt could not start.",
    ),
    Option(
        "extra",
        "",
        _VALUE,
        _DROPPED,
        "Muster has no such field. Labels may say it.",
        versions="from 23.02",
    ),
    Option(
        "get-user-env",
        "",
        _MAYBE,
        _DROPPED,
        "The environment of a login is not loaded. Begin the script with `#!/bin/bash -l`.",
    ),
    Option("gres-flags", "", _VALUE, _DROPPED, f"{_NODES} Binding is the cluster's default."),
    Option(
        "mail-type",
        "",
        _VALUE,
        _DROPPED,
        "Muster sends no mail; `/api/v1/events` tells of changes.",
    ),
    Option(
        "mail-user",
        "",
        _VALUE,
        _DROPPED,
        "Muster sends no mail; `/api/v1/events` tells of changes.",
    ),
    Option("nice", "", _MAYBE, _DROPPED, "Order is Muster's: `priority` of the job."),
    Option(
        "ntasks-per-core",
        "",
        _VALUE,
        _DROPPED,
        "Layout within a node is srun's: put it on the `srun` line.",
    ),
    Option(
        "ntasks-per-socket",
        "",
        _VALUE,
        _DROPPED,
        "Layout within a node is srun's: put it on the `srun` line.",
    ),
    Option("oom-kill-step", "", _MAYBE, _DROPPED, _OWN, versions="from 24.11"),
    Option(
        "open-mode",
        "",
        _VALUE,
        _DROPPED,
        f"{_OWN} Put `%j` into the file's name: each attempt is a job of its own in Slurm.",
    ),
    Option("oversubscribe", "s", _NONE, _DROPPED, "A GPU has one owner."),
    Option(
        "partition",
        "p",
        _VALUE,
        _DROPPED,
        "Muster chooses the cluster, and its admin says which partition serves a GPU model.",
    ),
    Option("power", "", _VALUE, _DROPPED, _OWN, versions="to 23.11"),
    Option(
        "prefer",
        "",
        _VALUE,
        _DROPPED,
        "Features of nodes are each cluster's own. Order `?flavor=` by preference.",
    ),
    Option("priority", "", _VALUE, _DROPPED, "Order is Muster's: `priority` of the job."),
    Option(
        "propagate",
        "",
        _MAYBE,
        _DROPPED,
        "Limits of the caller's shell do not travel. Set them in the script with `ulimit`.",
    ),
    Option(
        "qos",
        "q",
        _VALUE,
        _DROPPED,
        "A job's class is Muster's, and the cluster's admin says which QOS it has there.",
    ),
    Option("spread-job", "", _NONE, _DROPPED, f"{_NODES} It packs them closely."),
    Option("stepmgr", "", _NONE, _DROPPED, _OWN, versions="from 24.05"),
    Option("thread-spec", "", _VALUE, _DROPPED, f"{_OWN} It sets threads apart for the system."),
    Option("time-min", "", _VALUE, _DROPPED, "A job gets the whole of its `--time`."),
)
