"""Orders written into the outbox, each once whoever asks for it."""

from datetime import datetime
from uuid import UUID

from clusters.models import Command


def order_cancel(
    *, attempt_id: UUID, cluster_id: UUID, fence: str, account: str, now: datetime
) -> None:
    """Orders an attempt to be ended on its cluster; ordering twice is ordering once."""
    Command.objects.get_or_create(
        key=f"cancel:{attempt_id}",
        defaults={
            "cluster_id": cluster_id,
            "kind": Command.Kind.CANCEL,
            "fence": fence,
            "payload": {"v": 1, "account": account},
            "created_at": now,
            "not_before": now,
        },
    )
