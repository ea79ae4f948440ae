"""Results of calls, written while the epoch is still the writer's: all of them in one statement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from clusters.models import Command
from kit.bulk import Statement, as_json, run

_RECORD = """
UPDATE clusters_command AS command
SET state = given.state, tries = given.tries, error = given.error,
    answered_at = coalesce(given.answered_at, command.answered_at),
    not_before = coalesce(given.not_before, command.not_before),
    answer = coalesce(given.answer, command.answer)
FROM jsonb_to_recordset(%s::jsonb) AS given(
    id bigint, state text, tries int, error text,
    answered_at timestamptz, not_before timestamptz, answer jsonb)
WHERE command.id = given.id AND command.state = 'sent' AND command.lease_epoch = %s
RETURNING command.id
"""
_COLUMNS = ("id", "state", "tries", "error", "answered_at", "not_before", "answer")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one call, and from when on the order may be sent again.

    `is_away`: the cluster did not answer; `retry_after`: it said how long to leave it alone.
    """

    id: int
    state: Command.State
    tries: int
    answered_at: datetime | None
    error: str
    answer: Mapping[str, object] | None = None
    not_before: datetime | None = None
    is_away: bool = False
    retry_after: timedelta | None = None


def record(*, epoch: int, results: Sequence[Result]) -> int:
    """Writes results of orders that are still sent under this epoch; how many that were.

    An order that was taken over, or dropped meanwhile, is left as it is.
    """
    rows = [{name: getattr(result, name) for name in _COLUMNS} for result in results]
    return len(run(Statement(_RECORD, (as_json(rows), epoch)))[0])
