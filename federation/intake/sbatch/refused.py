"""The options of sbatch with which a job is not taken, each with the reason and what helps."""

from typing import Final

from federation.intake.fate import Fate
from federation.intake.sbatch.option import Option, Takes

_NONE, _VALUE, _MAYBE = Takes.NOTHING, Takes.VALUE, Takes.OPTIONAL
_LATER, _REFUSED = Fate.LATER, Fate.REFUSED

_SHOWS = "With it sbatch prints something and submits nothing. Take it out."
_NODES = "Muster pins whole gangs to nodes by itself."
_HARDWARE = "It asks for a kind of node. Ask for a GPU model, with `--gres` or `?flavor=`."
_OWN = "The cluster's admin decides it."
_HOST = (
    "Kubernetes has no directories of the nodes. Put the option on the `srun` line, where the "
    "cluster has Pyxis."
)
_MORE = "Put the option on the `srun` line, where the cluster has Pyxis."
_POD = "A container of Kubernetes is such anyway."

LATER: Final = (
    Option(
        "array",
        "a",
        _VALUE,
        _LATER,
        "Job arrays are not supported yet. Submit one job for each index.",
    ),
    Option("deadline", "", _VALUE, _LATER, "Deadlines are not supported yet."),
    Option(
        "dependency",
        "d",
        _VALUE,
        _LATER,
        "Dependencies are not supported yet. Submit the job when what it needs is there.",
    ),
    Option(
        "hold",
        "H",
        _NONE,
        _LATER,
        "Submitting held is not supported yet. Take it out and hold the job with `POST /jobs/<id>/hold`.",
    ),
    Option(
        "segment",
        "",
        _VALUE,
        _LATER,
        "Segments of blocks are not supported yet. Nearness of all nodes is `topology`.",
        versions="from 24.05",
    ),
    Option("tmp", "", _VALUE, _LATER, "Local disks are not known to Muster yet."),
)

REFUSED: Final = (
    Option("autocomplete", "", _VALUE, _REFUSED, _SHOWS, versions="from 23.02"),
    Option("batch", "", _VALUE, _REFUSED, _HARDWARE),
    Option("bb", "", _VALUE, _REFUSED, "Muster has no burst buffers. Stage files in the script."),
    Option("bbf", "", _VALUE, _REFUSED, "Muster has no burst buffers. Stage files in the script."),
    Option(
        "cluster-constraint",
        "",
        _VALUE,
        _REFUSED,
        "Name clusters with `--clusters`, or leave the choice to Muster.",
    ),
    Option(
        "consolidate-segments",
        "",
        _NONE,
        _REFUSED,
        "Segments of blocks are not supported.",
        versions="from 25.11",
    ),
    Option(
        "container",
        "",
        _VALUE,
        _REFUSED,
        "OCI bundles are not supported. Start the container in the script.",
    ),
    Option(
        "container-id",
        "",
        _VALUE,
        _REFUSED,
        "OCI bundles are not supported. Start the container in the script.",
        versions="from 23.02",
    ),
    Option("context", "", _VALUE, _REFUSED, _OWN),
    Option("cores-per-socket", "", _VALUE, _REFUSED, _HARDWARE),
    Option(
        "export-file",
        "",
        _VALUE,
        _REFUSED,
        "It is a file where sbatch is called. Write `--export=NAME=value`, or set variables in the script.",
    ),
    Option("external", "", _NONE, _REFUSED, "A job runs its script.", versions="from 25.05"),
    Option("extra-node-info", "B", _VALUE, _REFUSED, _HARDWARE),
    Option("gid", "", _VALUE, _REFUSED, "A job runs as your own account on the cluster."),
    Option(
        "gpus-per-socket",
        "",
        _VALUE,
        _REFUSED,
        "Muster counts GPUs by node. Use `--gpus-per-node`.",
    ),
    Option("help", "h", _NONE, _REFUSED, _SHOWS),
    Option(
        "input",
        "i",
        _VALUE,
        _REFUSED,
        "A job's standard input is empty. Redirect it in the script.",
    ),
    Option(
        "licenses",
        "L",
        _VALUE,
        _REFUSED,
        "Muster counts no licences, and the job must not start without.",
    ),
    Option("mcs-label", "", _VALUE, _REFUSED, _OWN),
    Option("nodefile", "F", _VALUE, _REFUSED, f"{_NODES} Take the line out."),
    Option(
        "nodelist",
        "w",
        _VALUE,
        _REFUSED,
        f"{_NODES} Take the line out, or name clusters with `--clusters`.",
    ),
    Option("ntasks-per-tres", "", _VALUE, _REFUSED, "Use `--ntasks-per-gpu`."),
    Option("reboot", "", _NONE, _REFUSED, _OWN),
    Option(
        "reservation",
        "",
        _VALUE,
        _REFUSED,
        "A reservation belongs to one cluster. Take the line out, and Muster finds the place.",
    ),
    Option(
        "resources",
        "",
        _VALUE,
        _REFUSED,
        "Muster counts GPUs, CPUs and memory.",
        versions="from 25.11",
    ),
    Option("resv-ports", "", _MAYBE, _REFUSED, "Put it on the `srun` line.", versions="from 24.05"),
    Option("sockets-per-node", "", _VALUE, _REFUSED, _HARDWARE),
    Option(
        "spread-segments",
        "",
        _NONE,
        _REFUSED,
        "Segments of blocks are not supported.",
        versions="from 25.11",
    ),
    Option("test-only", "", _NONE, _REFUSED, "Use `?dry_run=true`."),
    Option(
        "tres-per-task",
        "",
        _VALUE,
        _REFUSED,
        "Use `--gpus-per-task` and `--cpus-per-task`.",
        versions="from 23.02",
    ),
    Option("uid", "", _VALUE, _REFUSED, "A job runs as your own account on the cluster."),
    Option("usage", "", _NONE, _REFUSED, _SHOWS),
    Option("version", "V", _NONE, _REFUSED, _SHOWS),
    Option("wrap", "", _VALUE, _REFUSED, "A script and --wrap exclude each other."),
)

_IMAGE = (
    "`run.image`, with the command of the body's one `srun` as `run.command`; without `run.script`, as "
    "Slurm would not be told. On the `srun` line it is read, too, and the job is both. See the how-to."
)

PYXIS: Final = tuple(
    Option(name, "", takes, fate, words, versions="Pyxis")
    for name, takes, fate, words in (
        ("container-entrypoint", _NONE, _REFUSED, _MORE),
        ("container-env", _VALUE, Fate.DROPPED, "A container has the job's variables."),
        ("container-image", _VALUE, Fate.MAPPED, _IMAGE),
        ("container-mount-home", _NONE, _REFUSED, _HOST),
        ("container-mounts", _VALUE, _REFUSED, _HOST),
        ("container-name", _VALUE, Fate.DROPPED, "Containers are not kept."),
        ("container-readonly", _NONE, _REFUSED, _MORE),
        ("container-remap-root", _NONE, _REFUSED, _MORE),
        ("container-save", _VALUE, _REFUSED, _MORE),
        ("container-workdir", _VALUE, Fate.MAPPED, "`run.workdir`, with `--container-image`."),
        ("container-writable", _NONE, Fate.DROPPED, _POD),
        ("no-container-entrypoint", _NONE, Fate.DROPPED, _POD),
        ("no-container-mount-home", _NONE, Fate.DROPPED, _POD),
        ("no-container-remap-root", _NONE, Fate.DROPPED, _POD),
    )
)

# What people write into #SBATCH lines though only srun knows it: worth a better word than "unknown".
OF_SRUN: Final = frozenset(
    {
        "accel-bind", "bcast", "cpu-bind", "cpu_bind", "epilog", "exact", "het-group", "immediate",
        "jobid", "kill-on-bad-exit", "label", "mpi", "multi-prog", "no-allocate", "overlap",
        "preserve-env", "prolog", "pty", "relative", "task-epilog", "task-prolog", "unbuffered",
        "whole", "x11",
    }
)  # fmt: skip
