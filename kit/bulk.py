"""Rows in and out at a fraction of the ORM's cost, several statements in one round trip.

For the few paths where that cost counts. No model code runs; the database checks everything.
"""

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from django.conf import settings
from django.db import connection
from django.db.models import NOT_PROVIDED, BigIntegerField, F, Field, Func, Model
from django.db.models.base import ModelState
from django.db.models.expressions import RawSQL

Row = tuple[Any, ...]
_ENCODER = msgspec.json.Encoder()
SomeModel = TypeVar("SomeModel", bound=Model)
_PLACE = re.compile("%s")
_KEPT: MutableMapping[Any, dict[str, str]] = WeakKeyDictionary()  # by connection: calls by SQL


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text with `%s` for each parameter.

    `is_kept`: the database plans it once for each connection, which for a small one is most of its
    work. For texts of which there are few.
    """

    sql: str
    params: tuple[Any, ...] = ()
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class _Defaults:
    """What a model's fields hold that are not given: the same in each row, or made for each."""

    same: Mapping[str, Any]
    made: Mapping[str, Callable[[], Any]]


def run(*statements: Statement) -> list[list[Row]]:
    """Runs the statements in order in one round trip; the rows of each.

    They travel as one text: the client binds the parameters. In no transaction of ours they are
    one of their own.
    """
    with connection.cursor() as cursor:
        results = cursor.cursor  # psycopg's own
        kept = _KEPT.setdefault(results.connection, {})
        cursor.execute(
            "; ".join(_text(statement, kept) for statement in statements),
            [value for statement in statements for value in statement.params],
        )
        # all is here already, so nothing of Django's is needed
        return [results.fetchall() if results.pgresult.nfields else [] for _ in results.results()]


def _text(statement: Statement, kept: dict[str, str]) -> str:
    """What is sent: its SQL, or what calls its plan where this connection keeps it.

    A pooler may hand every transaction another connection, so behind one nothing is kept.
    """
    if not statement.is_kept or settings.IS_POOLED:
        return statement.sql
    return kept.get(statement.sql) or _keep(statement, kept)


def _keep(statement: Statement, kept: dict[str, str]) -> str:
    """Has this connection plan a statement under a name; what calls it from now on."""
    verb = statement.sql.split(maxsplit=1)[0].lower()  # in logs the name is all there is to see
    name, numbers = f"kept_{verb}_{len(kept)}", count(1)
    numbered = _PLACE.sub(lambda _: f"${next(numbers)}", statement.sql).replace("%%", "%")
    with connection.wrap_database_errors:
        connection.connection.execute(f"PREPARE {name} AS {numbered}")
    given = ", ".join(["%s"] * len(statement.params))
    kept[statement.sql] = f"EXECUTE {name}" + (f" ({given})" if given else "")
    return kept[statement.sql]


def insert_rows(
    model: type[Model],
    rows: Sequence[Mapping[str, Any]],
    shared: Mapping[str, Any] | None = None,
    returning: Sequence[str] = (),
    *,
    ignore_conflicts: bool = False,
) -> list[Row]:
    """`run` of one `insertion`; without rows, nothing."""
    if not rows:
        return []
    return run(insertion(model, rows, shared, returning, ignore_conflicts=ignore_conflicts))[0]


def insertion(
    model: type[Model],
    rows: Sequence[Mapping[str, Any]],
    shared: Mapping[str, Any] | None = None,
    returning: Sequence[str] = (),
    *,
    ignore_conflicts: bool = False,
) -> Statement:
    """Inserts rows, given as values by attribute name (`job_id`, not `job`), the same in each.

    `shared` are values that all rows have. Values are what JSON can hold, UUIDs and datetimes.
    Fields that are not given get the model's default, but for those that the database fills in
    itself. Gives the columns named by `returning` of every new row, in any order. They are written
    in the order given; with `ignore_conflicts` those that break a unique constraint are left out.
    """
    shared = shared or {}
    given = frozenset(rows[0]) | frozenset(shared)
    defaults = _defaults(model, given)
    if defaults.made:
        made = defaults.made.items()
        rows = [{**{name: make() for name, make in made}, **row} for row in rows]
    shared = {**defaults.same, **shared}
    names = tuple(rows[0]), tuple(shared), tuple(returning)
    sql = _insert_sql(model, *names, ignore_conflicts=ignore_conflicts)
    params = (as_json(rows), *([as_json(shared)] if shared else []))
    return Statement(sql, params, is_kept=True)


def update_rows(
    model: type[Model], rows: Sequence[Mapping[str, Any]], fields: Sequence[str]
) -> None:
    """Writes `fields` of the rows with these primary keys, in one statement.

    Rows are values by attribute name, the primary key among them; what they hold besides is left.
    """
    key = str(model._meta.pk.attname)
    names = (key, *fields)
    if rows:
        given = [{name: row[name] for name in names} for row in rows]
        run(Statement(_update_sql(model, key, tuple(fields)), (as_json(given),)))


def milliseconds_of(expression: str) -> str:
    """SQL of a moment as `to_ms` gives it, rounded down; microseconds are exact as a double."""
    return f"round(date_part('epoch', {expression}) * 1000000)::bigint / 1000"


def milliseconds(column: str) -> Func:
    """A moment of a queryset's rows as `to_ms` gives it; a thousand datetimes cost milliseconds."""
    template = milliseconds_of("%(expressions)s")
    return Func(F(column), template=template, output_field=BigIntegerField())


def among(values: Iterable[object], kind: str = "uuid") -> RawSQL:
    """The values for `filter(name__in=...)`: one parameter, where Django makes one of each value."""
    return RawSQL(f"SELECT unnest(%s::{kind}[])", [list(map(str, values))])  # noqa: S611


def completed(model: type[Model], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a new row, by attribute name, and the model's defaults for those it lacks."""
    defaults = _defaults(model, frozenset(values))
    made = {name: make() for name, make in defaults.made.items()}
    return {**defaults.same, **made, **values}


@lru_cache(maxsize=64)
def columns_of(model: type[Model], table: str) -> str:
    """The list of a model's columns, in the order of its fields, for a SELECT from `table`."""
    quote = connection.ops.quote_name
    return ", ".join(f"{table}.{quote(str(f.column))}" for f in model._meta.concrete_fields)


def instance(
    model: type[SomeModel], row: Iterable[Any], names: Iterable[str] | None = None
) -> SomeModel:
    """The saved object of a row's values in the order of the model's fields, or of these `names`.

    As `Model.from_db` makes it, but for the signals and checks, which cost more than the rest. An
    attribute that is not named is read from the database when it is asked for.
    """
    made = model.__new__(model)
    made._state = ModelState()
    made._state.adding, made._state.db = False, "default"
    made.__dict__.update(zip(names or _names(model), row, strict=True))
    return made


@lru_cache(maxsize=64)
def _names(model: type[Model]) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields)


@lru_cache(maxsize=256)
def _defaults(model: type[Model], given: frozenset[str]) -> _Defaults:
    same: dict[str, Any] = {}
    made: dict[str, Callable[[], Any]] = {}
    for field in _written(model, given):
        if field.attname in given:
            continue
        if field.default is NOT_PROVIDED:
            same[field.attname] = None if field.null else ""
        elif callable(field.default):
            made[field.attname] = field.default
        else:
            same[field.attname] = field.default
    return _Defaults(same, made)


@lru_cache(maxsize=64)
def _update_sql(model: type[Model], key: str, each: tuple[str, ...]) -> str:
    quote = connection.ops.quote_name
    fields = {field.attname: field for field in model._meta.concrete_fields}
    record = ", ".join(f"{quote(name)} {fields[name].db_type(connection)}" for name in (key, *each))
    sets = ", ".join(f"{quote(str(fields[name].column))} = given.{quote(name)}" for name in each)
    return (
        f"UPDATE {quote(model._meta.db_table)} AS held SET {sets}"  # noqa: S608
        f" FROM jsonb_to_recordset(%s::jsonb) AS given({record})"
        f" WHERE held.{quote(str(fields[key].column))} = given.{quote(key)}"
    )


@lru_cache(maxsize=256)
def _insert_sql(
    model: type[Model],
    each: tuple[str, ...],
    shared: tuple[str, ...],
    returning: tuple[str, ...],
    *,
    ignore_conflicts: bool,
) -> str:
    quote = connection.ops.quote_name
    fields = {field.attname: field for field in model._meta.concrete_fields}

    def record(names: Iterable[str]) -> str:
        return ", ".join(f"{quote(name)} {fields[name].db_type(connection)}" for name in names)

    columns = ", ".join(quote(str(fields[name].column)) for name in (*each, *shared))
    values = ", ".join(map(quote, (*each, *shared)))
    rows = f"jsonb_to_recordset(%s::jsonb) AS given({record(each)})"
    if shared:
        rows += f", jsonb_to_record(%s::jsonb) AS shared({record(shared)})"
    end = " ON CONFLICT DO NOTHING" if ignore_conflicts else ""
    if returning:
        end += f" RETURNING {', '.join(map(quote, returning))}"
    table = quote(model._meta.db_table)
    return f"INSERT INTO {table} ({columns}) SELECT {values} FROM {rows}{end}"  # noqa: S608


def _written(model: type[Model], given: frozenset[str]) -> "list[Field[Any, Any]]":
    """The columns to write: all but those that the database fills in itself."""
    return [
        field
        for field in model._meta.concrete_fields
        if field.attname in given or not (_is_serial(field) or field.db_default is not NOT_PROVIDED)
    ]


def _is_serial(field: "Field[Any, Any]") -> bool:
    return bool(field.db_returning) and field.primary_key and field.default is NOT_PROVIDED


def as_json(value: object) -> str:
    """JSON text of what rows hold: UUIDs and datetimes as text."""
    return _ENCODER.encode(value).decode()
