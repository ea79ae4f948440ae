"""Quotas as a file: exported, and applied whole, or only compared (`--dry-run`)."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from kit.errors import MusterError
from quotas.core.table import COLUMNS, TableProblem, TableRow, parse_table, read_csv, write_csv
from quotas.selectors import all_quotas
from quotas.services.tables import TableChange, apply_table, plan_table, table_of

FORMATS = ("yaml", "csv")


class Command(BaseCommand):
    """`quotas export` and `quotas apply FILE`."""

    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Two acts."""
        acts = parser.add_subparsers(dest="act", required=True)
        export = acts.add_parser("export", help="print all quotas")
        export.add_argument("--format", choices=FORMATS, default="yaml")
        apply = acts.add_parser("apply", help="write the quotas of a file, all or nothing")
        apply.add_argument("file", help="YAML or CSV as `export` prints it; - reads YAML")
        apply.add_argument("--format", choices=FORMATS, help="default: by the file's ending")
        apply.add_argument("--dry-run", action="store_true", help="only print what would change")
        apply.add_argument("--prune", action="store_true", help="take away what it does not name")
        apply.add_argument("--why", default="", help="for the audit")

    def handle(self, *_: Any, **options: Any) -> None:
        """Exports or applies."""
        if options["act"] == "export":
            self.stdout.write(_export(options["format"]), ending="")
            return
        table = _read(options["file"], options["format"])
        try:
            if options["dry_run"]:
                plan = plan_table(table=table, prune=options["prune"], now=timezone.now())
            else:
                plan = apply_table(
                    actor=None,
                    table=table,
                    prune=options["prune"],
                    why=options["why"],
                    now=timezone.now(),
                )
        except MusterError as error:
            told = [f"{one.pointer}: {one.detail}" for one in error.errors]
            raise CommandError("\n".join([error.detail, *told])) from None
        for change in plan.changes:
            self.stdout.write(_line(change))
        done = "would change" if options["dry_run"] else "changed"
        self.stdout.write(f"{len(plan.changes)} of {len(table)} rows {done}.")


def _export(form: str) -> str:
    rows = table_of(all_quotas())
    if form == "csv":
        return write_csv(rows)
    items = [{name: getattr(row, name) for name in COLUMNS} for row in rows]
    return str(yaml.safe_dump({"quotas": items}, sort_keys=False))


def _read(name: str, form: str | None) -> list[TableRow]:
    """The table of a file.

    Raises:
        CommandError: it cannot be read or is not one, naming rows and fields.
    """
    form = form or ("csv" if name.endswith(".csv") else "yaml")
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {error}") from None
    rows = read_csv(text) if form == "csv" else _yaml_rows(text)
    problems = [row for row in rows if isinstance(row, TableProblem)]
    if not problems:
        table, problems = parse_table(rows)
    if problems:
        told = [f"row {one.row}, {one.field or 'whole'}: {one.detail}" for one in problems]
        raise CommandError("\n".join(["The table is not valid; nothing was changed.", *told]))
    return table


def _yaml_rows(text: str) -> list[Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CommandError(f"It is not YAML: {error}") from None
    if not isinstance(found, dict) or set(found) != {"quotas"}:
        raise CommandError("Give one key, `quotas`, with a list of rows.")
    if not isinstance(found["quotas"], list):
        raise CommandError("`quotas` is to be a list of rows.")
    return found["quotas"]


def _line(change: TableChange) -> str:
    row = change.row
    where = f"{row.tenant} {row.flavor} {row.cluster or '(all clusters)'}"
    before, after = change.before or {}, change.after or {}
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    parts = ", ".join(f"{name} {before.get(name)} -> {after.get(name)}" for name in names)
    return f"{change.action} {where}: {parts}"
