"""What would have come of past jobs under a policy: a trace, a table of quotas, and another beside it.

Nothing is read from the database or written to it.
"""

import json
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from federation.core.plan import Plan
from federation.core.replay import Outcome, PastJob, Setting, replay
from federation.core.replay.staging import (
    CLASSES,
    Choices,
    ClusterWords,
    enough_for,
    parse_cluster,
    stage,
    tenant_of,
    tenant_paths,
    workload,
)
from federation.core.replay.told import as_json
from federation.core.replay.trace import Trace, read_trace
from federation.management.outcome import as_table
from quotas.core.cohort import GUARANTEED, SPOT
from quotas.core.table import TableRow
from quotas.services.files import read_file

PROGRESS_S = 5
NANO = Decimal(1_000_000_000)


class Command(BaseCommand):
    """`simulate --trace FILE --quotas FILE [--against FILE]`."""

    help = __doc__
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Files, and what the trace does not say."""
        parser.add_argument("--trace", required=True, help="CSV of past jobs (see the how-to)")
        parser.add_argument("--quotas", required=True, help="YAML or CSV as `quotas export` prints")
        parser.add_argument("--against", help="a second table of quotas, put beside the first")
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
        parser.add_argument(
            "--cluster", action="append", type=_cluster, metavar="NAME:FLAVOR:NODESxGPUS",
            help="repeatable; default: per flavor what the topmost guarantees of --quotas need",
        )  # fmt: skip
        parser.add_argument("--flavor", help="of jobs whose GPU type the trace does not name")
        parser.add_argument("--by-user", action="store_true", help="tenants are the trace's users")
        parser.add_argument(
            "--class", action="append", type=_pair, dest="classes", metavar="KLASS=CLASS",
            help="repeatable; default: strict=guaranteed soft=auto best=spot, any other auto",
        )  # fmt: skip
        parser.add_argument(
            "--checkpoint", type=_seconds, metavar="S", help="all jobs save so often"
        )
        parser.add_argument("--grace", type=_seconds, default=120, metavar="S", help="with it")
        parser.add_argument(
            "--price", action="append", type=_pair, metavar="CLASS=AMOUNT",
            help="per GPU-hour; default: guaranteed=2 spot=1",
        )  # fmt: skip

    def handle(self, *_: Any, **options: Any) -> None:
        """Replays once or twice and prints.

        Raises:
            CommandError: a file or an option is wrong; every fault with its row and field.
        """
        trace = self._trace(options["trace"])
        files = [name for name in (options["quotas"], options["against"]) if name]
        tables = [_table(name) for name in files]
        fleet = options["cluster"] or enough_for(tables[0])
        if not fleet:
            raise CommandError("The quotas guarantee nothing; name the clusters with --cluster.")
        choices = _choices(options, fleet)
        outcomes = [
            (name, self._run(trace, name, table, fleet, choices))
            for name, table in zip(files, tables, strict=True)
        ]
        if options["json"]:
            told = [{"quotas": name, **as_json(outcome)} for name, outcome in outcomes]
            text = json.dumps({"left_out": trace.left_out, "outcomes": told}, indent=2)
        else:
            text = as_table(outcomes)
        self.stdout.write(text)

    def _trace(self, name: str) -> Trace:
        found = read_trace(_text(name).splitlines())
        if not isinstance(found, Trace):
            told = (f"row {one.row}, {one.field or 'whole'}: {one.detail}" for one in found)
            raise CommandError("\n".join([f"{name} is not a valid trace.", *told]))
        for why, jobs in found.left_out.items():
            self.stderr.write(f"{jobs} jobs {why} are left out.")
        return found

    def _run(
        self,
        trace: Trace,
        name: str,
        table: list[TableRow],
        fleet: Sequence[ClusterWords],
        choices: Choices,
    ) -> Outcome:
        paths = tenant_paths({tenant_of(row, choices) for row in trace.rows}, table)
        setting = stage(table, fleet, sorted(paths.values()), choices)
        if not isinstance(setting, Setting):
            raise CommandError(_refusal(name, setting))
        known = {row.tenant for row in table}
        for path in sorted(set(paths.values()) - known):
            self.stderr.write(f"{name} has no quota for {path}: its jobs never start.")
        jobs = workload(trace.rows, paths, max(cluster.gpus for cluster in fleet), choices)
        return replay(jobs, setting, watch=self._progress(name, jobs))

    def _progress(self, name: str, jobs: Sequence[PastJob]) -> Any:
        """A watcher that says every few seconds how far the arrivals have come."""
        last = [time.monotonic()]
        end_ms = max(job.arrival_ms for job in jobs)

        def watch(plan: Plan) -> None:
            if time.monotonic() - last[0] > PROGRESS_S:
                last[0] = time.monotonic()
                done = min(100, 100 * plan.basis.now_ms // max(end_ms, 1))
                waiting = len(plan.basis.jobs)
                self.stderr.write(f"{name}: {done} % of arrivals, {waiting} jobs wait")

        return watch


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {error}") from None


def _table(name: str) -> list[TableRow]:
    table, problems = read_file(_text(name), "csv" if name.endswith(".csv") else "yaml")
    if problems:
        raise CommandError(_refusal(name, problems))
    return table


def _refusal(name: str, problems: Iterable[Any]) -> str:
    told = (f"row {one.row}, {one.field or 'whole'}: {one.detail}" for one in problems)
    return "\n".join([f"{name} is not a valid table of quotas.", *told])


def _choices(options: dict[str, Any], fleet: Sequence[ClusterWords]) -> Choices:
    """What the options say.

    Raises:
        CommandError: a class or a price is none, or the flavor is not clear.
    """
    flavors = sorted({cluster.flavor for cluster in fleet})
    flavor = options["flavor"] or (flavors[0] if len(flavors) == 1 else "")
    if flavor not in flavors:
        raise CommandError(f"Name the flavor with --flavor: one of {', '.join(flavors)}.")
    classes = dict(options["classes"] or CLASSES)
    for name in classes.values():
        if name not in (GUARANTEED, SPOT, "auto"):
            raise CommandError(f"--class: {name} is none of guaranteed, spot, auto.")
    interval_s = options["checkpoint"]
    return Choices(
        flavor=flavor,
        by_user=options["by_user"],
        classes=classes,
        interval_ms=None if interval_s is None else interval_s * 1000,
        grace_ms=options["grace"] * 1000,
        prices={**Choices(flavor).prices, **dict(map(_price, options["price"] or ()))},
    )


def _price(pair: tuple[str, str]) -> tuple[str, int]:
    name, text = pair
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if name not in (GUARANTEED, SPOT) or not 0 <= amount <= 1_000_000:
        raise CommandError(f"--price: {name}={text} is no class with an amount per GPU-hour.")
    return name, int(amount * NANO)


def _cluster(text: str) -> ClusterWords:
    found = parse_cluster(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is not NAME:FLAVOR:NODESxGPUS")
    return found


def _pair(text: str) -> tuple[str, str]:
    name, is_pair, value = text.partition("=")
    if not is_pair or not name or not value:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) == int(text)):
        raise ArgumentTypeError(f"{text!r} is no whole number of seconds above 0")
    return int(text)
