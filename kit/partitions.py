"""Tables kept by month of their column `at`: months ahead are made, months past are dropped whole.

Dropping a month costs nothing, whatever it holds; deleting its rows would cost more than writing
them did. A month begins at midnight UTC. What falls into no month lies in the partition `_rest`, so
that no insert ever fails; a month that is made later takes its rows from there.

The primary key of such a table is (id, at), because a partitioned table can only keep unique what
holds the column it is split by. Ids come from one sequence and are unique all the same; models
declare `id` alone.
"""

# ruff: noqa: S608 - the names of tables are ours, never a user's

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connection, transaction

AHEAD = 2  # months beyond the current one
LOCK_TIMEOUT = "1s"  # rather later than in the way of those who write
CHUNK = 10_000
_UPPER = re.compile(r" TO \('([^']+)'\)$")
_PARTITIONS = """
SELECT child.relname, pg_get_expr(child.relpartbound, child.oid)
FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid
WHERE inhparent = to_regclass(%s) ORDER BY child.relname"""


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a table: rows before `end` (and not in an earlier part); None = the rest."""

    name: str
    end: datetime | None


def month_of(moment: datetime) -> datetime:
    """The beginning of the month, UTC."""
    start = moment.astimezone(UTC)
    return start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def months_from(moment: datetime, count: int) -> Iterator[tuple[datetime, datetime]]:
    """So many months from that of the moment on, as half-open intervals."""
    start = month_of(moment)
    for _ in range(count):
        years, month = divmod(start.month, 12)
        end = start.replace(year=start.year + years, month=month + 1)
        yield start, end
        start = end


def partitions_of(table: str) -> list[Partition]:
    """The parts of a table, as the server knows them; none of a table that is not split."""
    with connection.cursor() as cursor:
        cursor.execute(_PARTITIONS, [table])
        return [Partition(name, _end(bound)) for name, bound in cursor.fetchall()]


def _end(bound: str) -> datetime | None:
    found = _UPPER.search(bound)
    return datetime.fromisoformat(found[1]).astimezone(UTC) if found else None


def make_ahead(*, table: str, now: datetime, ahead: int = AHEAD) -> list[str]:
    """Makes this month and the next ones, where they are missing; their names.

    Each in a transaction of its own that gives up when it would have to wait for a lock.

    Raises:
        OperationalError: somebody is in the way; try again later.
    """
    parts = partitions_of(table)
    names = {part.name for part in parts}
    reached = max((part.end for part in parts if part.end), default=None)
    made = []
    for start, end in months_from(now, ahead + 1):
        name = f"{table}_y{start:%Y}m{start:%m}"
        if name not in names and (reached is None or end > reached):
            _make(table, name, start, end)
            made.append(name)
    return made


def _make(table: str, name: str, start: datetime, end: datetime) -> None:
    """Attaching locks only `_rest`; creating it in place would lock the whole table."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
        cursor.execute(
            f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
        )
        cursor.execute(
            f"WITH moved AS (DELETE FROM {table}_rest WHERE at >= %s AND at < %s RETURNING *)"
            f" INSERT INTO {name} SELECT * FROM moved",
            [start, end],
        )
        cursor.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {name}"
            f" FOR VALUES FROM ('{start.isoformat()}') TO ('{end.isoformat()}')"
        )


def drop_before(*, table: str, cutoff: datetime) -> list[str]:
    """Drops the months that ended by then, and of the rest what is older; the months' names.

    Raises:
        OperationalError: somebody is in the way; try again later.
    """
    dropped = []
    for part in partitions_of(table):
        if part.end is not None and part.end <= cutoff:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
                cursor.execute(f"DROP TABLE {part.name}")
            dropped.append(part.name)
    _clear_rest(table, cutoff)
    return dropped


def _clear_rest(table: str, cutoff: datetime) -> None:
    rest = f"{table}_rest"
    with connection.cursor() as cursor:
        while True:
            cursor.execute(
                f"DELETE FROM {rest} WHERE ctid IN"
                f" (SELECT ctid FROM {rest} WHERE at < %s LIMIT {CHUNK})",
                [cutoff],
            )
            if cursor.rowcount < CHUNK:
                return


def split_by_month(*, table: str, now: datetime) -> None:
    """Makes a plain table one that is kept by month, in the transaction of a migration.

    No row is copied: the table as it is becomes the first part, up to the end of the month of its
    newest row. What takes time is one index on (id, at) over it, about a second for each million
    rows; who writes meanwhile waits for so long. Migrations call this: it must go on doing the same.
    """
    first = f"{table}_before"
    with connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        cursor.execute(
            f"SELECT nextval(pg_get_serial_sequence(%s, 'id')), max(at) FROM {table}", [table]
        )
        next_id, newest = cursor.fetchone()
        indexes, grants = _indexes_of(table), _grants_of(table)
        cursor.execute(f"ALTER TABLE {table} ALTER id DROP IDENTITY, DROP CONSTRAINT {table}_pkey")
        for name, _ in indexes:
            cursor.execute(f"ALTER INDEX {name} RENAME TO {name}_before")
        cursor.execute(f"ALTER TABLE {table} RENAME TO {first}")
        cursor.execute(
            f"CREATE TABLE {table} (LIKE {first} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
            " PARTITION BY RANGE (at)"
        )
        cursor.execute(
            f"ALTER TABLE {table} ADD PRIMARY KEY (id, at),"
            f" ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (START WITH {next_id})"
        )
        for statement in [definition for _, definition in indexes] + grants:
            cursor.execute(statement)
        cursor.execute(f"CREATE TABLE {table}_rest PARTITION OF {table} DEFAULT")
        if newest is None:
            cursor.execute(f"DROP TABLE {first}")
        else:
            ((_, end),) = months_from(max(newest, now), 1)
            cursor.execute(
                f"ALTER TABLE {table} ATTACH PARTITION {first}"
                f" FOR VALUES FROM (MINVALUE) TO ('{end.isoformat()}')"
            )
    make_ahead(table=table, now=now)


def join_months(*, table: str) -> None:
    """The way back of `split_by_month`: a plain table again, with every row, index and right.

    The rows are copied, and nobody reads or writes the table meanwhile. Migrations call this: it
    must go on doing the same.
    """
    plain = f"{table}_plain"
    with connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [table])
        (next_id,) = cursor.fetchone()
        indexes, grants = _indexes_of(table), _grants_of(table)
        cursor.execute(
            f"CREATE TABLE {plain} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
        )
        cursor.execute(f"INSERT INTO {plain} SELECT * FROM {table} ORDER BY id")
        cursor.execute(f"DROP TABLE {table}")
        cursor.execute(f"ALTER TABLE {plain} RENAME TO {table}")
        cursor.execute(
            f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY (id),"
            f" ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (START WITH {next_id})"
        )
        for statement in [definition for _, definition in indexes] + grants:
            cursor.execute(statement.replace(" ON ONLY ", " ON ", 1))


def _indexes_of(table: str) -> list[tuple[str, str]]:
    """Name and definition of each index but that of the primary key."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT quote_ident(indexname), indexdef FROM pg_indexes"
            " WHERE schemaname = current_schema() AND tablename = %s AND indexname <> %s"
            " ORDER BY 1",
            [table, f"{table}_pkey"],
        )
        return [(name, definition) for name, definition in cursor.fetchall()]


def _grants_of(table: str) -> list[str]:
    """Statements that give others the rights on the table again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT format('GRANT %%s ON %%I TO %%I', privilege_type, table_name, grantee)"
            " FROM information_schema.role_table_grants WHERE table_schema = current_schema()"
            " AND table_name = %s AND grantee NOT IN (grantor, 'PUBLIC') ORDER BY 1",
            [table],
        )
        return [statement for (statement,) in cursor.fetchall()]
