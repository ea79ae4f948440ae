"""The page of requests for quota: ask for more, and decide."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from clusters.selectors.catalogue import flavor_names
from federation.views.quota_words import not_followed
from kit.errors import FieldProblem, InvalidContentError, MusterError
from kit.pagination import refuse_unknown
from quotas.core.table import number_of
from quotas.models import QuotaRequest
from quotas.selectors import (
    REQUEST_STATES,
    request_page,
    served_flavor,
    state_of,
    visible_request,
)
from quotas.services.requests import Wish, approve, ask, reject, withdraw
from tenancy.models import Membership, Role, User
from tenancy.selectors.access import visible_tenants
from tenancy.selectors.tenants import managed_tenant, owned_tenant
from tenancy.services.records import LONGEST_WHY
from tenancy.views import person, signed_in

MOST_REQUESTS = 100
FIELDS = ("tenant", "flavor", "amount", "borrowing_limit", "from", "until", "why")
DONE = {
    "approve": "The request is granted.",
    "reject": "The request is rejected.",
    "withdraw": "It is taken back; nothing that runs is stopped.",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A request on the page, and what the person may do about it."""

    request: QuotaRequest
    state: str
    can_decide: bool
    can_withdraw: bool

    @property
    def begins(self) -> datetime:
        """When the grant begins, or as asked."""
        return self.request.granted_from or self.request.wanted_from

    @property
    def ends(self) -> datetime | None:
        """When it ends; None = for good."""
        it = self.request
        return it.granted_until if it.granted_gpus else it.wanted_until


@dataclass(frozen=True)
class Filled:
    """What was typed, and what is wrong with it by field; "" holds what fits no field."""

    values: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, list[str]] = field(default_factory=dict)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def requests(request: HttpRequest) -> HttpResponse:
    """`/quotas/requests?state=`: the list and the form; POST asks."""
    refuse_unknown(request.GET, ["state"])
    user, now = person(request), timezone.now()
    filled = Filled()
    if request.method == "POST":
        try:
            _ask(user, request.POST, now)
        except MusterError as error:
            filled = Filled(request.POST.dict(), _by_field(error))
        else:
            messages.success(request, "Asked. An admin, or an owner of a tenant above, decides.")
            return redirect("quota-requests")
    state = request.GET.get("state", "")
    states = (state,) if state in REQUEST_STATES else ()
    rows = request_page(user, states=states, limit=MOST_REQUESTS, now=now)
    owned = _owned(user)
    context = {
        "now": now,
        "it": filled,
        "requests": [_shown(row, user, owned, now) for row in rows[:MOST_REQUESTS]],
        "state": state,
        "states": REQUEST_STATES,
        "tenants": visible_tenants(user, Role.OWNER).order_by("path"),
        "flavors": flavor_names(),
        "longest": LONGEST_WHY,
    }
    return render(request, "quota_requests.html", context, status=422 if filled.wrong else 200)


@signed_in
@require_POST
def decide(request: HttpRequest, request_id: UUID, action: str) -> HttpResponse:
    """`POST /quotas/requests/<id>/approve`, `reject` or `withdraw`; back to the list."""
    user, now, sent = person(request), timezone.now(), request.POST
    if action not in DONE:
        raise Http404
    found = visible_request(user, request_id)
    allowed = owned_tenant if action == "withdraw" else managed_tenant
    allowed(user, found.tenant.path)
    revision = number_of(sent.get("revision", ""))
    given: dict[str, Any] = {
        "actor": user,
        "request": found,
        "comment": sent.get("comment", ""),
        "expected_revision": revision if isinstance(revision, int) else None,
        "now": now,
    }
    try:
        if action == "approve":
            approve(**given, changes=_granted(sent, found))
        else:
            (reject if action == "reject" else withdraw)(**given)
    except MusterError as error:
        words = " ".join(one.detail for one in error.errors) or error.detail
        messages.error(request, f"Nothing was decided. {words}")
    else:
        messages.success(request, DONE[action])
        for words in not_followed() if action == "approve" else ():
            messages.info(request, words)
    return redirect("quota-requests")


def _ask(user: User, sent: QueryDict, now: datetime) -> None:
    tenant = owned_tenant(user, sent.get("tenant", ""))
    start = _day(sent.get("from", ""), "/from")
    wish = Wish(
        gpus=number_of(sent.get("amount", "")),  # type: ignore[arg-type]  # the service refuses text
        start=start or now,
        end=_day(sent.get("until", ""), "/until"),
        borrowing_limit=number_of(sent.get("borrowing_limit", "")),  # type: ignore[arg-type]
    )
    flavor = served_flavor(sent.get("flavor", ""))
    ask(actor=user, tenant=tenant, flavor=flavor, wish=wish, why=sent.get("why", ""), now=now)


def _granted(sent: QueryDict, found: QuotaRequest) -> dict[str, Any]:
    """What an approval changes: fields that the form left as they were stay as they were asked."""
    changes: dict[str, Any] = {}
    if sent.get("amount", "").strip():
        changes["gpus"] = number_of(sent.get("amount", ""))
    for name, field_name, wanted in (
        ("from", "start", found.wanted_from),
        ("until", "end", found.wanted_until),
    ):
        typed = sent.get(name, day_text(wanted))
        if typed != day_text(wanted):
            changes[field_name] = _day(typed, f"/{name}")
    if changes.get("start", True) is None:
        del changes["start"]
    return changes


def day_text(moment: datetime | None) -> str:
    """The UTC day of a moment as a date input has it; "" for None."""
    return "" if moment is None else moment.astimezone(UTC).date().isoformat()


def _day(text: str, pointer: str) -> datetime | None:
    """Midnight UTC of a day such as 2026-12-24; None for an empty one.

    Raises:
        InvalidContentError: it is no day.
    """
    if not text.strip():
        return None
    try:
        return datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidContentError("Give a day such as 2026-12-24.", pointer=pointer) from None


def _owned(user: User) -> set[UUID]:
    owned = Membership.objects.filter(user=user, role=Role.OWNER)
    return set(owned.values_list("tenant_id", flat=True))


def _shown(row: QuotaRequest, user: User, owned: set[UUID], now: datetime) -> Shown:
    state = state_of(row, now)
    lineage = row.tenant.lineage
    decides = user.is_superuser or bool(owned & set(lineage[:-1]))
    owns = user.is_superuser or bool(owned & set(lineage))
    return Shown(
        request=row,
        state=state,
        can_decide=state == "open" and decides,
        can_withdraw=state in ("open", "approved") and owns,
    )


def _by_field(error: MusterError) -> dict[str, list[str]]:
    wrong: dict[str, list[str]] = {}
    for problem in error.errors or (FieldProblem("", error.code, error.detail),):
        name = problem.pointer.removeprefix("/")
        wrong.setdefault(name if name in FIELDS else "", []).append(problem.detail)
    return wrong
