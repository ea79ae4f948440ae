"""A tenant asks for more guaranteed GPUs; who manages it grants them, for a time or for good.

A grant counts and ends by its times alone (`quotas.core.grants`), so nothing has to happen at its
end: what runs keeps its class and price, and nothing new starts as guaranteed until use has shrunk.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from clusters.models import Flavor
from kit.errors import ConflictError, FieldProblem, InvalidContentError, StaleWriteError
from kit.intervals import from_ms, iso, to_ms
from quotas.models import Quota, QuotaRequest
from quotas.selectors import ENDED, state_of
from quotas.services.rows import (
    MOST_GPUS,
    lock_tree,
    require_fit_in,
    require_share,
    set_quota,
    whole_number,
)
from tenancy.models import Tenant, User
from tenancy.services.records import (
    Change,
    ring,
    why_problems,
    write_audit,
    write_events,
)

LAST_YEAR = 2200
State = QuotaRequest.State


class RequestDecidedError(ConflictError):
    """The request is not open any more."""

    code, status, title = "request_decided", 409, "The request is decided"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for or granted: GPUs guaranteed in [start, end), None = for good.

    `borrowing_limit`: the tenant may use at least so much spot meanwhile; None = as its row says.
    """

    gpus: int
    start: datetime
    end: datetime | None = None
    borrowing_limit: int | None = None


def _refuse_wrong(wish: Wish, now: datetime, more: list[FieldProblem]) -> None:
    """Raises InvalidContentError for numbers and times that are no grant."""
    numbers = [whole_number("amount", wish.gpus, 1, MOST_GPUS, "GPUs")]
    if wish.borrowing_limit is not None:
        numbers.append(whole_number("borrowing_limit", wish.borrowing_limit, 0, MOST_GPUS, "GPUs"))
    found = [problem for problem in numbers if problem]
    for name, moment in (("from", wish.start), ("until", wish.end)):
        if moment is not None and moment.year >= LAST_YEAR:
            words = f"Give a time before the year {LAST_YEAR}; no end is null."
            found.append(FieldProblem(f"/{name}", "invalid_time", words))
    if wish.end is not None and wish.end <= now:
        found.append(FieldProblem("/until", "in_the_past", "It would be over already."))
    elif wish.end is not None and wish.end <= wish.start:
        found.append(FieldProblem("/until", "before_from", "It is to end after it begins."))
    if found or more:
        raise InvalidContentError("The request is not valid.", errors=[*found, *more])


@transaction.atomic
def ask(
    *, actor: User, tenant: Tenant, flavor: Flavor, wish: Wish, why: str, now: datetime
) -> QuotaRequest:
    """Asks for more. Nothing is granted yet, and nothing is held for it.

    Raises:
        InvalidContentError: a number, a time or the reason is none.
    """
    problems = why_problems(why)
    if not problems and not why.strip():
        problems = [FieldProblem("/why", "missing", "Say why, for those who decide.")]
    _refuse_wrong(wish, now, problems)
    request = QuotaRequest.objects.create(
        tenant=tenant,
        flavor=flavor,
        gpus=wish.gpus,
        borrowing_limit=wish.borrowing_limit,
        wanted_from=wish.start,
        wanted_until=wish.end,
        why=why,
        asked_by=actor,
        asked_at=now,
    )
    _record(actor, request, "ask", None, why, now)
    return request


@transaction.atomic
def approve(
    *,
    actor: User,
    request: QuotaRequest,
    changes: Mapping[str, Any],
    comment: str = "",
    expected_revision: int | None = None,
    now: datetime,
) -> QuotaRequest:
    """Grants what was asked for, or with `changes` (fields of `Wish`) something else.

    What was to begin in the past begins now. A tenant without a row for all clusters gets one of 0,
    which the grant then raises.

    Raises:
        InvalidContentError: the grant would be over already, or a number is out of its range.
        RequestDecidedError: somebody decided it, or it was withdrawn.
        StaleWriteError: it is not the request any more that the caller saw.
        PermissionDeniedError: no tenant above has a quota that the actor could share out.
        ChildrenAboveParentError: at some moment of the grant, a tenant would owe more than it has.
    """
    tenant = request.tenant
    lock_tree(tenant)
    held = _open_one(request, expected_revision, now)
    require_share(actor, tenant, held.flavor_id)
    wanted = Wish(held.gpus, held.wanted_from, held.wanted_until, held.borrowing_limit)
    wish = replace(wanted, **changes)
    _refuse_wrong(wish, now, why_problems(comment, "comment"))
    before = shown(held)
    held.granted_gpus = wish.gpus
    held.granted_borrowing_limit = wish.borrowing_limit
    held.granted_from = from_ms(to_ms(max(wish.start, now)))
    held.granted_until = wish.end
    _decide(held, actor, State.APPROVED, comment, now)
    _raise_row(actor, held, now)
    require_fit_in(tenant, held.flavor_id, now)
    _record(actor, held, "approve", before, comment, now)
    return held


@transaction.atomic
def reject(
    *,
    actor: User,
    request: QuotaRequest,
    comment: str = "",
    expected_revision: int | None = None,
    now: datetime,
) -> QuotaRequest:
    """Grants nothing. `comment` tells the tenant why.

    Raises:
        InvalidContentError, RequestDecidedError, StaleWriteError: as `approve`.
    """
    held = _open_one(request, expected_revision, now)
    if problems := why_problems(comment, "comment"):
        raise InvalidContentError("The comment is not valid.", errors=problems)
    before = shown(held)
    _decide(held, actor, State.REJECTED, comment, now)
    _record(actor, held, "reject", before, comment, now)
    return held


@transaction.atomic
def withdraw(
    *,
    actor: User,
    request: QuotaRequest,
    comment: str = "",
    expected_revision: int | None = None,
    now: datetime,
) -> QuotaRequest:
    """Takes an open request back, or ends a grant now. Nothing that runs is stopped.

    Raises:
        InvalidContentError, StaleWriteError: as `approve`.
        RequestDecidedError: it was rejected, withdrawn, or its grant is over.
        ChildrenAboveParentError: tenants below were promised a part of the grant.
    """
    lock_tree(request.tenant)
    held = _locked(request, expected_revision)
    if problems := why_problems(comment, "comment"):
        raise InvalidContentError("The comment is not valid.", errors=problems)
    if state_of(held, now) not in (State.OPEN, State.APPROVED):
        raise _decided(held, now)
    before, is_grant = shown(held), held.state == State.APPROVED
    has_begun = held.granted_from is not None and held.granted_from <= now
    if is_grant and has_begun:
        held.granted_until = from_ms(to_ms(now))
        held.revision += 1
        held.save()
    else:
        _decide(held, actor, State.WITHDRAWN, comment, now)
    if is_grant:
        _raise_row(actor, held, now)
        require_fit_in(held.tenant, held.flavor_id, now)
    _record(actor, held, "end" if is_grant else "withdraw", before, comment, now)
    return held


def shown(request: QuotaRequest) -> dict[str, Any]:
    """What the audit keeps of a request."""
    wanted = Wish(request.gpus, request.wanted_from, request.wanted_until, request.borrowing_limit)
    granted = None
    if request.granted_gpus is not None and request.granted_from is not None:
        granted = Wish(
            request.granted_gpus,
            request.granted_from,
            request.granted_until,
            request.granted_borrowing_limit,
        )
    return {
        "request": str(request.pk),
        "flavor": request.flavor_id,
        "state": str(request.state),
        "asked": wish_document(wanted),
        "granted": None if granted is None else wish_document(granted),
    }


def wish_document(wish: Wish) -> dict[str, Any]:
    """What is asked for or granted, as JSON."""
    fields = asdict(wish)
    return {
        "amount": fields["gpus"],
        "borrowing_limit": fields["borrowing_limit"],
        "from": iso(wish.start),
        "until": iso(wish.end),
    }


def _locked(request: QuotaRequest, expected_revision: int | None) -> QuotaRequest:
    held = (
        QuotaRequest.objects.select_for_update(of=("self",))
        .select_related("tenant", "asked_by", "decided_by")
        .get(pk=request.pk)
    )
    if expected_revision not in (None, held.revision):
        raise StaleWriteError(
            f"The request is revision {held.revision} now, not {expected_revision}; read it again."
        )
    return held


def _open_one(request: QuotaRequest, expected_revision: int | None, now: datetime) -> QuotaRequest:
    held = _locked(request, expected_revision)
    if held.state != State.OPEN:
        raise _decided(held, now)
    return held


def _decided(held: QuotaRequest, now: datetime) -> RequestDecidedError:
    by = f" by {held.decided_by}" if held.decided_by else ""
    is_over = state_of(held, now) == ENDED
    words = "The grant is over." if is_over else f"The request was {held.state}{by}."
    return RequestDecidedError(words)


def _decide(held: QuotaRequest, actor: User, state: State, comment: str, now: datetime) -> None:
    held.state = state
    held.decided_by, held.decided_at, held.comment = actor, now, comment
    held.revision += 1
    held.save()


def _raise_row(actor: User, held: QuotaRequest, now: datetime) -> None:
    """Gives the tenant a row for the grant to count on; plans made on the old row are stale."""
    place = {"tenant": held.tenant, "flavor": held.flavor_id, "cluster": None}
    if Quota.objects.filter(**place).update(revision=F("revision") + 1):
        return
    above = Quota.objects.filter(
        tenant__in=held.tenant.lineage[:-1], flavor=held.flavor_id, cluster=None
    )
    set_quota(
        actor=actor,
        tenant=held.tenant,
        flavor=held.flavor,
        guaranteed=0,
        borrowing_limit=None if above.exists() else 0,  # as without a row: nothing of its own
        expected_revision=0,
        why=f"For the grant {held.pk}.",
        now=now,
    )


def _record(
    actor: User,
    request: QuotaRequest,
    action: str,
    before: dict[str, Any] | None,
    why: str,
    now: datetime,
) -> None:
    """The audit entry and the event of one act, and the doorbell."""
    after = shown(request)
    write_audit(
        actor=actor,
        action=action,
        object_type="quota_request",
        object_id=f"{request.tenant.path} {request.flavor_id}",
        before=before,
        after=after,
        why=why,
        now=now,
    )
    data = {"flavor": request.flavor_id, "state": after["state"], **after["asked"]}
    change = Change(f"quota.{action}", str(request.pk), request.tenant_id, action, data)
    write_events(changes=[change], now=now)
    ring()
