"""Whether a cluster takes new work."""

from datetime import datetime

from django.db import transaction

from clusters.models import Cluster
from tenancy.models import User
from tenancy.services.records import Change, ring, write_audit, write_events


@transaction.atomic
def set_state(
    *, actor: User | None, cluster: Cluster, state: Cluster.State, why: str = "", now: datetime
) -> Cluster:
    """Drains a cluster (what runs finishes, nothing new goes there) or opens it again.

    Doing it twice is doing it once.
    """
    held = Cluster.objects.select_for_update().get(pk=cluster.pk)
    before = held.state
    if before == state:
        return held
    held.state = state
    held.revision += 1
    held.save(update_fields=["state", "revision"])
    action = "drain" if state == Cluster.State.DRAINING else "undrain"
    write_audit(
        actor=actor,
        action=action,
        object_type="cluster",
        object_id=held.name,
        before={"state": before},
        after={"state": state},
        why=why,
        now=now,
    )
    change = Change(f"cluster.{state}", held.name, None, action, {"why": why})
    write_events(changes=[change], now=now)
    ring()
    return held
