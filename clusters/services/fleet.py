"""Whether a cluster takes new work, and whether it is called again at once."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from clusters.models import Cluster, Lease
from clusters.selectors.fleet import locked_member
from clusters.services.lease import BACKOFF_CAP
from tenancy.models import User
from tenancy.services.records import Change, ring, write_audit, write_events

_ACTIONS = {
    Cluster.State.ACTIVE: "undrain",
    Cluster.State.DRAINING: "drain",
    Cluster.State.CUT_OFF: "cut_off",
}


@transaction.atomic
def set_state(
    *, actor: User | None, cluster: Cluster, state: Cluster.State, why: str = "", now: datetime
) -> Cluster:
    """Drains a cluster, cuts it off or opens it again. Doing it twice is doing it once.

    Draining: nothing new is bound there; what is bound goes on. Cut off: besides, what has not
    reached the cluster goes back to the queue (`federation.services.life`). Either way jobs stay,
    are observed and can be cancelled. A cluster that was leaving stays when it is opened or drained.

    Raises:
        ValueError: GONE, which is what `federation.services.life` ends with.
        NotFoundError: it left since the caller looked.
    """
    action = _ACTIONS.get(state)
    if action is None:
        raise ValueError(f"nobody sets the state {state}")
    held = locked_member(cluster)
    before = {"state": held.state, "leave_plan": held.leave_plan}
    after = {"state": state.value, "leave_plan": ""}
    if before == after or (held.state == state == Cluster.State.CUT_OFF):
        return held
    held.state, held.leave_plan, held.leave_why = state, "", ""
    held.revision += 1
    held.save(update_fields=["state", "leave_plan", "leave_why", "revision"])
    write_audit(
        actor=actor,
        action=action,
        object_type="cluster",
        object_id=held.name,
        before=before,
        after=after,
        why=why,
        now=now,
    )
    change = Change(f"cluster.{state}", held.name, None, action, {"why": why})
    write_events(changes=[change], now=now)
    ring()
    return held


def close_breaker(*, cluster_id: UUID, now: datetime) -> None:
    """Ends the back-off of a cluster that did not answer, because something about it changed.

    Only leases with failures are touched, and none that is held for longer than any back-off: a
    recovery does that. Should one be in use just then, its holder's results are fenced by the
    epoch, and what it sent is looked up before it is sent again.
    """
    Lease.objects.filter(
        cluster_id=cluster_id, failures__gt=0, expires_at__lte=now + BACKOFF_CAP
    ).update(failures=0, expires_at=now)
