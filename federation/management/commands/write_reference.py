"""`manage.py write_reference`: writes the reference pages that are made from the code."""

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand

from federation.management.reference import pages


class Command(BaseCommand):
    """Writes error codes, job fields and cluster options into `docs/reference/`."""

    help = "Writes the reference pages that are made from the code."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Where the pages go."""
        parser.add_argument("--to", type=Path, default=Path("docs/reference"))

    def handle(self, *, to: Path, **_: object) -> None:
        """Writes every page."""
        to.mkdir(parents=True, exist_ok=True)
        for name, text in pages().items():
            (to / name).write_text(text)
            self.stdout.write(f"{to / name}")
