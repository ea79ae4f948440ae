"""The protocol between Muster and a member cluster, and the only errors it may raise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from clusters.core.gang import Gang
from clusters.core.limits import LimitsSeen
from clusters.core.observation import Observation
from kit.gate import Gate

NOT_RUNNING = "not_running"  # the code of a refused signal: it came too late, or too early


class BackendError(Exception):
    """A call to a member cluster did not succeed. `words` are the backend's own."""

    def __init__(self, words: str, *, code: str = "") -> None:
        super().__init__(words)
        self.words = words
        self.code = code


class BackendUnavailableError(BackendError):
    """Nothing happened there; try again later, not before `retry_after_s` if the cluster said so."""

    def __init__(self, words: str, *, code: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(words, code=code)
        self.retry_after_s = retry_after_s


class BackendAmbiguousError(BackendError):
    """It may have happened: look before trying again."""


class BackendRejectedError(BackendError):
    """The cluster refused; trying the same again cannot help."""


def lost(words: str, *, was_sent: bool, is_write: bool) -> BackendError:
    """No whole answer came: where the call was not sent nothing happened; a write may have."""
    if is_write and was_sent:
        return BackendAmbiguousError(words, code="lost")
    return BackendUnavailableError(words, code="lost" if was_sent else "unreachable")


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach one cluster: address, secret, and the admin's settings (strings).

    `account` is the account that observes and administers; jobs name their own. Every call passes
    the `gate`, which bounds how hard the cluster is called.
    """

    name: str
    endpoint: str
    secret: bytes = field(repr=False)  # a traceback or a log line must not carry it
    account: str
    options: Mapping[str, str]
    gate: Gate = field(default_factory=Gate, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the probe looked at: a capability that is on or off, and the fix when off.

    `is_silent`: nobody answered for it now, which does not say that it is off for good.
    """

    capability: str
    is_on: bool
    detail: str
    fix: str = ""
    is_silent: bool = False


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """Versions and capabilities of a cluster, and how far its clock is from ours (ms, + = ahead).

    Capability flags decide what may be placed there, so that no feature is found missing later.
    """

    version: str
    api: str
    clock_skew_ms: int
    findings: tuple[Finding, ...]

    @property
    def capabilities(self) -> dict[str, bool]:
        """Flag by name, of all that was answered for."""
        return {
            finding.capability: finding.is_on for finding in self.findings if not finding.is_silent
        }


@dataclass(frozen=True, slots=True)
class Submitted:
    """The answer to a submit: the backend's id of the one object that may run."""

    backend_id: str
    duplicates_cancelled: int = 0


class Backend(Protocol):
    """One member cluster. Every call has a deadline inside the task's time limit.

    Every method may raise `BackendUnavailableError`, `BackendAmbiguousError` (writes only) or
    `BackendRejectedError`.
    """

    def observe(
        self, now_ms: int, fences: Sequence[str], since_ms: int | None = None
    ) -> Observation:
        """Read everything in bulk. `fences` are attempts whose end must be looked up if gone.

        With `since_ms` (our clock) whatever is ours and lasted beyond then is looked up instead.
        """
        ...

    def submit(self, gang: Gang, *, is_repeat: bool = True, known_as: str = "") -> Submitted:
        """Make the attempt exist there once, whatever happened to earlier calls.

        Not `is_repeat`: no earlier call can have been sent, which saves looking for its traces.
        `known_as` is the id of the object that an earlier call was answered with: then nothing is made
        any more, as it may have run; what is there is brought together.
        """
        ...

    def cancel(self, fence: str, account: str) -> None:
        """End the attempt; cancelling what is over or absent is no error."""
        ...

    def signal(self, fence: str, account: str, name: str) -> None:
        """Send a signal (`USR1`, ...) to the attempt's processes; twice does no harm.

        Rejected with the code `NOT_RUNNING` where it does not run: it never reaches what is over.
        """
        ...

    def drain(self, nodes: Sequence[str], reason: str) -> None:
        """Let nodes finish and start nothing (capability `drain`)."""
        ...

    def undrain(self, nodes: Sequence[str]) -> None:
        """Give drained nodes back (capability `drain`)."""
        ...

    def logs(self, fence: str) -> str:
        """The end of the attempt's output (capability `logs`)."""
        ...

    def reclassify(self, fence: str, account: str, service_class: str) -> None:
        """Move a pending or running attempt to another QOS (capability `reclassify`)."""
        ...

    def limits(self) -> LimitsSeen:
        """The limits on GPUs that it keeps for its accounts (capability `accounting`)."""
        ...

    def set_limits(self, wanted: Mapping[str, Mapping[str, int]], name: str) -> dict[str, str]:
        """Set limits on GPUs by account and resource; of each account, why not ("" = it is set).

        What is set already may be named, too: Slurm needs a sibling at times. Nothing else of an
        account is changed, and none is made. `name` is the cluster's own
        (`LimitsSeen.name`). May raise only before anything was written (capability `limits`).
        """
        ...

    def limit_command(self, name: str, account: str, gpus: Mapping[str, int]) -> str:
        """What an admin of the cluster types to set the same by hand."""
        ...

    def close(self) -> None:
        """Give back what it holds open; it is not used after that."""
        ...

    def probe(self, now_ms: int) -> ProbeReport:
        """Look at versions, plugins, rights and clock; never raises for a mere gap."""
        ...
