"""Slurm's words for the states of jobs and nodes, in ours. Tables first."""

from collections.abc import Iterable
from functools import lru_cache

from clusters.backends.slurm.values import Json, number, words
from clusters.core.observation import GangState, NodeState

_BASE = {
    "PENDING": GangState.PENDING,
    "RUNNING": GangState.RUNNING,
    "SUSPENDED": GangState.RUNNING,  # keeps its nodes; the reason says so
    "COMPLETED": GangState.SUCCEEDED,
    "CANCELLED": GangState.CANCELLED,
    "FAILED": GangState.FAILED,
    "OUT_OF_MEMORY": GangState.FAILED,
    "TIMEOUT": GangState.TIMED_OUT,
    "DEADLINE": GangState.TIMED_OUT,
    "NODE_FAIL": GangState.NODE_FAILED,
    "BOOT_FAIL": GangState.NODE_FAILED,
    "PREEMPTED": GangState.PREEMPTED,
    "REQUEUED": GangState.PREEMPTED,  # accounting's word for a run that the member took back
}
# Words beside (or, up to v0.0.38, instead of) the base state, the strongest first
_FLAGS = (
    ("REVOKED", GangState.UNKNOWN),
    ("COMPLETING", GangState.ENDING),
    ("STAGE_OUT", GangState.ENDING),
    ("CONFIGURING", GangState.STARTING),
    ("POWER_UP_NODE", GangState.STARTING),
    ("SIGNALING", GangState.RUNNING),
    ("RESIZING", GangState.RUNNING),
    ("STOPPED", GangState.RUNNING),
    ("REQUEUE_HOLD", GangState.HELD),
    ("SPECIAL_EXIT", GangState.HELD),
    ("REQUEUE_FED", GangState.PENDING),
)
_HELD_REASONS = {"JobHeldUser", "JobHeldAdmin"}
_NO_REASON = {"", "None"}

_DOWN = {"DOWN", "ERROR", "FAIL", "FUTURE", "INVAL", "INVALID", "INVALID_REG", "POWERED_DOWN"}
_UNSURE = {"UNKNOWN", "NOT_RESPONDING", "NO_RESPOND", "POWERING_UP", "POWERING_DOWN", "POWER_DOWN"}
_UNSURE |= {"POWER_UP", "REBOOT_ISSUED", "REBOOT_REQUESTED", "REBOOT"}
_DRAIN = {"DRAIN", "DRAINED", "DRAINING", "FAILING", "MAINTENANCE", "MAINT", "BLOCKED"}


@lru_cache(maxsize=1024)  # thousands of jobs are in a few states
def job_state(said: tuple[str, ...], reason: str = "") -> GangState:
    """The state of a job from its one word or list of words, and its reason."""
    found = {word.upper() for word in said}
    if "PENDING" in found and "REQUEUED" in found:  # evicted and in the queue again
        found.discard("REQUEUED")
    for flag, state in _FLAGS:
        if flag in found:
            return state
    base = next((state for word, state in _BASE.items() if word in found), GangState.UNKNOWN)
    if base is GangState.PENDING and reason in _HELD_REASONS:
        return GangState.HELD
    return base


def job_reason(said: Iterable[str], reason: object) -> str:
    """Slurm's reason word, or the state's own where that says more."""
    text = str(reason or "")
    telling = {"SUSPENDED", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "REVOKED"}
    if text in _NO_REASON:
        return next((word for word in said if word.upper() in telling), "")
    return text


@lru_cache(maxsize=1024)
def node_state(said: tuple[str, ...]) -> NodeState:
    """The state of a node from all its words. Down beats unsure, unsure beats draining."""
    found = {word.upper().rstrip("*~#!%$@^-") for word in said}
    for words_, state in (
        (_DOWN, NodeState.DOWN),
        (_UNSURE, NodeState.UNKNOWN),
        (_DRAIN, NodeState.DRAINING),
    ):
        if found & words_:
            return state
    return NodeState.UP if found else NodeState.UNKNOWN


def exit_code(value: object) -> int | None:
    """The exit code as a shell shows it: 128 + n for a signal.

    Up to v0.0.38 the controller gives the raw wait status; accounting and later versions an object.
    """
    if isinstance(value, dict):
        return _exit_code_of_object(value)
    status = number(value)
    if status is None:
        return None
    return 128 + (status & 0x7F) if status & 0x7F else (status >> 8) & 0xFF


def _exit_code_of_object(value: Json) -> int | None:
    signal = value.get("signal")
    if isinstance(signal, dict):
        signal_number = number(signal.get("id", signal.get("signal_id")))
        if signal_number:
            return 128 + signal_number
    if "SIGNALED" in words(value.get("status")) and not isinstance(signal, dict):
        return None
    return number(value.get("return_code"))
