"""Known mistakes in what a script runs: found by their looks, told as warnings.

The script itself is never changed. A shell is not understood here, only searched: a warning may be
wrong, so none keeps a job from being taken.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from federation.intake.findings import Findings
from federation.intake.sbatch.lines import Lines
from federation.intake.sbatch.shape import Shape

_MOST_JOINED = 50
_LAUNCHER = re.compile(r"\btorchrun\b|\btorch\.distributed\.(?:run|launch)\b")
_PROCESSES = re.compile(r"--nproc[-_]per[-_]node(?:\s+|=)[\"']?([^\s\"']+)")
_MEETS = re.compile(r"--(?:rdzv[-_]endpoint|master[-_]addr|standalone)\b")
_SRUN = re.compile(r"\bsrun\b")
_ONE_TASK = re.compile(
    r"--(?:n?tasks[-_]per[-_]node)(?:\s+|=)[\"']?1\b"
    r"|(?:--ntasks(?:\s+|=)|-n\s*)[\"']?(?:1\b|\$\{?(?:SLURM_(?:JOB_NUM_NODES|NNODES)|NNODES)\b)"
)
_QUOTE = re.compile(r"""\\.|["'#]""")
_ASSIGNED = re.compile(r"^\s*(?:export\s+|local\s+|readonly\s+)?(\w+)\+?=")
_ADDRESS = re.compile(r"\b(?:MASTER_ADDR|PET_RDZV_ENDPOINT)=")
_VARIABLE = re.compile(r"\$\{?(SLURM_[A-Z_]+)")
_ABSENT = {
    "SLURM_SUBMIT_DIR": "Use $PWD: the job starts in its working directory.",
    "SLURM_SUBMIT_HOST": "A job over Muster has no such host.",
    "SLURM_JOB_NAME": "It is the attempt's name there; use $MUSTER_JOB_NAME.",
    "SLURM_NTASKS_PER_NODE": "Use $SLURM_TASKS_PER_NODE, or write the number.",
    "SLURM_GPUS": "Use $WORLD_SIZE, the number of GPUs.",
    "SLURM_GPUS_PER_NODE": "Use $GPUS_PER_NODE or $SLURM_GPUS_ON_NODE.",
    "SLURM_GPUS_PER_TASK": "Write the number.",
    "SLURM_NTASKS_PER_GPU": "Write the number.",
    "SLURM_CPUS_PER_GPU": "Write the number.",
    "SLURM_MEM_PER_GPU": "Write the number.",
    "SLURM_JOB_DEPENDENCY": "Dependencies are not supported yet.",
    "SLURM_EXPORT_ENV": "The job's environment is in the job.",
    "SLURM_UMASK": "Set umask in the script.",
}
_PREFIXES = {
    "SLURM_ARRAY_": "Job arrays are not supported yet.",
    "SLURM_HET_": "Heterogeneous jobs are not supported.",
}


@dataclass(frozen=True, slots=True)
class _Command:
    """A command with its continued lines, from the line where it begins."""

    line: int
    text: str


def warn_of_mistakes(lines: Lines, shape: Shape, findings: Findings) -> None:
    """What will probably not do what its author means."""
    _warn_of_variables(lines, findings)
    if not _LAUNCHER.search(lines.body):
        return
    commands = list(_commands(lines))
    launches = [command for command in commands if _LAUNCHER.search(command.text)]
    if shape.tasks_per_node > 1:
        _warn_of_tasks(commands, launches, shape, findings)
    if shape.nodes > 1 and not _ADDRESS.search(lines.body):
        _warn_of_rendezvous(launches, findings)


def _commands(lines: Lines) -> Iterator[_Command]:
    """The commands of the body: lines joined where they are continued or a quote is open."""
    number, begun, quote, parts = lines.body_from - 1, 0, "", list[str]()
    for line in lines.body.split("\n"):
        number += 1
        if not parts and line.lstrip().startswith("#"):
            continue
        begun = begun if parts else number
        parts.append(line.removesuffix("\\"))
        quote = _quote_after(line, quote)
        if not (quote or line.endswith("\\")) or len(parts) >= _MOST_JOINED:
            yield _Command(begun, " ".join(parts))
            parts, quote = [], ""
    if parts:
        yield _Command(begun, " ".join(parts))


def _quote_after(line: str, quote: str) -> str:
    """The quote that is open at the end of a line, if `quote` was at its beginning."""
    for found in _QUOTE.finditer(line):
        mark = found[0][-1]
        if quote:
            is_end = mark == quote and (quote == "'" or len(found[0]) == 1)
            quote = "" if is_end else quote
        elif found[0] in ("'", '"'):
            quote = mark
        elif found[0] == "#" and (found.start() == 0 or line[found.start() - 1].isspace()):
            break
    return quote


def _warn_of_tasks(
    commands: list[_Command], launches: list[_Command], shape: Shape, findings: Findings
) -> None:
    """torchrun starts the processes of a node itself; srun starts it once for every task."""
    held = {match[1] for launch in launches if (match := _ASSIGNED.match(launch.text))}
    for command in commands:
        if not _SRUN.search(command.text) or _ONE_TASK.search(command.text):
            continue
        launch = _started(command, launches, held)
        if launch is None:
            continue
        given = _PROCESSES.search(launch.text)
        if given and given[1] == "1":
            continue
        tasks, count = shape.tasks_per_node, _count(given, shape)
        detail = (
            f"srun starts {tasks} tasks a node, and torchrun in each of them {count} processes: "
            f"{tasks * count} processes for {shape.gpus_per_node} GPUs. "
            "Write --ntasks-per-node=1."
        )
        findings.warn(launch.line, "torchrun_per_task", "--ntasks-per-node", detail)
        return


def _started(command: _Command, launches: list[_Command], held: set[str]) -> _Command | None:
    """The launch that an srun command starts: its own, or one that a variable holds."""
    if _LAUNCHER.search(command.text):
        return command
    names = re.findall(r"\$\{?(\w+)", command.text)
    if not held.intersection(names):
        return None
    return next(one for one in launches if (m := _ASSIGNED.match(one.text)) and m[1] in names)


def _count(given: re.Match[str] | None, shape: Shape) -> int:
    """Processes of one torchrun. Without a number Muster's PET_NPROC_PER_NODE counts: the GPUs."""
    if given and given[1].isascii() and given[1].isdigit() and len(given[1]) < 6:
        return int(given[1])
    return shape.gpus_per_node


def _warn_of_rendezvous(launches: list[_Command], findings: Findings) -> None:
    if any(_MEETS.search(launch.text) for launch in launches):
        return
    detail = (
        "torchrun is given no rendezvous address. Muster sets PET_RDZV_ENDPOINT, MASTER_ADDR and "
        "MASTER_PORT to the first node, so it works here; under sbatch alone each node would train "
        "by itself. Write --rdzv-endpoint to be sure."
    )
    findings.warn(launches[0].line, "no_rendezvous", "", detail)


def _warn_of_variables(lines: Lines, findings: Findings) -> None:
    """Variables of Slurm's that sbatch sets and a submission over REST does not; each once."""
    seen: set[str] = set()
    for found in _VARIABLE.finditer(lines.body):
        name = found[1]
        if findings.has_warned:
            return
        if name in seen:
            continue
        seen.add(name)
        why = _ABSENT.get(name) or next(
            (words for prefix, words in _PREFIXES.items() if name.startswith(prefix)), ""
        )
        if why:
            line = lines.body_from + lines.body.count("\n", 0, found.start())
            findings.warn(line, "variable_not_set", "", f"${name} is not set as by sbatch. {why}")
