"""Asking for a simulation, stopping it, taking it off the list. The work is in `simulate`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction

from federation.models import Simulation
from kit.errors import ConflictError, FieldProblem, InvalidContentError, MusterError
from kit.intervals import iso, to_ms
from quotas.core.cohort import QuotaRow
from quotas.core.grants import rows_at
from quotas.core.table import TableRow
from quotas.selectors import all_quotas, grants_from
from quotas.services.files import read_file, write_file
from quotas.services.rows import require_fit
from quotas.services.tables import numbers_of, places_of, refuse, table_of
from tenancy.models import Tenant, User
from tenancy.services.records import Change, write_audit, write_events

State = Simulation.State
MOST_OPEN = 10
MOST_WEEKS, USUAL_WEEKS = 26, 4
WEEK = timedelta(days=7)
LARGEST_TEXT = 1_000_000
_LOCK = 0x6D75_0002  # a number of its own among Muster's advisory locks


class TooManySimulationsError(ConflictError):
    """So many simulations wait or run already that no more are taken."""

    code, status, title = "too_many_simulations", 409, "Too many simulations"


class SimulationOverError(ConflictError):
    """The simulation has ended: there is nothing to stop."""

    code, status, title = "simulation_over", 409, "The simulation is over"


def quotas_as_text() -> str:
    """The tree as it is set, as the text of a file."""
    return write_file(table_of(all_quotas()), "yaml")


@transaction.atomic
def ask_for(
    *,
    actor: User,
    start: datetime,
    end: datetime,
    quotas: str | None = None,
    against: str | None = None,
    now: datetime,
) -> Simulation:
    """Asks for the jobs of [start, end) under `quotas` (None: as they are set) and `against`.

    Raises:
        InvalidContentError: the window or a table is wrong; pointers like `/quotas/rows/3/flavor`.
        ChildrenAboveParentError: some tenants of a table are guaranteed more than the one above.
        TooManySimulationsError: others are to end first.
    """
    texts = {"quotas": quotas_as_text() if quotas is None else quotas, "against": against or ""}
    _refuse_wrong(start, end, texts, now)
    lock_simulations()
    if Simulation.objects.filter(state__in=(State.QUEUED, State.RUNNING)).count() >= MOST_OPEN:
        raise TooManySimulationsError(
            f"{MOST_OPEN} simulations wait or run; one more is taken when one of them is over."
        )
    made = Simulation.objects.create(
        asked_by=actor, asked_at=now, from_at=start, until_at=end, **texts
    )
    _record(actor, made, "ask", now)
    tell(made, now)
    return made


@transaction.atomic
def cancel(*, actor: User, simulation: Simulation, now: datetime) -> Simulation:
    """Stops it; who works on it notices within seconds, and what it writes does not count any more.

    Raises:
        SimulationOverError: it has ended.
    """
    held = Simulation.objects.select_for_update(of=("self",)).get(pk=simulation.pk)
    if not held.is_open:
        raise SimulationOverError(f"The simulation is {held.state} already.")
    held.state, held.ended_at, held.lease_until = State.CANCELLED, now, None
    held.save(update_fields=["state", "ended_at", "lease_until"])
    _record(actor, held, "cancel", now)
    tell(held, now)
    return held


@transaction.atomic
def delete(*, actor: User, simulation: Simulation, now: datetime) -> None:
    """Takes it off the list with its result; one that runs is stopped."""
    if Simulation.objects.filter(pk=simulation.pk).delete()[0]:
        _record(actor, simulation, "delete", now)
        write_events(changes=[Change("simulation.deleted", str(simulation.pk), None)], now=now)


def policy_rows(text: str, now: datetime) -> tuple[QuotaRow, ...]:
    """The quotas of a table that stands for the whole tree, raised by the grants that hold now.

    Raises:
        InvalidContentError: pointers `/rows/{row}/{field}`.
        ChildrenAboveParentError: some tenants are guaranteed more than the one above them.
    """
    table, problems = read_file(text, "yaml")
    refuse(problems)
    tenants = {tenant.id: tenant for tenant in Tenant.objects.all()}
    rows = _rows(table, {tenant.path: tenant.id for tenant in tenants.values()})
    require_fit(rows, tenants, now)
    return rows_at(rows, grants_from(now), to_ms(now))


def _rows(table: list[TableRow], tenants: dict[str, UUID]) -> list[QuotaRow]:
    places = places_of(table, tenants)
    return [QuotaRow(*place, **numbers_of(row)) for row, place in zip(table, places, strict=True)]


def lock_simulations() -> None:
    """One at a time counts and takes; held until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def tell(it: Simulation, now: datetime) -> None:
    """An event of how it stands, for admins' pages."""
    data = {"progress": it.progress}
    change = Change(f"simulation.{it.state}", str(it.pk), None, it.state, data)
    write_events(changes=[change], now=now)


@contextmanager
def within(field: str) -> Iterator[None]:
    """Pointers of what is wrong with a table begin with the field that it stands in."""
    try:
        yield
    except MusterError as error:
        errors = [replace(one, pointer=f"/{field}{one.pointer}") for one in error.errors]
        raise type(error)(error.detail, errors=errors) from None


def _refuse_wrong(start: datetime, end: datetime, texts: dict[str, str], now: datetime) -> None:
    """Raises for all that is wrong at once; what does not fit only if nothing else is wrong."""
    problems = list(_wrong_window(start, end, now))
    misfit: MusterError | None = None
    for field, text in texts.items():
        if field == "against" and not text:
            continue
        if len(text) > LARGEST_TEXT:
            words = f"Give at most {LARGEST_TEXT} letters."
            problems.append(FieldProblem(f"/{field}", "too_long", words))
            continue
        try:
            with within(field):
                policy_rows(text, now)
        except InvalidContentError as error:
            problems += error.errors
        except MusterError as error:
            misfit = misfit or error
    if problems:
        raise InvalidContentError(
            "The simulation is not valid; nothing was written.", errors=problems
        )
    if misfit:
        raise misfit


def _wrong_window(start: datetime, end: datetime, now: datetime) -> Iterable[FieldProblem]:
    if end > now:
        yield FieldProblem("/until", "in_the_future", f"Give a time up to now, {iso(now)}.")
    if start >= end:
        yield FieldProblem("/from", "not_before_until", "It is to begin before it ends.")
    elif end - start > MOST_WEEKS * WEEK:
        yield FieldProblem("/from", "too_long", f"Give at most {MOST_WEEKS} weeks.")


def _record(actor: User, it: Simulation, action: str, now: datetime) -> None:
    shown = {"from": iso(it.from_at), "until": iso(it.until_at), "state": str(it.state)}
    write_audit(
        actor=actor,
        action=action,
        object_type="simulation",
        object_id=it.pk,
        after=shown,
        now=now,
    )
