"""A script that names an image: what its one `srun` starts, as a container a node.

Only a body is read of which every line is understood: settings, literal variables, and one `srun` of a
torchrun (or of a python on one node). Of any other the reason is told, and the script is what it was.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federation.core.spec import parse_spec
from federation.intake.findings import Findings
from federation.intake.sbatch.arguments import Given
from federation.intake.sbatch.lines import Lines
from federation.intake.sbatch.shape import Shape
from federation.intake.sbatch.shell import Variable, Word, assignment, filled, literal, read_words

_PYXIS: Final = re.compile(r"--container-image\b")
# Muster says itself where ranks meet. The value is not run, whatever it is, so nothing may follow it.
_MEETING: Final = re.compile(
    r"""(?:export\s+)?MASTER_(?:ADDR|PORT)=(["']?)"""
    r"""(?:\$\(\([^()]*\)\)|\$\([^()]*\)|[^\s;&|<>()"'`]*)\1"""
)
_IDLE: Final = ("set", "echo", "date", "hostname", "true")
# What a pod has for what Slurm says, where each node has one task.
_POD_HAS: Final = {
    **{name: name for name in ("MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "GPUS_PER_NODE")},
    "SLURM_NNODES": "NNODES",
    "SLURM_JOB_NUM_NODES": "NNODES",
    "SLURM_NODEID": "NODE_RANK",
    "SLURM_GPUS_ON_NODE": "GPUS_PER_NODE",
}  # fmt: skip
_IGNORED: Final = frozenset(
    {
        "container-env", "container-name", "container-writable", "cpu-bind", "error", "gpu-bind",
        "kill-on-bad-exit", "label", "mpi", "no-container-entrypoint", "no-container-mount-home",
        "no-container-remap-root", "ntasks-per-node", "output", "unbuffered",
    }
)  # fmt: skip
_WITHOUT_VALUE: Final = frozenset(
    name for name in _IGNORED if name.startswith("no-") or name in ("label", "unbuffered")
) | {"container-writable"}
_LETTERS: Final = {"-l": "label", "-u": "unbuffered"}
_PYTHON: Final = re.compile(r"(?:.*/)?python[0-9.]*")
_TORCHRUN: Final = re.compile(r"(?:.*/)?torchrun")
_MODULES: Final = ("torch.distributed.run", "torch.distributed.launch")
_LONGEST: Final = 1 << 16
MOST_RANKED: Final = 64  # a backend gives larger gangs several nodes a task, without NODE_RANK


class _UnreadError(Exception):
    """Why the body cannot be run in containers."""

    def __init__(self, line: int, detail: str) -> None:
        super().__init__(detail)
        self.line, self.detail = line, detail


@dataclass(slots=True)
class _Body:
    """What the lines of the body say. `known` are variables of known words, exported or not."""

    known: dict[str, Word] = field(default_factory=dict)
    exported: dict[str, str] = field(default_factory=dict)
    srun: list[Word] = field(default_factory=list)
    line: int = 0


def set_image(
    given: Mapping[str, Given], lines: Lines, shape: Shape, body: dict[str, Any], found: Findings
) -> None:
    """Fills `run.image` and what goes with it, where `#SBATCH` or the `srun` line names an image.

    From an `#SBATCH` line the job is the image alone, or refused: over Muster Slurm reads no `#SBATCH`
    lines, so that the script would run without its image there.
    """
    asked = given.get("container-image")
    in_srun = _names_image(lines)
    if asked is None and not in_srun:
        _tell_alone(given, found)
        return
    try:
        run, exported, line = _read(given, lines, shape)
    except _UnreadError as error:
        _tell_unread(error, None if in_srun else asked, found)
        return
    if asked and not in_srun:
        _without_script(asked, given, body, found)
    elif asked:
        found.drop(asked.line, asked.option.long, "The srun line names the image.")
    with_image = dict(body) | {"run": body["run"] | run}
    if exported:
        with_image["environment"] = body.get("environment", {}) | exported
    if in_srun and (detail := _made_worse(body, with_image)):
        _tell_unread(_UnreadError(line, detail), None, found)
        return
    body |= with_image
    found.origins |= {"/run": line} | {f"/run/{name}": line for name in run}
    if asked and not in_srun:
        found.origins["/run/image"] = asked.line


def _names_image(lines: Lines) -> bool:
    """Whether a command of the body names an image; comments do not count."""
    if "--container-image" not in lines.body:
        return False
    return any(_PYXIS.search(text) and text[0] != "#" for _, text in _commands(lines))


def _made_worse(body: dict[str, Any], with_image: dict[str, Any]) -> str:
    """What is wrong with a job only when it has the image; a script that was fine stays fine."""
    problems = parse_spec(with_image)
    if not isinstance(problems, tuple) or isinstance(parse_spec(body), tuple):
        return ""
    return problems[0].detail


def _tell_alone(given: Mapping[str, Given], found: Findings) -> None:
    """A directory in a container where there is none."""
    if one := given.get("container-workdir"):
        detail = "It is for a container. Name its --container-image, too."
        found.refuse(one.line, "refused", one.option.long, detail)


def _tell_unread(error: _UnreadError, asked: Given | None, found: Findings) -> None:
    """Why the image is not for Kubernetes; `asked` is the `#SBATCH` line that needs it to be."""
    if asked is None:
        detail = f"The image is for Slurm with Pyxis only. {error.detail}"
        found.warn(error.line, "image_not_read", "", detail)
        return
    where = "" if error.line == asked.line else f"Line {error.line} cannot be run in pods. "
    detail = f"{where}{error.detail} On the srun line the image is for Slurm with Pyxis."
    found.refuse(asked.line, "not_supported", asked.option.long, detail)


def _without_script(
    asked: Given, given: Mapping[str, Given], body: dict[str, Any], found: Findings
) -> None:
    """The job is its image alone."""
    body["run"] = {name: text for name, text in body["run"].items() if name == "workdir"}
    for name in ("output", "error"):
        if one := given.get(name):
            detail = "Its cluster keeps what a container writes."
            found.drop(one.line, one.option.long, detail)
    detail = "Slurm is not told of it here. On the srun line the job can go to Slurm, too."
    found.warn(asked.line, "image_only", asked.option.long, detail)


def _read(
    given: Mapping[str, Given], lines: Lines, shape: Shape
) -> tuple[dict[str, Any], dict[str, str], int]:
    """Fields of `run`, the variables that the body exports, and the line of the srun.

    Raises:
        _UnreadError: it cannot be read safely.
    """
    read = _read_body(lines)
    if not read.srun:
        raise _UnreadError(lines.body_from, "There is no srun that starts the image.")
    options, command = _split(read)
    run: dict[str, Any] = {}
    if "container-image" in options:
        if "container-workdir" in options:
            raise _UnreadError(read.line, "run.workdir would be the script's on Slurm, too.")
        run["image"] = _image(options["container-image"], read.line)
    elif asked := given.get("container-image"):
        run["image"] = _image(asked.text, asked.line)
        if "container-workdir" in given:
            run["workdir"] = given["container-workdir"].text
    else:
        raise _UnreadError(read.line, "The srun that is read names no image.")
    run["command"] = _command(command, shape, read.line)
    return run, read.exported, read.line


def _commands(lines: Lines) -> Iterator[tuple[int, str]]:
    """The body's commands, continued lines joined, with the line where each begins."""
    number, begun, joined = lines.body_from, 0, ""
    for text in lines.body.split("\n"):
        begun = begun or number
        number += 1
        if text.endswith("\\"):
            joined += text[:-1] + " "
            continue
        yield begun, (joined + text).strip()
        joined, begun = "", 0
    if joined:
        yield begun, joined.strip()


def _read_body(lines: Lines) -> _Body:
    if len(lines.body) > _LONGEST:
        raise _UnreadError(lines.body_from, f"It is longer than {_LONGEST} characters.")
    read = _Body()
    for line, text in _commands(lines):
        if not text or text.startswith("#") or _MEETING.fullmatch(text):
            continue
        words = read_words(text)
        if words is None:
            detail = "It is more than a simple command, and a pod has no shell of the script's."
            raise _UnreadError(line, detail)
        words = [filled(word, read.known) for word in words]
        _take(line, words, read)
    return read


def _take(line: int, words: list[Word], read: _Body) -> None:
    first = literal(words[0]) or ""
    if assigned := assignment(words):
        name, word, is_exported = assigned
        _assign(line, name, word, read, is_exported=is_exported)
    elif first == "srun" and not read.srun:
        read.srun, read.line = words, line
    elif first == "srun":
        raise _UnreadError(line, "There is more than one srun.")
    elif first not in _IDLE:
        raise _UnreadError(
            line, f"{first[:60] or 'It'} runs beside the srun, and would not in pods."
        )


def _assign(line: int, name: str, word: Word, read: _Body, *, is_exported: bool) -> None:
    """A literal, or a variable that a pod has; exported only what it has under that very name."""
    value = literal(word)
    names = [_POD_HAS.get(part.name, "") for part in word if isinstance(part, Variable)]
    is_pods = names == [name] and _is_bare(word)
    if not all(names) or (value is None and is_exported and not is_pods):
        raise _UnreadError(line, f"The value of {name[:60]} is not known before it runs.")
    if sum(len(part) for part in word if isinstance(part, str)) > _LONGEST:
        raise _UnreadError(line, f"The value of {name[:60]} is too long.")
    read.known[name] = word
    if value is not None and is_exported:
        read.exported[name] = value


def _is_bare(word: Word) -> bool:
    """A variable alone, in quotes or not."""
    return all(isinstance(part, Variable) or not part for part in word)


def _split(read: _Body) -> tuple[dict[str, str], list[Word]]:
    """The options of srun that matter, and the command behind them."""
    options: dict[str, str] = {}
    words = read.srun[1:]
    while words:
        text = literal(words[0])
        if text is None or not text.startswith("-"):
            break
        words = words[1:]
        name, equals, value = text.removeprefix("--").partition("=")
        name = _LETTERS.get(text, name)
        if name not in _IGNORED and name not in ("container-image", "container-workdir"):
            detail = f"srun {text.partition('=')[0][:60]} has no counterpart in Kubernetes."
            raise _UnreadError(read.line, detail)
        if not equals and name not in _WITHOUT_VALUE and name != "kill-on-bad-exit":
            value, words = literal(words[0]) or "" if words else "", words[1:]
        options[name] = value
    return options, words


def _image(text: str, line: int) -> str:
    """Pyxis' `REGISTRY#IMAGE:TAG` as Kubernetes writes it."""
    name = text.removeprefix("docker://").rpartition("@sha256")[0] or text.removeprefix("docker://")
    if not text or "://" in name or name.startswith((".", "/")) or name.endswith(".sqsh"):
        raise _UnreadError(line, f"{text[:60]!r} is no image of a registry.")
    if re.fullmatch(r"[\w-]+(?:\.[\w-]+)+", name):
        detail = f"{text[:60]!r} is a registry alone. Behind # begins a comment; use quotes."
        raise _UnreadError(line, detail)
    return text.removeprefix("docker://").replace("#", "/")


def _command(words: list[Word], shape: Shape, line: int) -> list[str]:
    """The command with the variables that a pod has, as Kubernetes fills them in."""
    plain = [literal(word) or "" for word in words]
    first = plain[0] if plain else ""
    is_python = bool(_PYTHON.fullmatch(first))
    by_module = is_python and plain[1:2] == ["-m"] and "".join(plain[2:3]) in _MODULES
    is_torchrun = by_module or bool(_TORCHRUN.fullmatch(first))
    is_alone = is_python and shape.nodes == 1
    if not is_torchrun and not (is_alone and shape.tasks_per_node == 1):
        detail = (
            "A pod a node starts a torchrun, or on one node a python: not what srun starts here."
        )
        raise _UnreadError(line, detail)
    return [_written(word, shape, line) for word in words]


def _written(word: Word, shape: Shape, line: int) -> str:
    text = ""
    for part in word:
        if isinstance(part, str):
            if "SLURM_" in part:
                raise _UnreadError(line, "A pod has no variables of Slurm's.")
            text += part.replace("$(", "$$(")
            continue
        name = _POD_HAS.get(part.name)
        if name is None or (name == "NODE_RANK" and shape.nodes > MOST_RANKED):
            raise _UnreadError(line, f"A pod has no variable {part.name[:60]}.")
        text += f"$({name})"
    return text
