"""Orders written into the outbox, each once whoever asks for it."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from clusters.models import Command
from kit.ids import fact_id


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


def orphan_key(cluster_id: UUID, fence: str, account: str) -> str:
    """The key of the order to end what lives under a fence without an attempt of ours.

    One a cluster and account: a backend ends what one account has under the fence.
    """
    return f"orphan:{fence}:{fact_id('orphan order', cluster_id, account)}"


def order_orphan_ends(
    *, cluster_id: UUID, fence: str, accounts: Iterable[str], now: datetime
) -> None:
    """Orders whatever lives under a fence to be ended, once more if that was ordered before."""
    for account in sorted(set(accounts)):
        Command.objects.update_or_create(
            key=orphan_key(cluster_id, fence, account),
            defaults={
                "cluster_id": cluster_id,
                "kind": Command.Kind.CANCEL,
                "fence": fence,
                "payload": {"v": 1, "account": account},
                "state": Command.State.WAITING,
                "created_at": now,
                "not_before": now,
                "answered_at": None,
            },
        )
