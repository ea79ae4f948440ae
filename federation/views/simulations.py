"""Pages of simulations, for admins: ask what would have come of other quotas, and compare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from federation.models import Simulation
from federation.selectors.simulations import one_simulation, simulation_page
from federation.services.simulations import (
    MOST_WEEKS,
    USUAL_WEEKS,
    WEEK,
    ask_for,
    cancel,
    delete,
    quotas_as_text,
)
from federation.views.simulation_words import compared, tenants_of
from kit.errors import FieldProblem, MusterError
from kit.pagination import refuse_unknown
from tenancy.models import User
from tenancy.views import admin, signed_in

MOST_SHOWN = 100
WEEKS = (1, 2, USUAL_WEEKS, 8, 13, MOST_WEEKS)
TABLES = {"quotas": "Policy A", "against": "Policy B"}


@dataclass(frozen=True)
class Filled:
    """What was typed, and what is wrong with it by field; "" holds what fits no field."""

    values: Mapping[str, Any]
    wrong: Mapping[str, list[str]] = field(default_factory=dict)
    status: int = 200


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def simulations(request: HttpRequest) -> HttpResponse:
    """`/simulations`: the form and the list; POST asks."""
    user = _admin(request)
    refuse_unknown(request.GET, ())
    if request.method == "POST":
        try:
            made = _ask(user, request.POST)
        except MusterError as error:
            filled = Filled(_values(request.POST), _by_field(error), error.status)
        else:
            return redirect("simulation", made.pk)
    else:
        text = quotas_as_text()
        filled = Filled({"weeks": USUAL_WEEKS, "quotas": text, "against": text})
    context = {
        "now": timezone.now(),
        "it": filled,
        "tables": [
            (name, label, filled.values[name], filled.wrong.get(name, ()))
            for name, label in TABLES.items()
        ],
        "weeks": WEEKS,
        "rows": simulation_page(states=(), after=None, limit=MOST_SHOWN)[:MOST_SHOWN],
    }
    return render(request, "simulations.html", context, status=filled.status)


@signed_in
def simulation(request: HttpRequest, simulation_id: UUID) -> HttpResponse:
    """`/simulations/<id>`: how far it is, and the two policies side by side."""
    _admin(request)
    refuse_unknown(request.GET, ())
    it = one_simulation(simulation_id)
    outcomes: Sequence[Mapping[str, Any]] = it.result["outcomes"] if it.result else ()
    context = {
        "now": timezone.now(),
        "it": it,
        "days": (it.until_at - it.from_at).days,
        "letters": "AB"[: 1 + bool(it.against)],
        "tables": [(label, text) for name, label in TABLES.items() if (text := getattr(it, name))],
        "measures": compared(outcomes),
        "tenants": tenants_of(outcomes),
        "currency": outcomes[0]["total"]["cost"]["currency"] if outcomes else "",
    }
    return render(request, "simulation.html", context)


@signed_in
@require_POST
def change(request: HttpRequest, simulation_id: UUID, action: str) -> HttpResponse:
    """`POST /simulations/<id>/cancel` or `delete`."""
    user, now = _admin(request), timezone.now()
    if action not in ("cancel", "delete"):
        raise Http404
    it = one_simulation(simulation_id)
    if action == "delete":
        delete(actor=user, simulation=it, now=now)
        messages.success(request, "The simulation is deleted.")
        return redirect("simulations")
    try:
        cancel(actor=user, simulation=it, now=now)
    except MusterError as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, "The simulation is stopped.")
    return redirect("simulation", it.pk)


def _admin(request: HttpRequest) -> User:
    return admin(request, "Only an admin may simulate: all tenants' work is in it.")


def _ask(user: User, sent: QueryDict) -> Simulation:
    now, values = timezone.now(), _values(sent)
    is_same = values["against"].strip() == values["quotas"].strip()
    return ask_for(
        actor=user,
        start=now - values["weeks"] * WEEK,
        end=now,
        quotas=values["quotas"],
        against=None if is_same or not values["against"].strip() else values["against"],
        now=now,
    )


def _values(sent: QueryDict) -> dict[str, Any]:
    """What was typed; a number of weeks that the form does not offer is the usual one."""
    weeks = sent.get("weeks", "")
    return {
        "weeks": int(weeks) if weeks in map(str, WEEKS) else USUAL_WEEKS,
        **{name: sent.get(name, "").replace("\r\n", "\n") for name in TABLES},
    }


def _by_field(error: MusterError) -> dict[str, list[str]]:
    wrong: dict[str, list[str]] = {}
    for problem in error.errors or (FieldProblem("", error.code, error.detail),):
        name, _, rest = problem.pointer.removeprefix("/").partition("/")
        parts = rest.removeprefix("rows").strip("/").split("/", 1)
        where = ", ".join(["row " + parts[0], *parts[1:]] if parts[0].isdigit() else [])
        words = f"{where}: {problem.detail}" if where else problem.detail
        wrong.setdefault(name if name in TABLES else "", []).append(words)
    return wrong
