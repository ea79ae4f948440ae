"""Quotas as a file: exported, and applied whole, or only compared (`--dry-run`)."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from kit.errors import MusterError
from quotas.core.table import TableRow
from quotas.selectors import all_quotas
from quotas.services.files import FORMATS, read_file, write_file
from quotas.services.tables import TableChange, apply_table, plan_table, table_of


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
    return write_file(table_of(all_quotas()), form)


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
    table, problems = read_file(text, form)
    if problems:
        told = [f"row {one.row}, {one.field or 'whole'}: {one.detail}" for one in problems]
        raise CommandError("\n".join(["The table is not valid; nothing was changed.", *told]))
    return table


def _line(change: TableChange) -> str:
    row = change.row
    where = f"{row.tenant} {row.flavor} {row.cluster or '(all clusters)'}"
    before, after = change.before or {}, change.after or {}
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    parts = ", ".join(f"{name} {before.get(name)} -> {after.get(name)}" for name in names)
    return f"{change.action} {where}: {parts}"
