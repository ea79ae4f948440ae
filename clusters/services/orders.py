"""Orders written into the outbox, each once whoever asks for it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from uuid import UUID

from clusters.models import Command
from kit.bulk import Statement, as_json, run
from kit.ids import fact_id

# A job that runs is first a shell that begins: until it guards itself a signal would end it.
SETTLES = timedelta(seconds=5)

# A signal that is still on its way serves the next asker too: they must not pile up.
_SIGNAL = """
INSERT INTO clusters_command AS command
    (key, cluster_id, kind, fence, payload, state, created_at, not_before, tries, error)
SELECT 'signal:' || given.attempt_id || ':' || 1 + coalesce(max(split_part(told.key, ':', 3)::int), 0),
    given.cluster_id, 'signal', given.fence,
    jsonb_build_object('v', 1, 'account', given.account, 'name', given.name),
    'waiting', %s, least(%s, greatest(%s, given.running_since + %s)), 0, ''
FROM jsonb_to_recordset(%s::jsonb) AS given(
    attempt_id uuid, cluster_id uuid, fence text, account text, name text,
    running_since timestamptz)
LEFT JOIN clusters_command told ON told.fence = given.fence AND told.kind = 'signal'
GROUP BY given.attempt_id, given.cluster_id, given.fence, given.account, given.name,
    given.running_since
HAVING count(*) FILTER (WHERE told.state IN ('waiting', 'sent')) = 0
ON CONFLICT (key) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal (`USR1`, ...) for the processes of an attempt, which run since a moment."""

    attempt_id: UUID
    cluster_id: UUID
    fence: str
    account: str
    name: str
    running_since: datetime


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


def order_signals(*, signals: Sequence[Signal], now: datetime) -> None:
    """Orders signals in one statement, numbered by attempt: `signal:<attempt>:<n>`.

    None is added for an attempt whose last one is not delivered yet. One that runs for less than
    `SETTLES` gets it then.
    """
    rows = as_json([asdict(signal) for signal in signals])
    run(Statement(_SIGNAL, (now, now + SETTLES, now, SETTLES, rows)))


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
