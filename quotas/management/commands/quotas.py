"""Quotas as a file: exported, applied whole or only compared (`--dry-run`), or imported."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from kit.errors import MusterError
from quotas.core.table import TableProblem, TableRow
from quotas.selectors import all_quotas
from quotas.services.files import FORMATS, read_file, write_file
from quotas.services.imports import SYSTEMS, import_quotas, read_foreign, try_import
from quotas.services.tables import TableChange, apply_table, plan_table, table_of


class Command(BaseCommand):
    """`quotas export`, `quotas apply FILE` and `quotas import FILE --from SYSTEM`."""

    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Three acts."""
        acts = parser.add_subparsers(dest="act", required=True)
        export = acts.add_parser("export", help="print all quotas")
        export.add_argument("--format", choices=FORMATS, default="yaml")
        apply = acts.add_parser("apply", help="write the quotas of a file, all or nothing")
        apply.add_argument("file", help="YAML or CSV as `export` prints it; - reads YAML")
        apply.add_argument("--format", choices=FORMATS, help="default: by the file's ending")
        apply.add_argument("--dry-run", action="store_true", help="only print what would change")
        apply.add_argument("--prune", action="store_true", help="take away what it does not name")
        apply.add_argument("--why", default="", help="for the audit")
        take = acts.add_parser("import", help="make tenants and quotas of another system's")
        take.add_argument("file", help="what that system wrote; - reads the input")
        take.add_argument("--from", choices=SYSTEMS, required=True, dest="system")
        take.add_argument("--map", action="append", default=[], metavar="GPU=FLAVOR",
                          help="our flavor for its word for a GPU; give it for each")  # fmt: skip
        take.add_argument("--under", default="", metavar="PATH", help="a tenant to put it below")
        take.add_argument("--dry-run", action="store_true", help="only print what would be made")
        take.add_argument("--why", default="", help="for the audit")

    def handle(self, *_: Any, **options: Any) -> None:
        """Exports, applies or imports."""
        act = {"export": self._export, "apply": self._apply, "import": self._import}
        act[options["act"]](options)

    def _export(self, options: Mapping[str, Any]) -> None:
        self.stdout.write(write_file(table_of(all_quotas()), options["format"]), ending="")

    def _apply(self, options: Mapping[str, Any]) -> None:
        table = _read(options["file"], options["format"])
        given: dict[str, Any] = {"table": table, "prune": options["prune"], "now": timezone.now()}
        with _refusals():
            if options["dry_run"]:
                plan = plan_table(**given)
            else:
                plan = apply_table(actor=None, why=options["why"], **given)
        self._tell(plan.changes, len(table), is_dry=options["dry_run"])

    def _import(self, options: Mapping[str, Any]) -> None:
        text, under, now = _text(options["file"]), options["under"], timezone.now()
        flavors = _flavors(options["map"])
        found = read_foreign(text, options["system"], flavors=flavors, under=under)
        for note in found.notes:
            self.stdout.write(f"no equal: {note.about} {note.text}")
        _refuse(found.problems)
        given: dict[str, Any] = {"imported": found, "under": under, "now": now}
        with _refusals(found.rows):
            if options["dry_run"]:
                done = try_import(**given)
            else:
                done = import_quotas(actor=None, why=options["why"], **given)
        for tenant in done.tenants:
            self.stdout.write(f"create {tenant.path}")
        self._tell(done.plan.changes, len(found.rows), is_dry=options["dry_run"])

    def _tell(self, changes: Sequence[TableChange], rows: int, *, is_dry: bool) -> None:
        for change in changes:
            self.stdout.write(_line(change))
        done = "would change" if is_dry else "changed"
        self.stdout.write(f"{len(changes)} of {rows} rows {done}.")


@contextmanager
def _refusals(table: Sequence[TableRow] = ()) -> Iterator[None]:
    """Turns a refusal into a CommandError that names rows and fields, of a given table whose too."""
    try:
        yield
    except MusterError as error:
        told = [f"{_whose(one.pointer, table)}: {one.detail}" for one in error.errors]
        raise CommandError("\n".join([error.detail, *told])) from None


def _whose(pointer: str, table: Sequence[TableRow]) -> str:
    tenants = {str(row.number): f"{row.tenant} {row.flavor}" for row in table}
    parts = pointer.split("/")
    who = tenants.get(parts[2]) if parts[1:2] == ["rows"] and len(parts) > 2 else None
    return f"{pointer} ({who})" if who else pointer


def _flavors(given: Sequence[str]) -> dict[str, str]:
    """What each `--map GPU=FLAVOR` says.

    Raises:
        CommandError: one says nothing of the kind.
    """
    flavors = {}
    for one in given:
        word, equals, flavor = one.rpartition("=")
        if not (word and equals and flavor):
            raise CommandError(f"--map {one}: give the word and our flavor, as h100=h100-sxm-80.")
        flavors[word] = flavor
    return flavors


def _read(name: str, form: str | None) -> list[TableRow]:
    """The table of a file.

    Raises:
        CommandError: it cannot be read or is not one, naming rows and fields.
    """
    form = form or ("csv" if name.endswith(".csv") else "yaml")
    table, problems = read_file(_text(name), form)
    _refuse(problems)
    return table


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {error}") from None


def _refuse(problems: Sequence[TableProblem]) -> None:
    if problems:
        told = [f"row {one.row}, {one.field or 'whole'}: {one.detail}" for one in problems]
        raise CommandError("\n".join(["The table is not valid; nothing was changed.", *told]))


def _line(change: TableChange) -> str:
    row = change.row
    where = f"{row.tenant} {row.flavor} {row.cluster or '(all clusters)'}"
    before, after = change.before or {}, change.after or {}
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    parts = ", ".join(f"{name} {before.get(name)} -> {after.get(name)}" for name in names)
    return f"{change.action} {where}: {parts}"
