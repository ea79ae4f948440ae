"""Many rows in one statement with one parameter, at a fraction of the ORM's cost a row."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import NOT_PROVIDED, Field, Model


def insert_rows(
    model: type[Model], rows: Sequence[Mapping[str, Any]], returning: Sequence[str] = ()
) -> list[tuple[Any, ...]]:
    """Insert rows, given as values by attribute name (`job_id`, not `job`), the same in each.

    Values are what JSON can hold, UUIDs and datetimes. Fields that are not given get the model's
    default. The database checks everything; no model code runs. Gives the columns named by
    `returning` of every new row, in any order.
    """
    if not rows:
        return []
    fields = _fields(model, rows[0])
    defaults = {
        field.attname: field.default
        for field in fields
        if field.attname not in rows[0] and field.default is not NOT_PROVIDED
    }
    blank = {
        field.attname: None if field.null else ""
        for field in fields
        if field.attname not in rows[0] and field.default is NOT_PROVIDED
    }
    if blank or defaults:
        rows = [{**_made(defaults), **blank, **row} for row in rows]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(str(field.column)) for field in fields)
    record = ", ".join(f"{quote(f.attname)} {f.db_type(connection)}" for f in fields)
    values = ", ".join(quote(field.attname) for field in fields)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {quote(model._meta.db_table)} ({columns})"  # noqa: S608 (our own names)
            f" SELECT {values} FROM jsonb_to_recordset(%s::jsonb) AS given({record})"
            + (f" RETURNING {', '.join(map(quote, returning))}" if returning else ""),
            [json.dumps(rows, default=_text, ensure_ascii=False)],
        )
        return cursor.fetchall() if returning else []


def _fields(model: type[Model], row: Mapping[str, Any]) -> "list[Field[Any, Any]]":
    """The columns to write: all but those that the database fills in itself."""
    return [
        field
        for field in model._meta.concrete_fields
        if field.attname in row or not (_is_serial(field) or field.db_default is not NOT_PROVIDED)
    ]


def _is_serial(field: "Field[Any, Any]") -> bool:
    return bool(field.db_returning) and field.primary_key and field.default is NOT_PROVIDED


def _made(defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value() if callable(value) else value for name, value in defaults.items()}


def _text(value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
