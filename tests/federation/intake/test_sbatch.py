"""Options by example: a line or two, and the field or the refusal that comes of it."""

from typing import Any

import pytest

from federation.intake.sbatch import read_sbatch, tenant_of_account
from federation.intake.sbatch.lines import split_words
from kit.errors import FieldProblem
from tests.federation.intake.place import outcome, read

BASE = "#SBATCH --gpus-per-node=8 --time=60"


def script(*lines: str, body: str = "srun python train.py") -> str:
    return "\n".join(["#!/bin/bash", *lines, body, ""])


def field(job: dict[str, Any], path: str) -> Any:
    value: Any = job
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


FIELDS = [
    ("--job-name=a", "name", "a"),
    ('--job-name="two words"', "name", "two words"),
    ("-J x", "name", "x"),
    ("-Jx", "name", "x"),
    ("--nodes=4", "gang.nodes", 4),
    ("--nodes 4", "gang.nodes", 4),
    ("-N4", "gang.nodes", 4),
    ("-N 4-4", "gang.nodes", 4),
    ("--ntasks-per-node=4", "run.tasks_per_node", 4),
    ("--tasks-per-node=4", "run.tasks_per_node", 4),
    ("-N2 -n16", "run.tasks_per_node", 8),
    ("-N2 -n8 --ntasks-per-node=8", "run.tasks_per_node", 4),
    ("--ntasks-per-gpu=2", "run.tasks_per_node", 16),
    ("--ntasks-per-node=1", "run", None),
    ("-n 1", "run", None),
    ("--gpus=16 --nodes=2", "gang.nodes", 2),
    ("--gpus=32", "gang.nodes", 4),
    ("--ntasks=16 --ntasks-per-node=8", "gang.nodes", 2),
    ("--gpus-per-task=1 --ntasks=16", "gang.nodes", 2),
    ("--gpus-per-task=2", "run.tasks_per_node", 4),
    ("--cpus-per-gpu=6", "gang.cpus_per_gpu", 6),
    ("--cpus-per-task=64", "gang.cpus_per_gpu", 8),
    ("-c 60", "gang.cpus_per_gpu", 8),
    ("-c 4 --ntasks-per-node=8", "gang.cpus_per_gpu", 4),
    ("--ntasks-per-node=12", "gang.cpus_per_gpu", 2),
    ("--mincpus=100", "gang.cpus_per_gpu", 13),
    ("--mem=900G", "gang.memory_per_node", "900Gi"),
    ("--mem=512", "gang.memory_per_node", "512Mi"),
    ("--mem=1T", "gang.memory_per_node", "1024Gi"),
    ("--mem=1025K", "gang.memory_per_node", "2Mi"),
    ("--mem=4GB", "gang.memory_per_node", "4Gi"),
    ("--mem=0", "gang.memory_per_node", None),
    ("--mem-per-gpu=16G", "gang.memory_per_node", "128Gi"),
    ("--mem-per-cpu=2G -c64", "gang.memory_per_node", "128Gi"),
    ("--exclusive", "gang.exclusive", True),
    ("--no-requeue", "gang.max_restarts", 0),
    ("--requeue", "gang.max_restarts", None),
    ("--time=90", "time_limit", 5400),
    ("--time=90:30", "time_limit", 5460),
    ("--time=1:30:00", "time_limit", 5400),
    ("--time=2-00", "time_limit", 172_800),
    ("--time=2-00:30", "time_limit", 174_600),
    ("--time=2-00:30:01", "time_limit", 174_660),
    ("-t 00:00:01", "time_limit", 60),
    ("--signal=USR1", "checkpoint", {"signal": "USR1", "grace": 60}),
    ("--signal=SIGUSR2@120", "checkpoint", {"signal": "USR2", "grace": 120}),
    ("--signal=10@30", "checkpoint", {"signal": "USR1", "grace": 30}),
    ("--signal=B:TERM@30", "checkpoint", {"signal": "TERM", "grace": 30}),
    ("--switches=1", "topology", {"preferred": "leaf"}),
    ("--switches=1@24:00:00", "topology", {"preferred": "leaf"}),
    ("--switches=0", "topology", None),
    ("--output=%x-%j.out", "run.output", "%x-%j.out"),
    ("--output=%x-%j.out -J ab", "run.output", "ab-%j.out"),
    ("-e err", "run.error", "err"),
    ("-D /scratch/mia", "run.workdir", "/scratch/mia"),
    ("--export=ALL", "environment", None),
    ("--export=NONE", "environment", None),
    ("--export=A=1,B=x=y", "environment", {"A": "1", "B": "x=y"}),
    ("--distribution=block --export=SLURM_DISTRIBUTION=cyclic", "environment",
     {"SLURM_DISTRIBUTION": "cyclic"}),
    ("--overcommit", "environment", {"SLURM_OVERCOMMIT": "1"}),
    ("--comment=why", "labels", {"comment": "why"}),
    ("--wckey=grant7", "labels", {"wckey": "grant7"}),
    ("--clusters=aurora,borealis", "clusters", {"only": ["aurora", "borealis"]}),
    ("--cluster=aurora", "clusters", {"only": ["aurora"]}),
    ("-M all", "clusters", None),
    ("--begin=now", "not_before", None),
    ("--begin=now+60", "not_before", "2026-11-29T12:01:00.000Z"),
    ("--begin=now+2days", "not_before", "2026-12-01T12:00:00.000Z"),
    ("--begin=2027-01-31T08:00", "not_before", "2027-01-31T08:00:00.000Z"),
    ("--begin=2027-01-31", "not_before", "2027-01-31T00:00:00.000Z"),
    ("-A acme/vision/pretrain", "tenant", "acme/vision/pretrain"),
    ("-A pretrain", "tenant", "acme/vision/pretrain"),
    ("-A Pretrain", "tenant", "acme/vision/pretrain"),
    ("-C h100", "flavors", ["h100-sxm-80"]),
    ("-C A100|h100", "flavors", ["h100-sxm-80", "a100-sxm-80"]),
    ("--gres=gpu:a100:8", "flavors", ["a100-sxm-80"]),
    ("--gres=gpu:h100-sxm-80:8", "flavors", ["h100-sxm-80"]),
    ("--no-kill=off -koff", "gang.nodes", 1),
    ("-QvvW", "gang.nodes", 1),
]  # fmt: skip


@pytest.mark.parametrize(("given", "path", "value"), FIELDS, ids=lambda item: str(item)[:40])
def test_an_option_becomes_a_field(given: str, path: str, value: object) -> None:
    got = outcome(script(BASE, f"#SBATCH {given}"))
    assert "job" in got, got
    assert field(got["job"], path) == value


SHAPES = [
    ("--gres=gpu:4", (1, 4, 1)),
    ("--gpus=8", (1, 8, 1)),
    ("--gpus=h100:16 --nodes=2", (2, 8, 1)),
    ("--gpus=16 --ntasks-per-node=8 --gpus-per-task=1", (2, 8, 8)),
    ("--gpus=16 --ntasks-per-node=8 --ntasks-per-gpu=1", (2, 8, 8)),
    ("--ntasks=16 --ntasks-per-gpu=1 --nodes=2", (2, 8, 8)),
    ("--ntasks=16 --ntasks-per-node=4 --gpus-per-task=2", (4, 8, 4)),
    ("--nodes=2 --gpus-per-task=4", (2, 4, 1)),
    ("--ntasks=4 --gpus-per-task=2", (1, 8, 4)),
    ("--gres=gpu:8 --ntasks=8", (1, 8, 8)),
    ("--gres=gpu", (1, 1, 1)),
    ("--gres=gpu:h100", (1, 1, 1)),
]


@pytest.mark.parametrize(("given", "shape"), SHAPES, ids=lambda item: str(item)[:50])
def test_ways_to_ask_for_a_shape(given: str, shape: tuple[int, int, int]) -> None:
    spec = read(script("#SBATCH --time=60", f"#SBATCH {given}")).spec
    assert (spec.gang.nodes, spec.gang.gpus_per_node, spec.run.tasks_per_node) == shape


NO_SHAPE = [
    ("--gpus=64", "no_nodes"),
    ("--ntasks=64 --gpus-per-task=1", "no_nodes"),
    ("--gpus=10 --ntasks-per-node=8 --gpus-per-task=1", "uneven"),
    ("--gres=gpu:0", "no_gpus"),
    ("--gpus=0 -N2", "no_gpus"),
    ("--gres=none", "no_gpus"),
    ("--gpus-per-task=0", "no_gpus"),
    ("-n 8 -N2", "no_gpus"),
]


@pytest.mark.parametrize(("given", "code"), NO_SHAPE, ids=lambda item: str(item)[:50])
def test_what_is_no_shape(given: str, code: str) -> None:
    got = outcome(script("#SBATCH --time=60", f"#SBATCH {given}"))
    assert [found for _, found in got["refused"]] == [code]


REFUSED = [
    ("--nodes=0", "invalid_value"),
    ("--nodes=many", "invalid_value"),
    ("--nodes=2-4", "not_supported"),
    ("--nodes=1,3", "not_supported"),
    ("--nodes=1-15:4", "not_supported"),
    ("--nodes=20000", "out_of_range"),
    ("--ntasks=0", "invalid_value"),
    ("--ntasks-per-node=-1", "invalid_value"),
    ("--ntasks-per-node=2000", "out_of_range"),
    ("-N 2 -n 3", "uneven"),
    ("-N 4 -n 2", "contradiction"),
    ("-N 2 -n 32 --ntasks-per-node=8", "contradiction"),
    ("--ntasks-per-gpu=1 --ntasks-per-node=4", "contradiction"),
    ("--ntasks-per-gpu=1 -n 4", "contradiction"),
    ("--gres=gpu:4", "contradiction"),
    ("--gpus=9", "uneven"),
    ("--gpus=9 -N1", "contradiction"),
    ("--gpus-per-task=1 --ntasks-per-node=4", "contradiction"),
    ("--gpus-per-task=3", "uneven"),
    ("--cpus-per-task=4 --cpus-per-gpu=4", "contradiction"),
    ("--cpus-per-gpu=1000", "out_of_range"),
    ("--mem=1G --mem-per-gpu=1G", "contradiction"),
    ("--mem=lots", "invalid_value"),
    ("--mem=999999T", "out_of_range"),
    ("--gres=gpu:h100:8,gpu:a100:8", "invalid_value"),
    ("--gres=nvme:1", "not_supported"),
    ("--gres=gpu:8,nvme:1", "not_supported"),
    ("--gpus-per-node=h100:4,a100:4", "invalid_value"),
    ("--gres=gpu:tpu:8", "unknown_gpu"),
    ("--gres=gpu:h200:8", "flavor_not_accepted"),
    ("-C ib", "refused"),
    ("--time=0", "no_time_limit"),
    ("--time=infinite", "no_time_limit"),
    ("--time=soon", "invalid_value"),
    ("--time=1:2:3:4", "invalid_value"),
    ("--time=400-0", "out_of_range"),
    ("--signal=KILL@60", "invalid_value"),
    ("--signal=R:USR1@60", "refused"),
    ("--signal=USR1@3600", "out_of_range"),
    ("--switches=some", "invalid_value"),
    ("--switches=1@soon", "invalid_value"),
    ("--exclusive=user", "not_supported"),
    ("--requeue=expedite", "not_supported"),
    ("--no-kill", "refused"),
    ("--chdir=runs", "invalid_value"),
    ("--export=TOKEN", "no_value"),
    ("--export=MUSTER_X=1", "reserved"),
    ("--export=a-b=1", "invalid_format"),
    ("--begin=teatime", "invalid_value"),
    ("--begin=2026-02-31", "invalid_value"),
    (f"--job-name={'x' * 201}", "too_long"),
    (f"--comment={'x' * 256}", "too_long"),
    ("--clusters=Not_A_Name", "invalid_format"),
    ("--no-requeue=yes", "invalid_value"),
    ("--mpi=pmix", "unknown_option"),
    ("--nods=2", "unknown_option"),
    ("-y", "unknown_option"),
    ("--n", "ambiguous_option"),
    ("-N", "missing_value"),
    ("stray", "invalid_directive"),
    ("--", "invalid_directive"),
    ("-", "invalid_directive"),
    ("--comment='open", "unmatched_quote"),
    ("--comment :", "invalid_directive"),
    ("--comment=a\\ b", "invalid_directive"),
    ("hetjob", "heterogeneous_job"),
    ("PackJob", "heterogeneous_job"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "code"), REFUSED, ids=lambda item: str(item)[:40])
def test_an_option_is_refused_at_its_line(given: str, code: str) -> None:
    base = BASE.replace("--time=60", "") if given == "--" else BASE
    text = script("#SBATCH --time=60", base.replace("--time=60", ""), f"#SBATCH {given}")
    assert outcome(text) == {"refused": [["/lines/4", code]]}


def test_a_contradiction_names_both_lines() -> None:
    (problem,) = read(script("#SBATCH --gpus=16", "#SBATCH -N 4", BASE))
    assert "line 2, --gpus" in problem.detail
    assert "line 4, --gpus-per-node" in problem.detail


def test_everything_wrong_is_told_at_once_in_order() -> None:
    got = outcome(
        script("#SBATCH -a 1-4", "#SBATCH --nodes=x", "#SBATCH --colour=red", "#SBATCH --mem=1X")
    )
    codes = [code for _, code in got["refused"]]
    lines = [pointer for pointer, _ in got["refused"]]
    assert codes == [
        "no_gpus", "no_time_limit", "not_supported", "invalid_value", "unknown_option", "invalid_value",
    ]  # fmt: skip
    assert lines == [f"/lines/{n}" for n in (1, 1, 2, 3, 4, 5)]


def test_near_misses_get_a_hint() -> None:
    (problem,) = read(script(BASE, "#SBATCH --gpus-per-nod2=8"))
    assert problem.detail.endswith("Did you mean gpus-per-node?")


WARNED = [
    (("#SBATCH -N2 -N3",), [[3, "repeated", "--nodes"]]),
    (("#SBATCH --requeue --no-requeue",), [[3, "repeated", "--no-requeue"]]),
    (("#SBATCH --switches=2",), [[3, "switches_not_counted", "--switches"]]),
    (("#SBATCH --output=%x",), [[3, "name_pattern", "--output"]]),
    (("#SBATCH --signal=B:USR1@10",), [[3, "signal_scope", "--signal"]]),
    (("#SBATCH --begin=2027-01-31",), [[3, "utc_assumed", "--begin"]]),
    (("#SBATCH -n 4",), [[3, "nodes_assumed", "--nodes"]]),
    (("#SLURM --nodes=2",), [[3, "old_directive", "#SLURM"]]),
    (("", "true", "#SBATCH --mem=1G"), [[5, "directive_ignored", "#SBATCH"]]),
]


@pytest.mark.parametrize(("lines", "warnings"), WARNED, ids=str)
def test_what_is_odd_is_warned_about(lines: tuple[str, ...], warnings: list[Any]) -> None:
    assert outcome(script(BASE, *lines))["warnings"] == warnings


TORCHRUN = "torchrun --nproc-per-node=8 --rdzv-endpoint=$A:1 train.py"
MISTAKES = [
    (f"srun {TORCHRUN}", ["torchrun_per_task"]),
    (f"srun bash -c '{TORCHRUN}'", ["torchrun_per_task"]),
    (f"srun bash -c '\n  cd /x\n  {TORCHRUN}'", ["torchrun_per_task"]),
    (f"RUN='{TORCHRUN}'\nsrun $RUN", ["torchrun_per_task"]),
    (f"srun \\\n  --label \\\n  {TORCHRUN}", ["torchrun_per_task"]),
    ("srun torchrun --rdzv-endpoint=$A:1 train.py", ["torchrun_per_task"]),
    ("srun python -m torch.distributed.run --nproc_per_node $N --rdzv_endpoint x t.py",
     ["torchrun_per_task"]),
    ("srun torchrun --nproc-per-node=1 --rdzv-endpoint=$A:1 train.py", []),
    (f"srun --ntasks-per-node=1 {TORCHRUN}", []),
    (f"srun -n $SLURM_NNODES {TORCHRUN}", []),
    (f"# srun {TORCHRUN}", []),
    (f"echo \"don't\"\nsrun hostname\n{TORCHRUN}", []),
    ("srun torchrun --nproc-per-node=1 train.py", ["no_rendezvous"]),
    ("export MASTER_ADDR=$(hostname)\nsrun torchrun --nproc-per-node=1 train.py", []),
    ("srun python train.py", []),
    ("cd $SLURM_SUBMIT_DIR", ["variable_not_set"]),
    ("echo ${SLURM_ARRAY_TASK_ID} $SLURM_JOB_ID $SLURM_NNODES", ["variable_not_set"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "codes"), MISTAKES, ids=lambda item: str(item)[:50])
def test_known_mistakes_are_found(body: str, codes: list[str]) -> None:
    got = outcome(script(BASE, "#SBATCH -N2 --ntasks-per-node=8", body=body))
    assert [code for _, code, _ in got["warnings"]] == codes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--a=1 -b", ["--a=1", "-b"]),
        ("  --a\t1 ", ["--a", "1"]),
        ("--a=1 # --b=2", ["--a=1"]),
        ("--a=x#y", ["--a=x"]),
        ('--a="x # y"', ["--a=x # y"]),
        ("--a='x y'z", ["--a=x yz"]),
        (r"--a=x\"y", ['--a=x"y']),
        (r'--a="say \"hi\""', ['--a=say "hi"']),
        ("''", []),
        ("--a=1 '' --b=2", ["--a=1"]),
        ("--a=1 ':x' --b=:", ["--a=1", ":x", "--b=:"]),
        ("", []),
    ],
)
def test_words_are_split_as_sbatch_splits_them(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_a_directive_needs_no_blank_behind_its_word() -> None:
    assert outcome("#!/bin/sh\n#SBATCH--gpus=1\n#SBATCH-t5\n")["job"]["time_limit"] == 300


def test_pbs_lines_are_fine_once_they_are_ignored() -> None:
    pbs = "#PBS -l nodes=2"
    assert outcome(script(BASE, pbs))["refused"] == [["/lines/3", "not_supported"]]
    assert "job" in outcome(script(BASE, pbs, "#SBATCH --ignore-pbs"))


@pytest.mark.parametrize(
    ("account", "found", "tenant"),
    [
        ("vision", ["acme/vision"], "acme/vision"),
        ("acme", ["acme", "rivals/acme"], "acme"),
        ("speech", ["acme/speech", "rivals/speech"], "ambiguous_tenant"),
        ("nowhere", [], "unknown_tenant"),
    ],
)
def test_an_account_names_a_tenant(account: str, found: list[str], tenant: str) -> None:
    given = read_sbatch(script(BASE, f"#SBATCH -A {account}")).account
    got = tenant_of_account(given, found, ["acme/vision"])
    if isinstance(got, FieldProblem):
        assert (got.pointer, got.code) == ("/lines/3", tenant)
    else:
        assert got == tenant


def test_without_account_and_parameter_there_is_no_tenant() -> None:
    got = tenant_of_account(None, [], ["acme/vision"])
    assert isinstance(got, FieldProblem)
    assert (got.pointer, got.code) == ("?tenant", "no_tenant")
    assert "acme/vision" in got.detail


def test_flavors_that_are_named_are_kept_in_order() -> None:
    got = outcome(script(BASE), asked=("a100-sxm-80", "h100-sxm-80"))
    assert got["job"]["flavors"] == ["a100-sxm-80", "h100-sxm-80"]
    got = outcome(script(BASE, "#SBATCH --gres=gpu:h100:8"), asked=("a100-sxm-80",))
    assert got == {"refused": [["/lines/3", "flavor_not_accepted"]]}
    got = outcome(script(BASE), asked=("Not A Name",))
    assert got == {"refused": [["?flavor", "invalid_format"]]}


def test_a_tenant_without_quota_is_told_so() -> None:
    assert outcome(script(BASE), entitled=()) == {"refused": [["/lines/1", "no_flavor"]]}


def test_a_missing_tenant_is_told_beside_the_rest() -> None:
    missing = FieldProblem("?tenant", "no_tenant", "Say which.")
    got = outcome(script("#SBATCH --gpus=1"), tenant=missing)
    assert got == {"refused": [["?tenant", "no_tenant"], ["/lines/1", "no_time_limit"]]}


def test_what_is_found_later_is_told_at_its_line() -> None:
    made = read(script(BASE, "#SBATCH -N 9"), asked=("h100-sxm-80",))
    told = made.told(FieldProblem("/gang/nodes", "gang_too_large", "Too large."))
    assert (told.pointer, told.detail) == ("/lines/3", "line 3, gang.nodes: Too large.")
    assert made.told(FieldProblem("/tenant", "tenant_closed", "Closed.")).pointer == "?tenant"
    assert made.told(FieldProblem("/flavors/0", "unknown_flavor", "None.")).pointer == "?flavor"
