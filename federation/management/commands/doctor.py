"""`manage.py doctor`: looks at a running installation and says what to do.

Each check stands alone: what one of them meets (the broker is away, say) is its finding, and the
others go on. Nothing is changed, no secret is shown, and nothing takes longer as tables grow.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand
from django.db import ProgrammingError, connection, transaction
from django.utils import timezone

from federation.management import examination, surroundings
from federation.management.commands.arbiter import LOCK
from federation.management.examination import Visit
from kit.findings import Finding, Level, as_json, as_text, hide, worst

Check = Callable[[Visit], Iterable[Finding]]
CONNECT_TIMEOUT_S = 3
LONGEST_QUERY = "5s"
OUTSIDE: Sequence[tuple[str, Check]] = (
    ("settings", surroundings.configuration),
    ("disk", surroundings.disks),
    ("broker", surroundings.broker),
    ("direct address", surroundings.direct),
)
INSIDE: Sequence[tuple[str, Check]] = (
    ("workers", examination.ticks),
    ("arbiter", examination.arbiter),
    ("recovery", examination.recovery),
    ("clusters", examination.clusters),
    ("outbox", examination.outbox),
    ("ledger", examination.ledger),
    ("months", examination.months),
)
REMEDY = {
    "broker": "Is Valkey running, and is REDIS_URL right? No work is lost meanwhile.",
    "database": "Is PostgreSQL running, and is DATABASE_URL right?",
    "direct address": "Is DATABASE_DIRECT_URL right? The arbiter and the stream need it.",
}


class Command(BaseCommand):
    """Examines settings, database, broker, workers, arbiter, clusters, ledger and disks."""

    help = "Look at everything that Muster needs and say what is wrong and what to do. 0 = well."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """`--json` for programs."""
        parser.add_argument("--json", action="store_true", help="one JSON document")

    def handle(self, *_: Any, json: bool, **__: Any) -> None:
        """Prints the findings; ends with 1 when one of them is an error."""
        connection.settings_dict["OPTIONS"].setdefault("connect_timeout", CONNECT_TIMEOUT_S)
        findings = examine(Visit(timezone.now(), LOCK))
        self.stdout.write(_document(findings) if json else as_text(findings))
        if worst(findings) is Level.ERROR:
            sys.exit(1)


def examine(visit: Visit) -> list[Finding]:
    """Every finding of every check, without secrets."""
    findings = [finding for name, check in OUTSIDE for finding in _guarded(name, check, visit)]
    about = list(_guarded("database", _bounded(examination.database), visit))
    findings += about
    if any(finding.what == "database" and finding.level is Level.ERROR for finding in about):
        words = "not looked at: the database does not answer"
        findings += [Finding(name, Level.WARNING, words) for name, _ in INSIDE]
    else:
        for name, check in INSIDE:
            findings += _guarded(name, _bounded(check), visit)
    hidden = surroundings.secrets_known()
    return [replace(finding, words=hide(finding.words, hidden)) for finding in findings]


def _guarded(name: str, check: Check, visit: Visit) -> Iterator[Finding]:
    """What the check finds; what it raises is a finding as well."""
    try:
        yield from check(visit)
    except Exception as error:  # noqa: BLE001 - one sick part must not end the examination
        words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        fix = REMEDY.get(name, "The words above are the cause; docs/runbook.md says more.")
        if isinstance(error, ProgrammingError):
            fix = "Run: manage.py migrate"  # a table or column is not there yet
        yield Finding(name, Level.ERROR, words, fix)


def _bounded(check: Check) -> Check:
    """The check in a transaction of its own, where no query may take long."""

    def run(visit: Visit) -> list[Finding]:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [LONGEST_QUERY])
            return list(check(visit))

    return run


def _document(findings: Sequence[Finding]) -> str:
    return json.dumps(as_json(findings), indent=2, ensure_ascii=False)
