"""Policies of a job and its tasks, and nearness: what happens when, and how close the nodes are."""

from typing import Any, Final

from federation.core.spec.kinds import did_you_mean
from federation.intake.findings import Findings
from federation.intake.vcjob.quantities import read_seconds
from federation.intake.vcjob.walk import Spot

EVENTS: Final = {
    "PodEvicted": "Carried: a gang that loses a pod is aborted whole, and started again.",
    "PodFailed": "Carried with `AbortJob` and `TerminateJob`. `RestartJob` is taken with the warning `restarts_differ`: Muster starts a gang again after a lost node or a failed start, not after its own failure.",
    "TaskFailed": "As `PodFailed`.",
    "Unknown": "As `PodEvicted`.",
    "*": "As `PodFailed`.",
    "PodPending": "With a timeout it is `gang.start_timeout`; without one it is refused, as it never fires.",
    "TaskCompleted": "`CompleteJob` only. Of several tasks it is warned about (`ends_together`): a gang ends when all its pods have.",
    "JobUpdated": "Refused: a job over Muster is not edited on its cluster.",
}  # fmt: skip
_ENDS: Final = ("AbortJob", "RestartJob", "TerminateJob")
_PARTS: Final = ("RestartTask", "RestartPod", "RestartPartition", "ResumeJob")
_ACTIONS: Final = (*_ENDS, *_PARTS, "CompleteJob")
_TIERS: Final = {1: "leaf", 2: "spine"}
TIER_NAMES: Final = ("domain", "leaf", "spine")
Body = dict[str, Any]


def read_policies(at: Spot, tasks: int, body: Body, findings: Findings) -> None:
    """Policies below a job or task: those that Muster keeps anyway go in silence."""
    for policy in at.items("policies"):
        action = policy.text_of("action")
        if action not in _ACTIONS:
            detail = f"Give an action.{did_you_mean(action, _ACTIONS)}"
            findings.refuse(policy.line_of("action"), "invalid_value", policy.path, detail)
            continue
        events = [policy.text_of("event"), *policy.texts("events")]
        named = [event for event in events if event]
        if not named and policy.get("exitCode") is None:
            findings.refuse(policy.line, "required", policy.path, "Give an event.")
        for event in named:
            _take(event, action, policy, tasks, body, findings)


def _take(
    event: str, action: str, policy: Spot, tasks: int, body: Body, findings: Findings
) -> None:
    line, what = policy.line, f"{event[:60]} -> {action}"
    if event not in EVENTS:
        detail = f"There is no event {event[:60]!r}.{did_you_mean(event, EVENTS)}"
        findings.refuse(line, "invalid_value", policy.path, detail)
    elif action in _PARTS:
        detail = f"{what}: a gang starts again as a whole. Use RestartJob."
        findings.refuse(line, "not_supported", policy.path, detail)
    elif event == "PodPending":
        _start_timeout(what, policy, body, findings)
    elif event == "TaskCompleted" and action == "CompleteJob":
        if tasks > 1:
            detail = "A gang ends when all its pods have; those of other tasks are not ended."
            findings.warn(line, "ends_together", policy.path, detail)
    elif event in ("TaskCompleted", "JobUpdated") or action == "CompleteJob":
        detail = f"{what} is not how a gang ends or starts. Take it out."
        findings.refuse(line, "refused", policy.path, detail)
    elif action == "RestartJob" and event in ("PodFailed", "TaskFailed", "*"):
        detail = (
            "Muster starts a gang again after a lost node or a failed start, at most "
            "gang.max_restarts times. A gang whose own program fails has failed."
        )
        findings.warn(line, "restarts_differ", policy.path, detail)


def _start_timeout(what: str, policy: Spot, body: Body, findings: Findings) -> None:
    seconds = read_seconds(policy.text_of("timeout"))
    if not seconds:
        detail = f"{what} needs a timeout such as 10m; without one it never fires."
        findings.refuse(policy.line, "required", f"{policy.path}.timeout", detail)
        return
    body["gang"]["start_timeout"] = seconds
    findings.origins["/gang/start_timeout"] = policy.line


def read_topology(job: Spot, tasks: list[Spot], body: Body, findings: Findings) -> None:
    """`topology` from the job's own bound, or that of a task that is one partition."""
    bounds = [job.get("spec", "networkTopology")]
    policies = [policy for task in tasks if (policy := task.get("partitionPolicy"))]
    bounds.extend(_partition(policy, len(tasks), findings) for policy in policies)
    given = [bound for bound in bounds if bound is not None]
    if len(given) > 1:
        detail = f"{given[0].path} in line {given[0].line} says it already. Keep one of them."
        findings.refuse(given[1].line, "not_supported", given[1].path, detail)
    elif given:
        _nearness(given[0], body, findings)


def _partition(policy: Spot, tasks: int, findings: Findings) -> Spot | None:
    """The bound of the only partition; partitions of one pod bind nothing."""
    size, total = policy.get("partitionSize"), policy.get("totalPartitions")
    if size and size.count == 1:
        return None
    if total and total.count == 1 and tasks == 1:
        return policy.get("networkTopology")
    detail = (
        "Groups within a gang cannot be bound yet. Say how the job splits its work (parallelism) in "
        "the body that a dry run shows, or take it out and bound the whole job."
    )
    findings.refuse(policy.line, "not_supported", policy.path, detail)
    return None


def _nearness(bound: Spot, body: Body, findings: Findings) -> None:
    mode = bound.text_of("mode") or "hard"
    tier = _tier(bound, findings)
    if mode not in ("hard", "soft"):
        detail = "Give hard or soft."
        findings.refuse(bound.line_of("mode"), "invalid_value", f"{bound.path}.mode", detail)
    elif tier or mode == "soft":
        field = "required" if mode == "hard" else "preferred"
        body["topology"] = {field: tier or "leaf"}
        findings.origins["/topology"] = bound.line
    elif not any(bound.get(name) for name in ("highestTierAllowed", "highestTierName")):
        detail = "hard needs a tier: highestTierAllowed or highestTierName."
        findings.refuse(bound.line, "required", bound.path, detail)


def _tier(bound: Spot, findings: Findings) -> str:
    """The federation's tier; "" where none is said, or it is told as unknown."""
    named, number = bound.get("highestTierName"), bound.get("highestTierAllowed")
    if named and number:
        detail = "Volcano takes a tier's number or its name, not both."
        findings.refuse(named.line, "contradiction", named.path, detail)
    elif named and named.text in TIER_NAMES:
        return named.text
    elif named:
        detail = f"Tiers are called {', '.join(TIER_NAMES)} here, not {named.text[:60]!r}."
        findings.refuse(named.line, "unknown_tier", named.path, detail)
    elif number and number.count in _TIERS:
        tier = _TIERS[number.count]
        detail = (
            f"Numbers of tiers are each cluster's own; {number.count} is taken as {tier}. "
            "Write highestTierName to be sure."
        )
        findings.warn(number.line, "tier_assumed", number.path, detail)
        return tier
    elif number:
        detail = f"{number.count} is wider than any tier that is known everywhere. Name it: highestTierName."
        findings.refuse(number.line, "unknown_tier", number.path, detail)
    return ""
