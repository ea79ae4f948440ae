"""The fleet as it stands, for refusing at submit what can never run: remembered by this process.

Every change that matters to it (nodes, flavors, accounts, stores) raises the cluster's revision, so
one small query tells whether what is remembered still holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from federation.core.explain import never_reasons
from federation.core.plan import FleetView, Reason
from federation.models import Job
from federation.selectors.fleet import take_fleet
from federation.selectors.snapshot import asked_of, waiting_job
from kit.bulk import Row, Statement, run

MOST_PEOPLE = 1_000
MOST_ASKS = 10_000
REVISIONS = Statement("SELECT id, revision FROM clusters_cluster ORDER BY id", is_kept=True)


@dataclass(frozen=True, slots=True)
class StandingFleet:
    """`take_fleet` for one person under these revisions, and what was found out about it."""

    revisions: tuple[Row, ...]
    views: tuple[FleetView, ...]
    _never: dict[str, tuple[Reason, ...]] = field(default_factory=dict)

    def never(self, job: Job) -> tuple[Reason, ...]:
        """Why a job of the person can never run; worked out once for all that ask for the same."""
        asked = str(asked_of(job))
        if asked not in self._never:
            if len(self._never) >= MOST_ASKS:
                self._never.clear()
            self._never[asked] = never_reasons(waiting_job(job), self.views)
        return self._never[asked]


_REMEMBERED: dict[UUID, StandingFleet] = {}


def standing_fleet(user_id: UUID, revisions: Sequence[Row] | None = None) -> StandingFleet:
    """The fleet for one person. One query while nothing changed, none with rows of REVISIONS."""
    revisions = tuple(run(REVISIONS)[0] if revisions is None else revisions)
    remembered = _REMEMBERED.get(user_id)
    if remembered is None or remembered.revisions != revisions:
        if len(_REMEMBERED) >= MOST_PEOPLE:
            _REMEMBERED.clear()
        _REMEMBERED[user_id] = remembered = StandingFleet(revisions, take_fleet([user_id]))
    return remembered
