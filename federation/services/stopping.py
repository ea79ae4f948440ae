"""Stopping an attempt: why is written, and the order to end it on its cluster."""

from datetime import datetime

from clusters.services.orders import order_cancel
from federation.core.reconciliation import Cause
from federation.models import Attempt


def stop_attempt(*, attempt: Attempt, cause: Cause | str, now: datetime) -> None:
    """Has an attempt ended; reconciliation moves its job when it is proven over.

    Inside the caller's transaction, who holds the lock of its job. Ordering twice is ordering once.
    """
    attempt.end_cause, attempt.state = cause, Attempt.State.STOPPING
    attempt.save(update_fields=["end_cause", "state"])
    order_cancel(
        attempt_id=attempt.id,
        cluster_id=attempt.cluster_id,
        fence=attempt.fence,
        account=attempt.account,
        now=now,
    )
