"""Reads of simulations; only admins see any."""

from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet

from federation.models import Simulation
from kit.errors import NotFoundError

State = Simulation.State
LARGE = ("quotas", "against", "result")


def _is_gone(now: datetime) -> Q:
    return Q(state=State.RUNNING, lease_until__lte=now)


def gone(now: datetime) -> QuerySet[Simulation]:
    """Those whose worker did not say for a lease's time that it is alive."""
    return Simulation.objects.filter(_is_gone(now))


def due(now: datetime) -> QuerySet[Simulation]:
    """Those that somebody is to work on, the oldest first."""
    return Simulation.objects.filter(Q(state=State.QUEUED) | _is_gone(now)).order_by("id")


def is_simulation_due(now: datetime) -> bool:
    """Whether somebody could take one now: one is due, and nobody works on another."""
    is_worked_on = Simulation.objects.filter(state=State.RUNNING, lease_until__gt=now)
    return due(now).exists() and not is_worked_on.exists()


def simulation_page(*, states: tuple[str, ...], after: UUID | None, limit: int) -> list[Simulation]:
    """At most `limit` + 1, newest first, without tables and results."""
    rows = Simulation.objects.select_related("asked_by").defer(*LARGE)
    if states:
        rows = rows.filter(state__in=states)
    if after is not None:
        rows = rows.filter(id__lt=after)
    return list(rows.order_by("-id")[: limit + 1])


def one_simulation(simulation_id: UUID) -> Simulation:
    """One with all that it holds.

    Raises:
        NotFoundError: there is none.
    """
    found = Simulation.objects.select_related("asked_by").filter(pk=simulation_id).first()
    if found is None:
        raise NotFoundError("There is no such simulation.")
    return found
