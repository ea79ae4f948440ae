"""What pages say of jobs in plain words: why they wait, what happened to them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from federation.core.lifecycle import JobState
from federation.core.rebuilt import LEFT, REBUILT
from federation.models import Attempt, Job
from federation.selectors.member_limits import is_held_by_limit, limit_reason
from kit.intervals import HOUR_MS
from tenancy.models import Event

_STANDING = {
    JobState.DISPATCHING: "Bound to {cluster}, being sent there.",
    JobState.PENDING: "{cluster} has it; it has not started yet.",
    JobState.STOPPING: "It is being stopped on {cluster}.",
    JobState.UNKNOWN: "{cluster} is silent, or does not know the job any more; nothing is assumed.",
}
_HELD = {
    "owner": "Held by its owner. Release it to let it wait in the queue.",
    "admin": "Held by an admin, who alone can release it.",
    "budget": "Held by its tenant's budget.",
}

# (text, tone) by (kind, cause), else by kind. Names in braces come from the event's data.
_EVENTS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("job.queued", "submitted"): ("Submitted by {user}", ""),
    ("job.queued", "released"): ("Released by {user}; waits in the queue", ""),
    ("job.queued", "node_failure"): ("A node failed; the gang waits for another place", "bad"),
    ("job.queued", "start_timeout"): (
        "Did not start whole in time; waits for another place",
        "bad",
    ),
    ("job.queued", "rejected"): ("{cluster} refused it; waits for another place", "bad"),
    ("job.queued", "preempted_by_cluster"): ("{cluster} stopped it; waits again", "warn"),
    ("job.queued", "vanished"): ("Never appeared on {cluster}; waits again", "warn"),
    ("job.queued", "resubmitted"): (
        "Ended for certain on {cluster}; waits for another place",
        "warn",
    ),
    ("job.queued", "cut_off"): (
        "{cluster} takes nothing any more; waits for another place",
        "warn",
    ),
    ("job.queued", ""): ("Waits in the queue", ""),
    ("job.changed", ""): ("Changed by {user}: {fields}", ""),
    ("job.dispatching", ""): ("Bound to {cluster}: {gpus} GPUs of {flavor}, {class}", "busy"),
    ("job.pending", ""): ("Accepted by {cluster} as {backend_id}", "busy"),
    ("job.pending", "requeued_on_cluster"): ("{cluster} put it back into its own queue", "warn"),
    ("job.promoted", ""): (
        "Runs inside the guarantee from here on: {gpus} GPUs of {flavor}",
        "good",
    ),
    ("job.checkpointed", ""): ("Saved step {step}, attempt {attempt}", "good"),
    ("job.checkpoint_asked", "asked"): ("{user} asked it to save: {signal} is sent", "busy"),
    ("job.checkpoint_asked", ""): ("Asked to save: {signal} is sent", "busy"),
    ("job.running", ""): ("Every member runs on {cluster}", "good"),
    ("job.stopping", "cancelled"): ("Cancelled; being stopped on {cluster}", "warn"),
    ("job.stopping", "held"): ("Held; being stopped on {cluster}", "warn"),
    ("job.stopping", "node_failure"): ("A node failed; being stopped", "bad"),
    ("job.stopping", "start_timeout"): ("Did not start whole in time; being stopped", "bad"),
    ("job.stopping", "resubmitted"): (
        "{user} starts it anew; first {cluster} has to end it",
        "warn",
    ),
    ("job.stopping", "cut_off"): ("{cluster} leaves; being stopped there", "warn"),
    ("job.stopping", "reclaimed"): ("{cluster} gives its GPUs back to their owner; {lost}", "warn"),
    ("job.stopping", "outranked"): ("Makes room for a more urgent job; {lost}", "warn"),
    ("job.stopping", ""): ("Being stopped", "warn"),
    ("job.claims", ""): (
        "{cluster} frees {gpus} GPUs for it, told {evicts} to go; at the latest by {until}",
        "busy",
    ),
    ("job.evicting", "reclaimed"): (
        "An owner takes its GPUs on {cluster} back; {grace_s} s to save",
        "warn",
    ),
    ("job.evicting", "outranked"): (
        "A more urgent job needs its GPUs on {cluster}; {grace_s} s to save",
        "warn",
    ),
    ("job.spared", ""): ("Need not go any more; runs on", "good"),
    ("job.held", "held_by_owner"): ("Held by {user}", "warn"),
    ("job.held", "held_by_admin"): ("Held by {user}, an admin", "warn"),
    ("job.held", "forgotten"): ("{cluster} left while it ran there; held for its owner", "bad"),
    ("job.held", "cut_off"): (
        "{cluster} left; held for its owner, as nobody knows what it did",
        "bad",
    ),
    ("job.held", ""): ("Held", "warn"),
    ("job.unknown", ""): ("{cluster} does not know it any more, or is silent", "bad"),
    ("job.succeeded", ""): ("Succeeded: every rank ended well", "good"),
    ("job.failed", "failed"): ("Failed: a rank ended with an error", "bad"),
    ("job.failed", "time_limit"): ("Failed: ran into its time limit", "bad"),
    ("job.failed", "rejected"): ("Failed: {cluster} refused it", "bad"),
    ("job.failed", "node_failure"): ("Failed: a node failed and no restart was left", "bad"),
    ("job.failed", "given_up"): ("Lost on {cluster}, and given up by {user}: {why}", "bad"),
    ("job.failed", ""): ("Failed", "bad"),
    ("job.cancelled", ""): ("Cancelled", ""),
}


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job stands where it stands: one sentence, and the reasons by cluster and flavor."""

    sentence: str
    reasons: tuple[Mapping[str, Any], ...] = ()

    @property
    def more(self) -> int:
        """How many more places there are than the sentence names."""
        return max(0, len(self.reasons) - 1)


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of a job's timeline. `tone`: good, bad, warn, busy or nothing."""

    at: datetime
    text: str
    tone: str
    detail: str


class _Gaps(dict[str, object]):
    """What an event's data lacks reads as dots, so that an old event never breaks a page."""

    def __missing__(self, key: str) -> str:
        return "…"


def why(job: Job, attempt: Attempt | None) -> Why:
    """Why the job is not running, in words; empty when it runs or is over."""
    state = JobState(job.state)
    if state is JobState.HELD:
        return Why(_explained(attempt) or _HELD.get(job.held_by, "Held."))
    if state is JobState.QUEUED:
        return _waiting(tuple(job.reasons))
    if state.is_final:
        return Why(job.outcome)
    cluster = attempt.cluster.name if attempt else "Its cluster"
    words = _STANDING.get(state, "").format(cluster=cluster)
    if attempt and state is JobState.PENDING and is_held_by_limit(attempt):
        reason = limit_reason(attempt, job.tenant.path)
        return Why(f"{reason['message']} {reason['fix']['description']}")
    if attempt and attempt.backend_reason and state is JobState.PENDING:
        words += f" It says: {attempt.backend_reason.rstrip('.')}."
    if state is JobState.UNKNOWN:
        words = _explained(attempt) or words
    return Why(words)


def _explained(attempt: Attempt | None) -> str:
    """What we wrote at a lost attempt: that its cluster left or was rebuilt; "" for other words."""
    words = attempt.backend_reason if attempt else ""
    return words if any(mark in words for mark in (REBUILT, LEFT)) else ""


def _waiting(reasons: tuple[Mapping[str, Any], ...]) -> Why:
    """The reason that most places share speaks first."""
    if not reasons:
        return Why("New; it is looked at in the next moment.")
    codes = Counter(reason["code"] for reason in reasons)
    ordered = sorted(reasons, key=lambda reason: -codes[reason["code"]])
    return Why(ordered[0]["message"], tuple(ordered))


def place(reason: Mapping[str, Any]) -> str:
    """Where a reason holds: `gpu-a · h100-sxm-80`, or everywhere."""
    return " · ".join(filter(None, (reason.get("cluster"), reason.get("flavor")))) or "Everywhere"


def moment(event: Event) -> Moment:
    """An event of a job as a line of its timeline."""
    kind, cause = event.kind, event.cause
    text, tone = (
        _EVENTS.get((kind, cause))
        or _EVENTS.get((kind, ""))
        or (f"{kind.removeprefix('job.')} ({cause})".replace("_", " ").replace(" ()", ""), "")
    )
    data = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in event.data.items()
    }
    if "lost_gpu_ms" in event.data:
        data["lost"] = _lost(event.data)
    return Moment(event.at, text.format_map(_Gaps(data)), tone, _detail(event, text))


def _lost(data: Mapping[str, Any]) -> str:
    """What an eviction cost: the work since the last proof."""
    hours = data["lost_gpu_ms"] / HOUR_MS
    if data.get("saved_step") is None:
        return f"nothing was saved: {hours:.1f} GPU-hours of work are lost"
    return f"saved step {data['saved_step']}; {hours:.1f} GPU-hours of work are lost"


def _detail(event: Event, text: str) -> str:
    """What the backend said, and the nodes, where the text does not tell them."""
    parts = []
    if words := event.data.get("words"):
        parts.append(f"The cluster says: {words}")
    if event.kind == "job.checkpointed":
        said = "It says so on its cluster" if event.cause == "comment" else "It says so itself"
        parts.append(f"{said}: {path}" if (path := event.data.get("path")) else said)
    nodes = event.data.get("nodes")
    if isinstance(nodes, list) and nodes:
        parts.append(f"{len(nodes)} nodes: {', '.join(map(str, nodes))}")
    avoided = event.data.get("avoided")
    if isinstance(avoided, list) and avoided:
        parts.append(f"Avoids {', '.join(map(str, avoided))}")
    return " · ".join(parts)
