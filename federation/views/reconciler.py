"""Pages of the reconciler, for admins: how clusters stand, the cases, and doing something about one.

What is to be done is shown first, on a page of its own, and done from there with a reason.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from federation.core.repair import Action, Answer, Kind, Proposal, Refusal
from federation.selectors.cases import Case, finding_of, with_evidence
from federation.selectors.findings import find, members
from federation.selectors.standings import Standing, standings_of
from federation.services.repair import preview, repair
from kit.errors import MusterError, NotFoundError
from kit.pagination import refuse_unknown
from tenancy.models import User
from tenancy.views import admin, signed_in

MOST_CASES = 100
LONGEST_WHY = 1000
SENTENCES = {
    Kind.LOST: "It ran, and now neither {cluster} nor its accounting knows of it.",
    Kind.UNKNOWN: "The accounting of {cluster} says that it runs; the controller does not know it.",
    Kind.ORPHAN: "It lives on {cluster} under our mark, and {owner}.",
    Kind.DUPLICATE: "{count} objects live under one fence; one of them counts.",
    Kind.FOREIGN_NAME: "It is named like one of ours and does not bear our mark.",
    Kind.AMBIGUOUS: "The order to {order} was sent, and no answer came. {error}",
    Kind.PARKED: "The order to {order} failed {tries}. {error}",
    Kind.REJECTED: "{cluster} refused the order to {order}. {error}",
    Kind.SILENT: "{cluster} does not answer; its jobs keep their states. {error}",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """An action on a page: what it would do, or why it is not offered."""

    action: Action
    answer: Answer

    @property
    def is_offered(self) -> bool:
        """Whether it may be done."""
        return isinstance(self.answer, Proposal)

    @property
    def words(self) -> str:
        """What it does, or why not."""
        return self.answer.why if isinstance(self.answer, Refusal) else self.answer.does


@dataclass(frozen=True, slots=True)
class Shown:
    """A case as a page shows it."""

    case: Case
    sentence: str
    offers: tuple[Offer, ...]

    @property
    def possible(self) -> tuple[Offer, ...]:
        """The actions that may be done."""
        return tuple(offer for offer in self.offers if offer.is_offered)


@signed_in
def reconciler(request: HttpRequest) -> HttpResponse:
    """`/reconciler?cluster=&kind=`"""
    _admin(request)
    refuse_unknown(request.GET, ["cluster", "kind"])
    now, clusters = timezone.now(), members()
    chosen = {name: request.GET.get(name, "") for name in ("cluster", "kind")}
    kinds = (chosen["kind"],) if chosen["kind"] in set(Kind) else ()
    everything = find(clusters, now)
    found = [
        finding
        for finding in everything
        if chosen["cluster"] in ("", finding.cluster.name) and (not kinds or finding.kind in kinds)
    ]
    rows = standings_of(clusters, everything, now)
    context = {
        "now": now,
        "rows": rows,
        "sums": _sums(rows),
        "chosen": chosen,
        "count": len(found),
        "hidden": max(0, len(found) - MOST_CASES),
        "cases": [show(case) for case in with_evidence(found[:MOST_CASES], now)],
    }
    return render(request, "reconciler.html", context)


@signed_in
def case(request: HttpRequest, case_id: UUID) -> HttpResponse:
    """`/reconciler/<case>`: all that is known, and every action with what it would do."""
    _admin(request)
    now = timezone.now()
    if _is_late(request, case_id):
        return HttpResponse(status=204)
    return render(request, "case.html", {"now": now, "it": _shown(case_id)})


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def act(request: HttpRequest, case_id: UUID, action: str) -> HttpResponse:
    """`/reconciler/<case>/<action>`: GET shows what would change, POST with a reason does it."""
    user = _admin(request)
    if action not in set(Action):
        raise Http404
    wanted, now = Action(action), timezone.now()
    why = request.POST.get("why", "").strip()
    wrong = ""
    if request.method == "POST":
        if why and len(why) <= LONGEST_WHY and "\0" not in why:
            return _done(request, user, case_id, wanted, why)
        wrong = f"Say why, in 1 to {LONGEST_WHY} letters."
    elif _is_late(request, case_id):
        return HttpResponse(status=204)
    try:
        planned = preview(case_id=case_id, action=wanted, version=None, now=now)
    except NotFoundError:
        raise
    except MusterError as error:
        messages.error(request, error.detail)
        return redirect("case", case_id=case_id)
    context = {
        "now": now,
        "it": _shown(case_id),
        "plan": planned,
        "why": why,
        "wrong": wrong,
        "longest": LONGEST_WHY,
    }
    return render(request, "case_act.html", context, status=422 if wrong else 200)


def _done(
    request: HttpRequest, user: User, case_id: UUID, action: Action, why: str
) -> HttpResponse:
    """Does it; back to where the case still is, with what came of it."""
    version = request.POST.get("version", "")
    try:
        done = repair(
            user=user,
            case_id=case_id,
            action=action,
            version=int(version) if version.isascii() and version.isdigit() else None,
            why=why,
            now=timezone.now(),
        )
    except NotFoundError:
        messages.warning(request, "The case is settled; nothing was done.")
    except MusterError as error:
        messages.error(request, error.detail)
        return redirect("case", case_id=case_id)
    else:
        messages.success(request, f"Done. {done.does}")
    return redirect("reconciler")


def _admin(request: HttpRequest) -> User:
    return admin(request, "Only an admin may see the reconciler.")


def _is_late(request: HttpRequest, case_id: UUID) -> bool:
    """Whether a page that is open refreshes a case that was settled meanwhile: it stays as it is."""
    is_refresh = request.headers.get("HX-Request") == "true"
    return is_refresh and finding_of(case_id, timezone.now()) is None


def _shown(case_id: UUID) -> Shown:
    now = timezone.now()
    found = finding_of(case_id, now)
    if found is None:
        raise NotFoundError("There is no such case, or it is settled.")
    return show(with_evidence([found], now)[0])


def _sums(rows: list[Standing]) -> dict[str, int]:
    """The figures of the page's head."""
    return {
        "away": sum(not row.is_reachable for row in rows),
        "cases": sum(row.cases for row in rows),
        "lost": sum(row.counts[Kind.LOST] + row.counts[Kind.UNKNOWN] for row in rows),
        "objects": sum(row.counts[Kind.ORPHAN] + row.counts[Kind.DUPLICATE] for row in rows),
        "orders": sum(row.outbox.depth for row in rows),
        "duplicates": sum(row.duplicates_cancelled for row in rows),
    }


def show(case: Case) -> Shown:
    """The case in words."""
    order = case.order
    error = case.cluster.failure if case.finding.kind is Kind.SILENT else order and order.error
    words: dict[str, Any] = {
        "cluster": case.cluster.name,
        "owner": _owner(case),
        "count": len(case.evidence.living),
        "order": order.kind if order else "",
        "tries": _times(order.tries if order else 0),
        "error": f"It says: {error[:300].rstrip('.')}." if error else "",
    }
    sentence = SENTENCES[case.finding.kind].format(**words).strip()
    offers = tuple(Offer(action, answer) for action, answer in case.answers.items())
    return Shown(case, sentence, offers)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _owner(case: Case) -> str:
    """Whose an orphan is not."""
    if case.attempt is None:
        return "our records have no such attempt"
    if case.attempt.cluster_id != case.cluster.pk:
        return f"its attempt is bound to {case.attempt.cluster.name}"
    return "its attempt is over"
