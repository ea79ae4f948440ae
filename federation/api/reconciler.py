"""REST: how reconciling stands, its cases, and what may be done about them. For admins."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from clusters.core.observation import GangSeen
from clusters.models import Command
from federation.core.repair import Action, Answer, Kind, Proposal
from federation.models import Attempt
from federation.selectors.cases import Case, find_cases, finding_of, with_evidence
from federation.selectors.findings import Finding
from federation.selectors.standings import Breaker, Standing, standings
from federation.services.repair import Repair, preview, repair
from kit.errors import FieldProblem, InvalidContentError, NotFoundError
from kit.intervals import from_ms, iso
from tenancy.api.endpoint import (
    MOMENT,
    NUMBER,
    PAGING,
    TEXT,
    TRUTH,
    UUID_TEXT,
    Endpoint,
    Query,
    clock,
    component,
    document,
    fields_of,
    list_of,
    many,
    operation,
    or_null,
    page_after,
    page_of,
    page_response,
    user_of,
)
from tenancy.permissions import IsAdmin

LONGEST_WHY = 1000
KINDS = [kind.value for kind in Kind]
ACTIONS = [action.value for action in Action]
BREAKER = document(is_open=TRUTH, failures=NUMBER, until=or_null(MOMENT))
STANDING = component(
    "ReconcilerStanding",
    document(
        cluster=TEXT,
        state=TEXT,
        is_reachable=TRUTH,
        last_seen_at=or_null(MOMENT),
        age_ms=or_null(NUMBER),
        failing_since=or_null(MOMENT),
        failure=TEXT,
        clock_skew_ms=NUMBER,
        breakers=document(dispatch=BREAKER, observe=BREAKER),
        outbox=document(depth=NUMBER, waiting=NUMBER, sent=NUMBER),
        lag_ms=NUMBER,
        duplicates_cancelled=NUMBER,
        cases=document(**dict.fromkeys(KINDS, NUMBER)),
    ),
)
OBJECT_SEEN = document(
    backend_id=TEXT,
    state=TEXT,
    reason=TEXT,
    account=TEXT,
    comment=TEXT,
    nodes=list_of(TEXT),
    gpus=NUMBER,
    submitted_at=or_null(MOMENT),
    started_at=or_null(MOMENT),
    ended_at=or_null(MOMENT),
)
ORDER = document(
    key=TEXT,
    kind=TEXT,
    state=TEXT,
    created_at=MOMENT,
    sent_at=or_null(MOMENT),
    answered_at=or_null(MOMENT),
    tries=NUMBER,
    answer=or_null({"type": "object", "additionalProperties": True}),
    error=TEXT,
)
OFFER = document(
    action={"enum": ACTIONS},
    is_offered=TRUTH,
    does=TEXT,
    safe_because=TEXT,
    why_not=TEXT,
    steps=list_of(TEXT),
)
CASE = component(
    "ReconcilerCase",
    document(
        id=UUID_TEXT,
        kind={"enum": KINDS},
        cluster=TEXT,
        fence=TEXT,
        order=TEXT,
        job=or_null(document(id=UUID_TEXT, name=TEXT, tenant=TEXT, state=TEXT, version=NUMBER)),
        attempt=or_null(
            document(
                number=NUMBER,
                cluster=TEXT,
                state=TEXT,
                account=TEXT,
                nodes=list_of(TEXT),
                backend_id=TEXT,
                reason=TEXT,
                started_at=or_null(MOMENT),
                ended_at=or_null(MOMENT),
            )
        ),
        backend_ids=list_of(TEXT),
        since=or_null(MOMENT),
        evidence=document(
            lost_at=or_null(MOMENT),
            last_reading=or_null(document(begun_at=MOMENT, accounting_answered=TRUTH)),
            objects=list_of(OBJECT_SEEN),
            orders=list_of(ORDER),
            nodes_away=list_of(TEXT),
            failure=TEXT,
        ),
        actions=list_of(OFFER),
    ),
)
REPAIR = component(
    "ReconcilerRepair",
    document(
        case=UUID_TEXT,
        action={"enum": ACTIONS},
        dry_run=TRUTH,
        is_done=TRUTH,
        steps=list_of(TEXT),
        does=TEXT,
        safe_because=TEXT,
    ),
)
ACT = {
    "type": "object",
    "properties": {
        "why": {"type": "string", "minLength": 1, "maxLength": LONGEST_WHY},
        "dry_run": TRUTH,
        "version": {"type": "integer", "minimum": 1},
    },
    "required": ["why"],
    "additionalProperties": False,
}
WHICH = (
    Query("cluster", "Only of these clusters.", many=True),
    Query("kind", "Only of these kinds.", {"enum": KINDS}, many=True),
)


class Reconciler(Endpoint):
    """How every cluster stands."""

    @operation(IsAdmin, "How reconciling stands", gives=page_of(STANDING), name="get_reconciler")
    def get(self, request: Request) -> Response:
        """By cluster: its last reading, breakers, outbox, and how many cases of each kind."""
        rows = [standing_document(row) for row in standings(clock())]
        return Response({"items": rows, "next": None})


class Cases(Endpoint):
    """What does not agree, or has not settled."""

    @operation(
        IsAdmin, "The cases", gives=page_of(CASE), query=(*PAGING, *WHICH), name="list_cases"
    )
    def get(self, request: Request) -> Response:
        """In order of cluster, kind and fence, each with its evidence and what may be done."""
        now = clock()
        page = page_after(request, str)
        found = find_cases(
            now, clusters=many(request, "cluster"), kinds=many(request, "kind", KINDS)
        )
        if isinstance(page.after, str):
            found = [finding for finding in found if finding.key > str(page.after)]
        rows = found[: page.limit + 1]
        shown = {case.finding.id: case for case in with_evidence(rows[: page.limit], now)}

        def render(finding: Finding) -> dict[str, Any]:
            return case_document(shown[finding.id])

        return page_response(request, page, rows, render, lambda finding: str(finding.key))


class OneCase(Endpoint):
    """One case."""

    @operation(IsAdmin, "One case", gives=CASE, name="get_case")
    def get(self, request: Request, case_id: UUID) -> Response:
        """404 when it is settled."""
        now = clock()
        found = finding_of(case_id, now)
        if found is None:
            raise NotFoundError("There is no such case, or it is settled.")
        return Response(case_document(with_evidence([found], now)[0]))


class Act(Endpoint):
    """Something is done about a case."""

    @operation(IsAdmin, "Do something about a case", takes=ACT, gives=REPAIR, name="repair_case")
    def post(self, request: Request, case_id: UUID, action: str) -> Response:
        """With `dry_run` it only says what would change. `version` is the job's, as it was shown."""
        if action not in ACTIONS:
            raise NotFoundError(f"The actions are {', '.join(ACTIONS)}.")
        wanted, now = Action(action), clock()
        why, is_dry, version = _act_body(request)
        if is_dry:
            done = preview(case_id=case_id, action=wanted, version=version, now=now)
        else:
            done = repair(
                user=user_of(request),
                case_id=case_id,
                action=wanted,
                version=version,
                why=why,
                now=now,
            )
        return Response(repair_document(done, is_dry=is_dry))


def _act_body(request: Request) -> tuple[str, bool, int | None]:
    """`why`, `dry_run`, `version` of the body.

    Raises:
        InvalidContentError: names every field that is wrong.
    """
    body = fields_of(request, ("why", "dry_run", "version"))
    why, is_dry, version = body.get("why"), body.get("dry_run", False), body.get("version")
    problems = []
    if "why" not in body:
        problems.append(FieldProblem("/why", "missing", "Say why; it is kept in the audit trail."))
    elif not isinstance(why, str) or not why.strip() or len(why) > LONGEST_WHY or "\0" in why:
        detail = f"A text of 1 to {LONGEST_WHY} letters."
        problems.append(FieldProblem("/why", "invalid_value", detail))
    if not isinstance(is_dry, bool):
        problems.append(FieldProblem("/dry_run", "wrong_type", "true or false."))
    if version is not None and (type(version) is not int or not 1 <= version < 2**31):
        problems.append(FieldProblem("/version", "invalid_value", "The job's version: 1 or more."))
    if problems:
        raise InvalidContentError("The action cannot be done so.", errors=problems)
    return str(why).strip(), bool(is_dry), version


def standing_document(row: Standing) -> dict[str, Any]:
    """A cluster's standing."""
    cluster = row.cluster
    return {
        "cluster": cluster.name,
        "state": cluster.state,
        "is_reachable": row.is_reachable,
        "last_seen_at": iso(cluster.last_seen_at),
        "age_ms": row.age_ms,
        "failing_since": iso(cluster.failing_since),
        "failure": cluster.failure,
        "clock_skew_ms": cluster.clock_skew_ms,
        "breakers": {kind: _breaker(breaker) for kind, breaker in row.breakers.items()},
        "outbox": {
            "depth": row.outbox.depth,
            "waiting": row.outbox.waiting,
            "sent": row.outbox.sent,
        },
        "lag_ms": row.lag_ms,
        "duplicates_cancelled": row.duplicates_cancelled,
        "cases": {kind.value: count for kind, count in row.counts.items()},
    }


def _breaker(breaker: Breaker) -> dict[str, Any]:
    return {
        "is_open": breaker.is_open,
        "failures": breaker.failures,
        "until": iso(breaker.until),
    }


def case_document(case: Case) -> dict[str, Any]:
    """A case with its evidence and the answer to each action."""
    finding, reading, attempt = case.finding, case.reading, case.attempt
    ours = case.evidence.attempt
    return {
        "id": str(finding.id),
        "kind": finding.kind.value,
        "cluster": finding.cluster.name,
        "fence": finding.fence,
        "order": "" if case.order is None else case.order.key,
        "job": None if attempt is None else _job(attempt),
        "attempt": None if attempt is None else _attempt(attempt),
        "backend_ids": [found.backend_id for found in case.evidence.objects],
        "since": iso(case.since),
        "evidence": {
            "lost_at": iso(case.lost_at),
            "last_reading": None
            if reading is None
            else {
                "begun_at": iso(reading.begun_at),
                "accounting_answered": reading.accounting_answered,
            },
            "objects": [_object(found) for found in case.evidence.objects],
            "orders": _orders(case.orders),
            "nodes_away": [] if ours is None else list(ours.away),
            "failure": finding.cluster.failure,
        },
        "actions": [offer_document(action, answer) for action, answer in case.answers.items()],
    }


def _job(attempt: Attempt) -> dict[str, Any]:
    job = attempt.job
    return {
        "id": str(job.uuid),
        "name": job.name,
        "tenant": job.tenant.path,
        "state": job.state,
        "version": job.version,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "cluster": attempt.cluster.name,
        "state": attempt.state,
        "account": attempt.account,
        "nodes": attempt.nodes_seen or attempt.nodes,
        "backend_id": attempt.backend_id,
        "reason": attempt.backend_reason,
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
    }


def _object(found: GangSeen) -> dict[str, Any]:
    def moment(at_ms: int | None) -> str | None:
        return None if at_ms is None else iso(from_ms(at_ms))

    return {
        "backend_id": found.backend_id,
        "state": found.state.value,
        "reason": found.reason,
        "account": found.account,
        "comment": found.comment,
        "nodes": list(found.nodes),
        "gpus": found.gpus,
        "submitted_at": moment(found.submitted_ms),
        "started_at": moment(found.started_ms),
        "ended_at": moment(found.ended_ms),
    }


def _orders(orders: Sequence[Command]) -> list[dict[str, Any]]:
    return [
        {
            "key": row.key,
            "kind": row.kind,
            "state": row.state,
            "created_at": iso(row.created_at),
            "sent_at": iso(row.sent_at),
            "answered_at": iso(row.answered_at),
            "tries": row.tries,
            "answer": row.answer,
            "error": row.error,
        }
        for row in orders
    ]


def offer_document(action: Action, answer: Answer) -> dict[str, Any]:
    """What an action would do and why that is safe, or why it is not offered."""
    offered = isinstance(answer, Proposal)
    return {
        "action": action.value,
        "is_offered": offered,
        "does": answer.does if isinstance(answer, Proposal) else "",
        "safe_because": answer.safe if isinstance(answer, Proposal) else "",
        "why_not": "" if isinstance(answer, Proposal) else answer.why,
        "steps": [step.value for step in answer.steps] if isinstance(answer, Proposal) else [],
    }


def repair_document(done: Repair, *, is_dry: bool) -> dict[str, Any]:
    """What was done, or would be."""
    return {
        "case": str(done.case_id),
        "action": done.action.value,
        "dry_run": is_dry,
        "is_done": done.is_done,
        "steps": [step.value for step in done.steps],
        "does": done.does,
        "safe_because": done.safe,
    }
