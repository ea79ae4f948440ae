"""Whose is what runs on the clusters, when our rows are older than they are. Pure.

After a restore to an older point the clusters know more than we do: attempts that were bound since
bear fences of jobs that we still think waiting. A fence tells its job and number, so nothing is
guessed: what belongs to a job of ours is adopted, lowest number first, and what belongs to none is
an orphan, shown and never touched.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from clusters.core.observation import GangSeen
from kit.ids import read_fence


@dataclass(frozen=True, slots=True)
class Found:
    """What one cluster shows under one fence of ours: one object, or several (duplicates)."""

    cluster: UUID
    fence: str
    objects: tuple[GangSeen, ...]

    @property
    def chief(self) -> GangSeen:
        """The object that counts: the one on nodes, else one that was, else the lowest id."""

        def rank(seen: GangSeen) -> tuple[bool, bool, int, str]:
            number = int(seen.backend_id) if seen.backend_id.isdecimal() else 0
            return not seen.state.holds_nodes, not seen.runs, number, seen.backend_id

        return min(self.objects, key=rank)


@dataclass(frozen=True, slots=True)
class Claim:
    """An attempt of a job of ours that we have no row of."""

    job: int
    number: int
    found: Found


@dataclass(frozen=True, slots=True)
class Sorting:
    """What to adopt now, at most one attempt a job, and what is nobody's."""

    claims: tuple[Claim, ...]
    orphans: tuple[Found, ...]


def sort_out(
    found: Iterable[Found], jobs: Mapping[int, tuple[int, int]], kept: Collection[str]
) -> Sorting:
    """Sorts what the clusters show. `jobs` maps the last 60 bits of a job's id to its key and how
    many attempts we know of; `kept` are the fences of which we have rows.

    A number at or below those known is an orphan: such an attempt was never ours to lose. Of one
    fence on two clusters the one that counts more is taken (as among duplicates on one cluster).
    """
    orphans: list[Found] = []
    claims: dict[int, Claim] = {}
    for one in sorted(found, key=_order):
        if one.fence in kept:
            continue
        told = read_fence(one.fence)
        job = jobs.get(told[0]) if told else None
        if told is None or job is None or told[1] <= job[1]:
            orphans.append(one)
            continue
        key, number = job[0], told[1]
        best = claims.get(key)
        if best is None or number < best.number:
            claims[key] = Claim(key, number, one)
        elif number == best.number:
            orphans.append(one)
    return Sorting(tuple(claims[key] for key in sorted(claims)), tuple(orphans))


def _order(found: Found) -> tuple[bool, bool, UUID, str]:
    """What holds nodes first, then what ran; a fixed order among equals."""
    chief = found.chief
    return not chief.state.holds_nodes, not chief.runs, found.cluster, found.fence
