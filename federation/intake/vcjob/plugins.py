"""Volcano's plugins, and the variables that jobs expect of them.

Where a program may read what a plugin sets and Muster does not, a shell sets it first: the command
becomes `/bin/sh -c '…; exec "$@"' muster COMMAND ARGS`, and is else as it was.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from federation.core.spec.kinds import did_you_mean
from federation.intake.findings import Findings
from federation.intake.vcjob.pod import Pod
from federation.intake.vcjob.walk import Spot

PLUGINS: Final = {
    "env": "Carried: `VC_TASK_INDEX` is set before the command where it names it.",
    "svc": "Carried: pods have names. `VC_<TASK>_NUM` is set, and `VC_<TASK>_HOSTS` of a first task of one pod; other lists of hosts, and /etc/volcano, are refused where the command names them.",
    "pytorch": "Carried: `MASTER_ADDR` and `MASTER_PORT` are Muster's; `RANK` and `WORLD_SIZE`, which count pods with this plugin, are set before the command, unless it is a torchrun that names neither.",
    "hcclrank": "Carried: every pod of at most 64 has its `hccl/rankIndex`.",
    "ssh": "Refused: every pod runs the same command, and none is logged into.",
    "mpi": "Refused: every pod runs the same command, and none is logged into. Use torchrun, or start ranks by the variables that Muster sets.",
    "tensorflow": "Refused: `TF_CONFIG` names hosts of one attempt. Make it from `MASTER_ADDR` and `NODE_RANK`.",
    "ray": "Refused: head and workers run different commands. Let one command start either by `NODE_RANK`.",
}  # fmt: skip
_REFUSED: Final = ("ssh", "mpi", "tensorflow", "ray")
_LAUNCHER = re.compile(r"(?:.*/)?torchrun|torch\.distributed\.run")
_RANKED = re.compile(r"\b(?:RANK|WORLD_SIZE)\b")
_INDEX = re.compile(r"\bV[CK]_TASK_INDEX\b")
_COUNTED = re.compile(r"\bVC_([A-Z0-9_]+)_(NUM|HOSTS)\b")
_FILES: Final = "/etc/volcano"
MOST_RANKED: Final = 64  # a backend gives larger gangs several nodes a task
_NUMBER: Final = "n=$((MUSTER_FIRST_RANK + VC_TASK_INDEX))"


def read_plugins(job: Spot, findings: Findings) -> frozenset[str]:
    """The names of the plugins; those that are not taken are told."""
    plugins = job.get("spec", "plugins")
    names = set()
    if plugins and not isinstance(plugins.node.value, dict):
        findings.refuse(plugins.line, "wrong_type", plugins.path, "Give names and lists of flags.")
    for name, one in plugins.fields() if plugins else ():
        names.add(name)
        if name in _REFUSED:
            words = PLUGINS[name].removeprefix("Refused: ").replace("`", "")
            detail = f"{words[0].upper()}{words[1:]}"
            findings.refuse(one.line, "not_supported", one.path, detail)
        elif name not in PLUGINS:
            detail = f"Muster knows no such plugin.{did_you_mean(name, PLUGINS)}"
            findings.refuse(one.line, "unknown_plugin", one.path, detail)
    return frozenset(names)


def master_of(job: Spot) -> str:
    """The name of the task that holds the first rank."""
    for item in job.items("spec", "plugins", "pytorch"):
        if item.text.startswith("--master="):
            return item.text.partition("=")[2]
    return "master"


def set_variables(
    pod: Pod, names: Sequence[str], sizes: Sequence[int], plugins: frozenset[str], found: Findings
) -> tuple[dict[str, Any], dict[str, str]]:
    """Fields of `run` and variables that differ from the pod's own, for what plugins would set.

    `names` and `sizes` are the tasks', the one with the first rank first.
    """
    words = " ".join(pod.texts())
    variables: dict[str, str] = {}
    shell: list[str] = []
    if "pytorch" in plugins and _needs_rank(pod, words):
        shell.append("export RANK=$n")
        variables["WORLD_SIZE"] = str(sum(sizes))
    if _INDEX.search(words):
        shell.extend(_index(pod, sizes, found))
    counts, first = _hosts(pod, words, names, sizes, found)
    variables |= counts
    shell.extend(first)
    if _FILES in words:
        _refuse(pod, _FILES, found)
    if "hcclrank" in plugins and sum(sizes) > MOST_RANKED:
        detail = f"Pods of a gang of more than {MOST_RANKED} have no hccl/rankIndex. Count with MUSTER_FIRST_RANK and VC_TASK_INDEX."
        found.refuse(_line(pod), "variable_not_set", f"{pod.at.path}.containers[0]", detail)
    variables = {name: text for name, text in variables.items() if name not in pod.environment}
    return (_wrapped(pod, shell, found) if shell else {}), variables


def _hosts(
    pod: Pod, words: str, names: Sequence[str], sizes: Sequence[int], found: Findings
) -> tuple[dict[str, str], list[str]]:
    """What svc tells of the tasks, as far as the command names it: numbers, and the first host."""
    by_name = {_shouted(name): size for name, size in zip(names, sizes, strict=True)}
    variables, shell = dict[str, str](), list[str]()
    for task, what in dict.fromkeys(_COUNTED.findall(words)):
        if task not in by_name:
            continue
        if what == "NUM":
            variables[f"VC_{task}_NUM"] = str(by_name[task])
        elif by_name[task] == 1 and task == _shouted(names[0]):
            shell.append(f"export VC_{task}_HOSTS=$MASTER_ADDR")
        else:
            _refuse(pod, f"VC_{task}_HOSTS", found)
    return variables, shell


def _shouted(name: str) -> str:
    return name.upper().replace("-", "_")


def _needs_rank(pod: Pod, words: str) -> bool:
    """Whether a program may read the plugin's RANK. A torchrun sets its own for what it starts."""
    is_launcher = any(_LAUNCHER.fullmatch(word) for word in pod.texts()[:4])
    return not is_launcher or bool(_RANKED.search(words))


def _index(pod: Pod, sizes: Sequence[int], found: Findings) -> list[str]:
    """A pod's number within its task, as the file has them; in Muster each node is a task."""
    if len(sizes) == 1:
        return ["export VC_TASK_INDEX=$n VK_TASK_INDEX=$n"]
    if len(sizes) == 2 and sizes[0] == 1:
        return ["i=$((n > 0 ? n - 1 : 0))", "export VC_TASK_INDEX=$i VK_TASK_INDEX=$i"]
    detail = "VC_TASK_INDEX of these tasks is not known. Use NODE_RANK, which counts all pods."
    found.refuse(_line(pod), "variable_not_set", f"{pod.at.path}.containers[0]", detail)
    return []


def _refuse(pod: Pod, what: str, found: Findings) -> None:
    detail = (
        f"{what} names pods, and those are others in each attempt. Use MASTER_ADDR, NNODES and "
        "NODE_RANK."
    )
    found.refuse(_line(pod), "variable_not_set", f"{pod.at.path}.containers[0]", detail)


def _line(pod: Pod) -> int:
    return pod.lines.get("args", pod.lines.get("command", pod.lines[""]))


def _wrapped(pod: Pod, shell: list[str], found: Findings) -> dict[str, Any]:
    """The command with a shell before it that sets variables; without a command there is a warning."""
    if not pod.run.get("command"):
        detail = (
            "The image's own command is run, so nothing can be set before it: RANK and "
            "VC_TASK_INDEX are not the plugin's. Give the command, or use NODE_RANK."
        )
        found.warn(_line(pod), "rank_not_set", f"{pod.at.path}.containers[0]", detail)
        return {}
    first = "; ".join([_NUMBER, *shell, 'exec "$@"'])
    return {"command": ["/bin/sh", "-c", first, "muster", *pod.run["command"]]}
