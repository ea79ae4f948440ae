"""From what slurmrestd answers to one of the protocol's three errors.

Its HTTP codes mean little (a bad token is 500, a refused update 200), so the number in `errors[]`
decides. Three questions: did anything happen there (unavailable or rejected), may it have happened
(ambiguous; writes only), and would the same call succeed later (unavailable) or never (rejected)?
A bad token counts as unavailable: it is the cluster's setting that is wrong, not the job.
"""

from dataclasses import dataclass

from clusters.backends.slurm.values import Json
from clusters.core.backend import (
    BackendAmbiguousError,
    BackendError,
    BackendRejectedError,
    BackendUnavailableError,
)

# slurm_errno.h; the second column of slurmrestd's own words
HELD = 2042
NO_SUCH_JOB = 2017
ALREADY_DONE = 2021
NOTHING_FOUND = 9003
UNSPECIFIED = -1
TOO_MANY = 429  # HTTP; slurmrestd never says it, proxies before it do
_CONTROLLER_UNREACHED = {1800, 1804}  # connect failure, told to back off: nothing was sent
_BAD_TOKEN = {1007}
_ZERO_BYTES = 5005
_ACCOUNTING_DOWN = {7000}
_LOST_ON_THE_WAY = range(1000, 2000), range(5000, 6000)  # between slurmrestd and slurmctld
_IN_TRANSITION = {2020}

# A bad token is refused in ~15 ms; a controller that is down is reported only after
# MessageTimeout - 1 s (4 s at its smallest sensible setting).
QUICK_S = 1.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of `errors[]`."""

    number: int
    words: str


def read_faults(entries: object) -> tuple[Fault, ...]:
    """The errors of a reply: the number has three spellings, the text two."""
    if not isinstance(entries, list):
        return ()
    return tuple(_read_fault(entry) for entry in entries if isinstance(entry, dict))


def _read_fault(entry: Json) -> Fault:
    numbers = (entry.get(key) for key in ("error_number", "error_code", "errno"))
    value = next((number for number in numbers if isinstance(number, int)), 0)
    parts = [str(entry[key]) for key in ("description", "error") if entry.get(key)]
    return Fault(value, ": ".join(dict.fromkeys(parts)) or f"error {value}")


def from_faults(
    faults: tuple[Fault, ...], *, is_write: bool, took_s: float, status: int
) -> BackendError:
    """The error that these faults amount to. `status` is used only where the numbers say nothing.

    A number decides before the missing ones (22.05 puts `Unknown key "x"` before its 9001).
    """
    words = "; ".join(fault.words for fault in faults) or f"HTTP {status}"
    fault = next((fault for fault in faults if fault.number), Fault(0, words))
    if fault.number in _CONTROLLER_UNREACHED:
        return BackendUnavailableError(words, code="controller")
    if fault.number in _BAD_TOKEN or status in {401, 511}:
        return BackendUnavailableError(words, code="auth")
    if fault.number in _ACCOUNTING_DOWN:
        return BackendUnavailableError(words, code="accounting")
    if fault.number in _IN_TRANSITION:
        return BackendUnavailableError(words, code=str(fault.number))
    if _is_lost(fault.number, status):
        return _lost(words, is_write=is_write, is_quick=took_s < QUICK_S)
    return BackendRejectedError(words, code=str(fault.number or status))


def from_text(
    text: str, *, is_write: bool, status: int, retry_after_s: float | None = None
) -> BackendError:
    """The error of a reply that is no JSON object: slurmrestd's plain text, or a proxy's page."""
    words = f"HTTP {status}: {' '.join(text.split())[:200] or 'empty'}"
    if status == 401:
        return BackendUnavailableError(words, code="auth")
    if status == 404:
        return BackendUnavailableError(words, code="api_version")
    if status in {TOO_MANY, 503}:
        return BackendUnavailableError(words, code=str(status), retry_after_s=retry_after_s)
    if 400 <= status < 500:
        return BackendRejectedError(words, code=str(status))
    return _lost(words, is_write=is_write, is_quick=False)


def _is_lost(number: int, status: int) -> bool:
    if number == 0:
        return status >= 500
    return number == UNSPECIFIED or any(number in span for span in _LOST_ON_THE_WAY)


def _lost(words: str, *, is_write: bool, is_quick: bool) -> BackendError:
    """Nobody knows what became of a write. (A bad token also ends here, as "Zero Bytes": every
    write of ours follows a read with a token of the same key, which finds that out first.)
    """
    if is_write:
        return BackendAmbiguousError(words, code="lost")
    return BackendUnavailableError(words, code="auth" if is_quick else "controller")
