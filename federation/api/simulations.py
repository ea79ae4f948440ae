"""REST: policies on past work."""

from datetime import datetime
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from federation.models import Simulation
from federation.selectors.simulations import one_simulation, simulation_page
from federation.services.simulations import MOST_WEEKS, USUAL_WEEKS, WEEK, ask_for, cancel, delete
from kit.errors import FieldProblem, InvalidContentError
from kit.intervals import iso
from quotas.api.requests import moment_of
from tenancy.api.endpoint import (
    MOMENT,
    MONEY,
    NUMBER,
    PAGING,
    TEXT,
    UUID_TEXT,
    Endpoint,
    Query,
    Schema,
    answer_creating,
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
    uuid_after,
)
from tenancy.permissions import IsAdmin
from tenancy.services.idempotency import Answer

FIRST_YEAR = 2000
STATES = tuple(Simulation.State.values)
SECONDS: Schema = {"type": "number", "description": "Seconds."}


def _by(value: Schema, about: str) -> Schema:
    return {"type": "object", "additionalProperties": value, "description": about}


_SUMS = {
    "jobs": NUMBER,
    "never": {**NUMBER, "description": "Jobs that could not start."},
    "finished": NUMBER,
    "waits": _by(
        document(jobs=NUMBER, p50=SECONDS, p90=SECONDS), "By the class that jobs started in."
    ),
    "gpu_ms": _by(NUMBER, "By class."),
    "gpu_hours": _by(TEXT, "By class."),
    "evictions": NUMBER,
    "lost_gpu_ms": NUMBER,
    "cost": MONEY,
}
OUTCOME = component(
    "SimulationOutcome",
    document(
        quotas={"type": "string", "enum": ["quotas", "against"]},
        tenants=list_of(
            document(
                tenant=TEXT,
                weight=NUMBER,
                **_SUMS,
            )
        ),
        total=document(**_SUMS),
        fairness={"type": "number", "description": "Jain's index of GPU time over weight."},
        span={**NUMBER, "description": "Seconds from the first arrival to the last end."},
        cycles=NUMBER,
    ),
)
_SHORT = {
    "id": UUID_TEXT,
    "asked_by": TEXT,
    "asked_at": MOMENT,
    "from": MOMENT,
    "until": MOMENT,
    "state": {"type": "string", "enum": list(STATES)},
    "progress": {**NUMBER, "description": "Whole per cent."},
    "failure": or_null(TEXT),
    "started_at": or_null(MOMENT),
    "ended_at": or_null(MOMENT),
}
SUMMARY = component("SimulationSummary", document(**_SHORT))
SIMULATION = component(
    "Simulation",
    document(
        **_SHORT,
        quotas={**TEXT, "description": "The table as asked, in YAML."},
        against=or_null(TEXT),
        result=or_null(
            document(
                v=NUMBER,
                jobs=NUMBER,
                left_out=_by(NUMBER, "Jobs that cannot be replayed, by why."),
                gpus=_by(NUMBER, "GPUs of the fleet by flavor."),
                outcomes=list_of(OUTCOME),
            )
        ),
    ),
)
FIELDS = ("from", "until", "weeks", "quotas", "against")
NEW: Schema = {
    "type": "object",
    "properties": {
        "from": {**MOMENT, "description": "Default: `weeks` before `until`."},
        "until": {**MOMENT, "description": "Default: now."},
        "weeks": {**NUMBER, "minimum": 1, "maximum": MOST_WEEKS, "default": USUAL_WEEKS},
        "quotas": or_null(
            {
                **TEXT,
                "description": "YAML as `manage.py quotas export` prints; null = as it is set.",
            }
        ),
        "against": or_null({**TEXT, "description": "Another table, put beside the first."}),
    },
    "additionalProperties": False,
}


class Simulations(Endpoint):
    """Simulations."""

    @operation(
        IsAdmin,
        "Simulations",
        gives=page_of(SUMMARY),
        query=(
            *PAGING,
            Query(
                "state", "Only these states.", {"type": "string", "enum": list(STATES)}, many=True
            ),
        ),
        name="list_simulations",
    )
    def get(self, request: Request) -> Response:
        """Newest first, without tables and results. They are kept for 90 days after their end."""
        page = page_after(request, str)
        rows = simulation_page(
            states=many(request, "state", STATES), after=uuid_after(page), limit=page.limit
        )
        return page_response(request, page, rows, summary_document, lambda row: str(row.pk))

    @operation(
        IsAdmin,
        "Simulate a policy",
        takes=NEW,
        gives=SIMULATION,
        status=202,
        creates=True,
        name="simulate",
    )
    def post(self, request: Request) -> Response:
        """What would have come of the jobs of some weeks under one table of quotas, or two.

        A table stands for the whole tree. What is wrong with it is told by row (from 1) and field,
        as in `/quotas/rows/3/flavor`. It is worked on beside everything else; look again at the
        address in `Location`.
        """
        body, actor, now = fields_of(request, FIELDS), user_of(request), clock()
        asked = asked_of(body, now)

        def act() -> Answer:
            made = ask_for(actor=actor, now=now, **asked)
            return Answer(202, simulation_document(made))

        response = answer_creating(request, "POST /simulations", act)
        response["Location"] = f"{request.path}/{response.data['id']}"
        return response


class OneSimulation(Endpoint):
    """One simulation."""

    @operation(IsAdmin, "One simulation", gives=SIMULATION, name="get_simulation")
    def get(self, request: Request, simulation_id: UUID) -> Response:
        """With its tables, and its result when it is done."""
        return Response(simulation_document(one_simulation(simulation_id)))

    @operation(IsAdmin, "Delete a simulation", status=204, name="delete_simulation")
    def delete(self, request: Request, simulation_id: UUID) -> Response:
        """With its result. One that runs is stopped."""
        fields_of(request, ())
        delete(actor=user_of(request), simulation=one_simulation(simulation_id), now=clock())
        return Response(status=204)


class CancelSimulation(Endpoint):
    """Stopping."""

    @operation(IsAdmin, "Stop a simulation", gives=SIMULATION, name="cancel_simulation")
    def post(self, request: Request, simulation_id: UUID) -> Response:
        """It is kept without a result. 409 when it is over."""
        fields_of(request, ())
        found = one_simulation(simulation_id)
        return Response(
            simulation_document(cancel(actor=user_of(request), simulation=found, now=clock()))
        )


def summary_document(it: Simulation) -> dict[str, Any]:
    """How it stands."""
    return {
        "id": str(it.pk),
        "asked_by": it.asked_by.username,
        "asked_at": iso(it.asked_at),
        "from": iso(it.from_at),
        "until": iso(it.until_at),
        "state": str(it.state),
        "progress": it.progress,
        "failure": it.failure or None,
        "started_at": iso(it.started_at),
        "ended_at": iso(it.ended_at),
    }


def simulation_document(it: Simulation) -> dict[str, Any]:
    """All of it."""
    return {
        **summary_document(it),
        "quotas": it.quotas,
        "against": it.against or None,
        "result": it.result,
    }


def asked_of(body: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Window and tables that a body asks for, as `ask_for` takes them.

    Raises:
        InvalidContentError: a field is not of its kind.
    """
    problems: list[FieldProblem] = []
    end = _moment(body, "until", problems) or now
    start = _moment(body, "from", problems)
    weeks = body.get("weeks")
    if weeks is None:
        weeks = USUAL_WEEKS
    elif body.get("from") is not None:
        problems.append(FieldProblem("/weeks", "conflict", "Give `from` or `weeks`, not both."))
    if not isinstance(weeks, int) or isinstance(weeks, bool) or not 1 <= weeks <= MOST_WEEKS:
        words = f"Give a whole number from 1 to {MOST_WEEKS}."
        problems.append(FieldProblem("/weeks", "out_of_range", words))
    texts = {name: body.get(name) for name in ("quotas", "against")}
    problems += [
        FieldProblem(f"/{name}", "wrong_type", "Give a table as YAML text.")
        for name, text in texts.items()
        if text is not None and not isinstance(text, str)
    ]
    if problems:
        raise InvalidContentError(
            "The simulation is not valid; nothing was written.", errors=problems
        )
    return {"start": start or end - weeks * WEEK, "end": end, **texts}


def _moment(body: dict[str, Any], name: str, problems: list[FieldProblem]) -> datetime | None:
    if body.get(name) is None:
        return None
    try:
        moment = moment_of(body[name])
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment.year < FIRST_YEAR:
        words = "Give a time such as 2026-12-24T00:00:00Z."
        problems.append(FieldProblem(f"/{name}", "invalid_time", words))
        return None
    return moment
