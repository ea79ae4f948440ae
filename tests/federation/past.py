"""A past to simulate: jobs that ran in a small federation, as our tables tell of them."""

from collections.abc import Sequence
from datetime import timedelta

from federation.models import Attempt, Job
from kit.ids import fence
from kit.intervals import HOUR_MS, to_ms
from tests.federation.world import FLAVOR, NOW, World

HOUR = timedelta(hours=1)
Span = tuple[float, float | None]  # hours after NOW that a run began and ended; None = it runs


def ran(
    world: World, *spans: Span, came: float, saved: float | None = None, **changes: object
) -> Job:
    """A job that came so many hours after NOW, with an attempt for each run."""
    is_open = bool(spans) and spans[-1][1] is None
    ended = None if is_open or not spans else NOW + (spans[-1][1] or 0) * HOUR
    fields: dict[str, object] = {
        "state": "running" if is_open else "succeeded" if spans else "cancelled",
        "submitted_at": NOW + came * HOUR,
        "ended_at": ended if spans else NOW + came * HOUR + HOUR,
        "attempts_made": len(spans),
        **changes,
    }
    job = world.job(**fields)
    for number, span in enumerate(spans, start=1):
        kept = NOW + saved * HOUR if saved is not None and number == 1 else None
        attempt(world, job, number, [span], saved_at=kept)
    return job


def attempt(
    world: World, job: Job, number: int, spans: Sequence[Span], **changes: object
) -> Attempt:
    """An attempt with runs on the first node of c1."""
    stays = [[at(start), None if end is None else at(end), 8] for start, end in spans]
    last = spans[-1][1]
    fields: dict[str, object] = {
        "job": job,
        "number": number,
        "fence": fence(job.uuid, number),
        "cluster": world.clusters["c1"],
        "flavor_id": FLAVOR,
        "service_class": "guaranteed",
        "nodes": ["n1"],
        "gpus_per_node": 8,
        "cpus_per_node": 4,
        "memory_mib_per_node": 1,
        "exclusive": False,
        "tier": "leaf",
        "account": "mia_there",
        "state": "running" if last is None else "ended",
        "bound_at": NOW,
        "ended_at": None if last is None else NOW + last * HOUR,
        "runs": stays,
        **changes,
    }
    return Attempt.objects.create(**fields)


def at(hours: float) -> int:
    """Milliseconds of so many hours after NOW."""
    return to_ms(NOW) + round(hours * HOUR_MS)
