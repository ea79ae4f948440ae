"""How jobs, attempts, events and reasons look in the API, and the schemas that say so."""

from collections.abc import Mapping, Sequence
from typing import Any

from accounting.core.costs import JobCost
from federation.core.fixes import fix_for
from federation.core.lifecycle import JobState
from federation.core.spec import job_schema
from federation.models import Attempt, Job
from federation.selectors.jobs import body_of
from federation.selectors.member_limits import is_held_by_limit, limit_reason
from kit.intervals import iso
from kit.money import money
from tenancy.api.endpoint import (
    MOMENT,
    MONEY,
    NUMBER,
    TEXT,
    TRUTH,
    UUID_TEXT,
    component,
    document,
    list_of,
    or_null,
)
from tenancy.models import Event

ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}
JOB_BODY = component("JobBody", job_schema())
FIX = document(description=TEXT, change=or_null(ANY), effect=TEXT)
REASON = component(
    "Reason",
    document(
        cluster=or_null(TEXT),
        flavor=or_null(TEXT),
        code=TEXT,
        message=TEXT,
        needed=or_null(NUMBER),
        available=or_null(NUMBER),
        unit=or_null(TEXT),
        until=or_null(MOMENT),
        fix=or_null(FIX),
    ),
)
SAVED = component("CheckpointSaved", document(step=NUMBER, at=MOMENT, path=or_null(TEXT)))
ATTEMPT = component(
    "Attempt",
    document(
        number=NUMBER,
        fence=TEXT,
        cluster=TEXT,
        flavor=TEXT,
        **{"class": TEXT},
        state=TEXT,
        account=TEXT,
        nodes=list_of(TEXT),
        gpus_per_node=NUMBER,
        cpus_per_node=NUMBER,
        memory_mib_per_node=NUMBER,
        exclusive=TRUTH,
        tier_promised=TEXT,
        tier_seen=or_null(TEXT),
        nodes_seen=list_of(TEXT),
        backend_id=or_null(TEXT),
        backend_state=or_null(TEXT),
        backend_reason=or_null(TEXT),
        bound_at=MOMENT,
        accepted_at=or_null(MOMENT),
        started_at=or_null(MOMENT),
        ended_at=or_null(MOMENT),
        end_cause=or_null(TEXT),
        exit_code=or_null(NUMBER),
        checkpoint_saved=or_null(SAVED),
        checkpoint_asked_at=or_null(MOMENT),
        evicting=or_null(document(cause=TEXT, asked_at=MOMENT, by=MOMENT)),
    ),
)
JOB = component(
    "Job",
    {
        "type": "object",
        "description": "The body as it was submitted, in one spelling, and what became of it. "
        "Lists leave out `run` and `environment`.",
        "properties": {
            "id": UUID_TEXT,
            "state": {"type": "string", "enum": [state.value for state in JobState]},
            "user": TEXT,
            "held_by": or_null(TEXT),
            "class_now": or_null(TEXT),
            "position": or_null(NUMBER),
            "reasons": list_of(REASON),
            "estimate": document(start_p50=or_null(MOMENT), start_p90=or_null(MOMENT)),
            "attempt": or_null(ATTEMPT),
            "parallelism_now": or_null(ANY),
            "cost": document(so_far=MONEY, worst_case=or_null(MONEY)),
            "checkpoint_saved": or_null(SAVED),
            "restarts": NUMBER,
            "outcome": or_null(TEXT),
            "version": NUMBER,
            "submitted_at": MOMENT,
            "queued_at": MOMENT,
            "started_at": or_null(MOMENT),
            "ended_at": or_null(MOMENT),
            "cancel_asked_at": or_null(MOMENT),
        },
        "required": ["id", "state", "user", "version", "submitted_at"],
        "additionalProperties": True,
    },
)
EVENT = component(
    "Event",
    document(id=NUMBER, at=MOMENT, kind=TEXT, cause=or_null(TEXT), data=ANY),
)


def job_document(
    job: Job,
    *,
    attempt: Attempt | None,
    position: int | None,
    cost: JobCost,
    proof: Attempt | None = None,
) -> dict[str, Any]:
    """A job: its body and what became of it. `proof` is the attempt with its newest checkpoint."""
    body = {name: value for name, value in body_of(job).items() if name != "v"}
    worst = cost.worst_case_nano
    return {
        "id": str(job.uuid),
        "state": job.state,
        **body,
        "tenant": job.tenant.path,  # the tenant may have been moved since the body was written
        "user": job.user.username,
        "held_by": job.held_by or None,
        "class_now": job.class_now or None,
        "position": position if job.state == JobState.QUEUED else None,
        "reasons": reasons_of(job, attempt),
        "estimate": {"start_p50": None, "start_p90": None},
        "attempt": attempt_document(attempt) if attempt else None,
        "parallelism_now": _parallelism_now(job, attempt, body),
        "cost": {
            "so_far": money(cost.amount_nano, cost.currency),
            "worst_case": None if worst is None else money(worst, cost.currency),
        },
        "checkpoint_saved": saved_document(proof),
        "restarts": job.restarts,
        "outcome": job.outcome or None,
        "version": job.version,
        "submitted_at": iso(job.submitted_at),
        "queued_at": iso(job.queued_at),
        "started_at": iso(job.started_at),
        "ended_at": iso(job.ended_at),
        "cancel_asked_at": iso(job.cancel_asked_at),
    }


def _parallelism_now(
    job: Job, attempt: Attempt | None, body: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """How the job splits its work on the flavor it is bound to."""
    if attempt is None or not JobState(job.state).is_bound:
        return None
    for item in body["flavors"]:
        if isinstance(item, dict) and item["name"] == attempt.flavor_id:
            own: Mapping[str, Any] | None = item.get("parallelism")
            return own or body["parallelism"]
    found: Mapping[str, Any] | None = body["parallelism"]
    return found


def reasons_of(job: Job, attempt: Attempt | None) -> list[dict[str, Any]]:
    """Why the job waits, each reason with what would help; empty when it does not wait.

    `attempt` is its last one: also one that its cluster holds back by a limit of its own has a reason.
    """
    if job.state == JobState.HELD:
        return [_held(job)]
    if job.state == JobState.PENDING and attempt is not None and is_held_by_limit(attempt):
        return [limit_reason(attempt, job.tenant.path)]
    if job.state != JobState.QUEUED:
        return []
    return [{**reason, "fix": fix_for(reason)} for reason in job.reasons]


def _held(job: Job) -> dict[str, Any]:
    who = {"owner": "its owner", "admin": "an admin", "budget": "its budget"}
    return {
        "cluster": None,
        "flavor": None,
        "code": "held",
        "message": f"It is held by {who.get(job.held_by, job.held_by)}.",
        "needed": None,
        "available": None,
        "unit": None,
        "until": None,
        "fix": {"description": "Release it.", "change": None, "effect": "It waits in the queue."},
    }


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    """An attempt."""
    return {
        "number": attempt.number,
        "fence": attempt.fence,
        "cluster": attempt.cluster.name,
        "flavor": attempt.flavor_id,
        "class": attempt.service_class,
        "state": attempt.state,
        "account": attempt.account,
        "nodes": attempt.nodes,
        "gpus_per_node": attempt.gpus_per_node,
        "cpus_per_node": attempt.cpus_per_node,
        "memory_mib_per_node": attempt.memory_mib_per_node,
        "exclusive": attempt.exclusive,
        "tier_promised": attempt.tier,
        "tier_seen": attempt.tier_seen or None,
        "nodes_seen": attempt.nodes_seen,
        "backend_id": attempt.backend_id or None,
        "backend_state": attempt.backend_state or None,
        "backend_reason": attempt.backend_reason or None,
        "bound_at": iso(attempt.bound_at),
        "accepted_at": iso(attempt.accepted_at),
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "end_cause": attempt.end_cause or None,
        "exit_code": attempt.exit_code,
        "checkpoint_saved": saved_document(attempt),
        "checkpoint_asked_at": iso(attempt.signal_asked_at),
        "evicting": None
        if attempt.evict_asked_at is None
        else {
            "cause": attempt.evict_cause,
            "asked_at": iso(attempt.evict_asked_at),
            "by": iso(attempt.evict_by),
        },
    }


def saved_document(proof: Attempt | None) -> dict[str, Any] | None:
    """The newest checkpoint that an attempt has proven, None = none."""
    if proof is None or proof.saved_step is None:
        return None
    return {
        "step": proof.saved_step,
        "at": iso(proof.saved_at),
        "path": proof.saved_path or None,
    }


def event_document(event: Event) -> dict[str, Any]:
    """An event of one job."""
    return {
        "id": event.id,
        "at": iso(event.at),
        "kind": event.kind,
        "cause": event.cause or None,
        "data": event.data,
    }


def queue_document(job: Job, position: int | None, attempt: Attempt | None) -> dict[str, Any]:
    """A gang in the queue: what it asks at most, where it is or why it waits."""
    first: Sequence[Mapping[str, Any]] = job.options
    return {
        "id": str(job.uuid),
        "name": job.name,
        "tenant": job.tenant.path,
        "user": job.user.username,
        "state": job.state,
        "class": job.wanted_class,
        "class_now": job.class_now or None,
        "priority": job.priority,
        "position": position,
        "flavors": [option["flavor"] for option in first],
        "nodes": first[0]["nodes"],
        "gpus": first[0]["nodes"] * first[0]["gpus_per_node"],
        "cluster": attempt.cluster.name if attempt and JobState(job.state).is_bound else None,
        "flavor": attempt.flavor_id if attempt and JobState(job.state).is_bound else None,
        "reasons": reasons_of(job, attempt),
        "queued_at": iso(job.queued_at),
        "started_at": iso(job.started_at),
    }


PLACE = component(
    "QueuePlace",
    document(
        id=UUID_TEXT,
        name=TEXT,
        tenant=TEXT,
        user=TEXT,
        state=TEXT,
        **{"class": TEXT},
        class_now=or_null(TEXT),
        priority=NUMBER,
        position=or_null(NUMBER),
        flavors=list_of(TEXT),
        nodes=NUMBER,
        gpus=NUMBER,
        cluster=or_null(TEXT),
        flavor=or_null(TEXT),
        reasons=list_of(REASON),
        queued_at=MOMENT,
        started_at=or_null(MOMENT),
    ),
)
