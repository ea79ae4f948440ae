"""The fleet as it stands, for refusing at submit what can never run: remembered by this process.

Every change that matters to it (nodes, flavors, accounts, stores) raises the cluster's revision, so
one small query tells whether what is remembered still holds.
"""

from collections.abc import Sequence
from uuid import UUID

from federation.core.plan import FleetView
from federation.selectors.fleet import take_fleet
from kit.bulk import Row, Statement, run

MOST_PEOPLE = 1_000
REVISIONS = Statement("SELECT id, revision FROM clusters_cluster ORDER BY id", is_kept=True)
_REMEMBERED: dict[UUID, tuple[tuple[Row, ...], tuple[FleetView, ...]]] = {}


def standing_fleet(user_id: UUID, revisions: Sequence[Row] | None = None) -> tuple[FleetView, ...]:
    """`take_fleet` for one person. One query while nothing changed, none with rows of REVISIONS."""
    revisions = tuple(run(REVISIONS)[0] if revisions is None else revisions)
    remembered = _REMEMBERED.get(user_id)
    if remembered is None or remembered[0] != revisions:
        if len(_REMEMBERED) >= MOST_PEOPLE:
            _REMEMBERED.clear()
        _REMEMBERED[user_id] = remembered = (revisions, take_fleet([user_id]))
    return remembered[1]
