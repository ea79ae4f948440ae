"""The aggregated queue."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from federation.selectors.queue import (
    ACTIVE_PART,
    NEW_PART,
    RANKED_PART,
    Place,
    foreign_counts,
    queue_page,
)
from federation.views.rows import rows
from kit.pagination import Page, refuse_unknown
from tenancy.selectors.access import visible_tenants
from tenancy.views import person, signed_in

PARTS = {"": "Everything", "running": "Running", "waiting": "Waiting"}


@signed_in
def queue(request: HttpRequest) -> HttpResponse:
    """`/queue?part=&tenant=&cursor=`: what runs, then what waits in the order of the last cycle."""
    user, now = person(request), timezone.now()
    refuse_unknown(request.GET, ["part", "tenant", "cursor", "limit"])
    part, tenant = request.GET.get("part", ""), request.GET.get("tenant", "")
    page = Page.of(request.GET)
    after = _after(page.after) or ((RANKED_PART, 0) if part == "waiting" else None)
    places = queue_page(user, after=after, limit=page.limit, below=tenant)
    if part == "running":
        places = [place for place in places if place.part == ACTIVE_PART]
    more = len(places) > page.limit
    places = places[: page.limit]
    listed = rows([place.job for place in places], _positions(places))
    last = f"{places[-1].part}:{places[-1].key}" if more else None
    context = {
        "now": now,
        "parts": PARTS,
        "part": part,
        "tenant": tenant,
        "tenants": list(visible_tenants(user).values_list("path", flat=True)),
        "active": [row for row, place in zip(listed, places, strict=True) if not place.part],
        "waiting": [row for row, place in zip(listed, places, strict=True) if place.part],
        "foreign": foreign_counts(),
        "next": page.render([], last, request.path, request.GET)["next"],
        "is_first": page.after is None,
    }
    return render(request, "queue.html", context)


def _after(cursor: int | str | None) -> tuple[int, int] | None:
    """The place a cursor of ours names; a foreign one starts anew."""
    part, _, key = str(cursor or "").partition(":")
    if part.isdecimal() and key.isdecimal() and int(part) <= NEW_PART:
        return int(part), int(key)
    return None


def _positions(places: list[Place]) -> dict[int, int]:
    return {place.job.pk: place.position for place in places if place.position is not None}
