"""Jobs that Muster made: read back without what it added, so that they can be sent again."""

from collections.abc import Callable
from typing import Final

from federation.intake.findings import Findings
from federation.intake.vcjob.document import Node
from federation.intake.vcjob.walk import Spot

FENCE, TITLE = "muster/fence", "muster/title"
# Variables that every attempt has of Muster. HOME is the account's; the rest begins as listed below.
_VARIABLES: Final = frozenset(
    {
        "GPUS_PER_NODE", "HOME", "MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "WORLD_SIZE",
    }
)  # fmt: skip
_PREFIXES: Final = ("MUSTER_", "PET_")
_OF_JOB: Final = (
    "queue",
    "priorityClassName",
    "maxRetry",
    "policies",
    "plugins",
    "ttlSecondsAfterFinished",
)
_OF_POD: Final = (
    "affinity", "automountServiceAccountToken", "restartPolicy", "securityContext",
    "terminationGracePeriodSeconds", "tolerations",
)  # fmt: skip
_SELF: Final = "muster-self"


def take_off_own(job: Spot, findings: Findings) -> None:
    """Takes off what Muster adds to a job, where its labels say that Muster made it."""
    fence = job.get("metadata", "labels", FENCE)
    if fence is None:
        return
    detail = "Muster made this job. Its pins, labels, policies and variables are taken off."
    findings.drop(fence.line, fence.path, detail)
    metadata, spec = job.get("metadata"), job.get("spec")
    if metadata:
        _rename(metadata)
        _without(metadata.get("labels"), {"muster/fence", "muster/mark"})
        _without(metadata, {"annotations", "namespace"})
    _without(spec, set(_OF_JOB))
    for task in job.items("spec", "tasks"):
        _without(task.get("template", "metadata"), {"labels"})
        pod = task.get("template", "spec")
        _without(pod, set(_OF_POD))
        _keep(pod, "volumes", lambda one: one.text_of("name") != _SELF)
        for container in pod.items("containers") if pod else ():
            _at_home(container)
            _keep(container, "env", lambda one: not _is_own(one.text_of("name")))
            _keep(container, "volumeMounts", lambda one: one.text_of("name") != _SELF)


def _rename(metadata: Spot) -> None:
    """The user's own title for the attempt's name."""
    fields = metadata.node.value
    if isinstance(fields, dict):
        title = metadata.get("annotations", TITLE)
        at = metadata.line_of("name")
        fields["name"] = Node(at, title.text if title else None, title.text if title else "")
        metadata.node.keys.setdefault("name", at)


def _is_own(name: str) -> bool:
    return name in _VARIABLES or name.startswith(_PREFIXES)


def _at_home(container: Spot) -> None:
    """Takes off a working directory that is only the account's home."""
    home = next((one for one in container.items("env") if one.text_of("name") == "HOME"), None)
    if home and home.text_of("value") == container.text_of("workingDir"):
        _without(container, {"workingDir"})


def _without(at: Spot | None, names: set[str]) -> None:
    fields = at.node.value if at else None
    if isinstance(fields, dict):
        for name in names:
            fields.pop(name, None)


def _keep(at: Spot | None, name: str, wanted: Callable[[Spot], bool]) -> None:
    items = at.get(name) if at else None
    if items and isinstance(items.node.value, list):
        items.node.value[:] = [one.node for one in items.items() if wanted(one)]
