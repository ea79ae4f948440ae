"""`manage.py recover`: after a restore, makes what the clusters really run ours again."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from clusters.services.recall import Recalled, closed_secrets, recall
from federation.core.adoption import Found
from federation.services.adopt import adopt, finish
from federation.services.adopt import begin as begin_recovery
from federation.services.orphans import book_orphans as book

UNHEARD = """\
Nothing is decided or forwarded before every cluster was heard. Run this again when they answer, or
go on with what is known of one:  manage.py recover --accept {name}"""

CLOSED = """\
{name}: no key in MUSTER_ENCRYPTION_KEYS opens its secret. Add the key that was in use when the backup
was made at the end of the list, or give the cluster its secret again."""


class Command(BaseCommand):
    """Begins, recalls every cluster, adopts, finishes; repeating it is doing it once."""

    help = "After a restore: adopt what the clusters run. Until it is done nothing is forwarded."

    def add_arguments(self, parser: CommandParser) -> None:
        """`--begin` stops everything and ends there; `--since` and `--accept` are rarely needed."""
        parser.add_argument("--begin", action="store_true", help="only stop decisions and traffic")
        parser.add_argument(
            "--since",
            type=_moment,
            help="the moment restored to (ISO 8601), when Muster ran on since the restore",
        )
        parser.add_argument(
            "--accept",
            action="append",
            default=[],
            metavar="CLUSTER",
            help="go on although this cluster, or its accounting, does not answer",
        )
        parser.add_argument(
            "--book-orphans",
            action="store_true",
            help="book what ran for lost jobs as adjustments of the tenants that can be known",
        )

    def handle(
        self,
        *_: Any,
        begin: bool,
        since: datetime | None,
        accept: list[str],
        book_orphans: bool,
        **__: Any,
    ) -> None:
        """Says what was found.

        Raises:
            CommandError: a cluster was not heard and is not accepted; everything stays stopped.
        """
        clusters = begin_recovery(since=since, now=timezone.now())
        self.stdout.write("Nothing is decided or forwarded now, until this is done.")
        for name in closed_secrets():
            self.stdout.write(CLOSED.format(name=name))
        if begin:
            return
        recalled = [recall(cluster_id=key, clock=timezone.now) for key in clusters]
        for one in recalled:
            self.stdout.write(f"{one.name}: {one.words or 'told all it knows'}")
        unheard = [one for one in recalled if one.words and one.name not in accept]
        if unheard:
            raise CommandError(UNHEARD.format(name=unheard[0].name))
        adopted = adopt(now=timezone.now())
        for attempt in adopted.attempts:
            self.stdout.write(f"adopted {attempt.fence} on {attempt.cluster.name}")
        self._show_orphans(recalled, adopted.orphans)
        if book_orphans:
            booked = book(orphans=adopted.orphans, now=timezone.now())
            self.stdout.write(f"{len(booked)} adjustments booked for orphans")
        finish(adopted=adopted, now=timezone.now())
        self.stdout.write(
            f"{len(adopted.attempts)} attempts adopted, {len(adopted.orphans)} orphans. "
            "Muster goes on: start its processes, or let them run."
        )

    def _show_orphans(self, recalled: list[Recalled], orphans: tuple[Found, ...]) -> None:
        names = {one.cluster_id: one.name for one in recalled}
        for found in orphans:
            seen = found.chief
            self.stdout.write(
                f"orphan {found.fence} on {names.get(found.cluster, found.cluster)}: number "
                f"{seen.backend_id}, {seen.state}, {seen.gpus} GPUs, as {seen.account}. "
                "No job of ours; it is not touched."
            )


def _moment(text: str) -> datetime:
    """A moment in ISO 8601; without a zone it is UTC.

    Raises:
        ValueError: it is none; argparse says so.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
