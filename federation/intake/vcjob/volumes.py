"""Volumes and where they are seen: claims, secrets, and memory at /dev/shm."""

from collections.abc import Iterable
from typing import Any, Final

from federation.core.spec.quantities import write_memory
from federation.intake.findings import Findings
from federation.intake.vcjob.quantities import read_mebibytes
from federation.intake.vcjob.walk import Spot

_SHM: Final = "/dev/shm"  # noqa: S108 (a mount in the pod)
Run = dict[str, Any]
Lines = dict[str, int]


def read_volumes(
    job: Spot, pod: Spot, container: Spot, run: Run, lines: Lines, findings: Findings
) -> None:
    """Fills `volumes`, `secrets` and `shm` of `run`, and the lines that they come from.

    `shm` is None where its size is the pod's memory.
    """
    into = _Mounts(run, lines, findings)
    for one in job.items("spec", "volumes"):
        claim, mount = one.get("volumeClaimName"), one.get("mountPath")
        if claim is None or mount is None:
            if one.get("volumeClaim") is None:
                into.tell_missing(one, "volumeClaimName and mountPath")
            continue
        into.put("volumes", {"claim": claim.text, "mount": mount.text}, one.line)
    named: dict[str, Spot] = {}
    for volume in pod.items("volumes"):
        name = volume.text_of("name")
        if not name or name in named:
            detail = "Give each volume a name of its own."
            findings.refuse(volume.line, "invalid_value", volume.path, detail)
        named[name] = volume
    mounts = list(container.items("volumeMounts"))
    for mount in mounts:
        volume_of = named.get(mount.text_of("name"))
        if volume_of is None:
            detail = f"There is no volume {mount.text_of('name')[:60]!r} in the pod."
            findings.refuse(mount.line, "unknown_volume", mount.path, detail)
        else:
            into.mount(volume_of, mount)
    _tell_unused(named, mounts, findings)


def _tell_unused(named: dict[str, Spot], mounts: Iterable[Spot], findings: Findings) -> None:
    used = {mount.text_of("name") for mount in mounts}
    for name, volume in named.items():
        if name not in used:
            findings.drop(volume.line, volume.path, "No container mounts it.")


class _Mounts:
    def __init__(self, run: Run, lines: Lines, findings: Findings) -> None:
        self._run, self._lines, self._findings = run, lines, findings

    def put(self, field: str, value: Run, line: int) -> None:
        """One more item of a list of `run`."""
        items = self._run.setdefault(field, [])
        self._lines[f"{field}/{len(items)}"] = line
        self._lines.setdefault(field, line)
        items.append(value)

    def tell_missing(self, at: Spot, what: str) -> None:
        """Something that has to be there."""
        self._findings.refuse(at.line, "required", at.path, f"Give {what}.")

    def mount(self, volume: Spot, mount: Spot) -> None:
        """A volume at a path; kinds that are refused are told already."""
        path = mount.text_of("mountPath")
        if not path:
            self.tell_missing(mount, "mountPath")
        elif claim := volume.get("persistentVolumeClaim"):
            self._claim(claim, mount, path)
        elif secret := volume.get("secret"):
            name = secret.text_of("secretName")
            if name:
                self.put("secrets", {"name": name, "mount": path}, mount.line)
            else:
                self.tell_missing(secret, "secretName")
        elif volume.get("emptyDir") is not None or _is_bare(volume):
            self._memory(volume, mount, path)

    def _claim(self, claim: Spot, mount: Spot, path: str) -> None:
        name = claim.text_of("claimName")
        if not name:
            self.tell_missing(claim, "claimName")
            return
        only_read = any(at and at.is_on for at in (claim.get("readOnly"), mount.get("readOnly")))
        more = {"read_only": True} if only_read else {}
        self.put("volumes", {"claim": name, "mount": path, **more}, mount.line)

    def _memory(self, volume: Spot, mount: Spot, path: str) -> None:
        """An `emptyDir`; one of nothing (`{}`) is scratch space on the node's disk."""
        if volume.text_of("emptyDir", "medium") != "Memory" or path.rstrip("/") != _SHM:
            detail = (
                "Scratch space is not supported: an emptyDir is taken with medium Memory and "
                f"mounted at {_SHM}. A container may write to its own files, or to a claim."
            )
            self._findings.refuse(volume.line, "not_supported", f"{volume.path}.emptyDir", detail)
            return
        size = volume.get("emptyDir", "sizeLimit")
        mebibytes = read_mebibytes(size.text) if size else None
        if size and not mebibytes:
            detail = f"Give a size such as 64Gi, not {size.text[:60]!r}."
            self._findings.refuse(size.line, "invalid_value", size.path, detail)
            return
        self._run["shm"] = write_memory(mebibytes) if mebibytes else None
        self._lines["shm"] = size.line if size else mount.line


def _is_bare(volume: Spot) -> bool:
    """A volume that names no kind at all is an `emptyDir`, too."""
    return all(name in ("name", "emptyDir") for name, _ in volume.fields())
