"""The `beat` process: `python -m config.beat --schedule FILE`.

It sends the names of tasks at their times and runs none, so neither Django's apps nor Celery's
command line are loaded: half of what it would hold otherwise.
"""

import argparse
import sys
from logging.config import dictConfig
from pathlib import Path
from typing import Any

from celery.apps import beat
from django.conf import settings

from config.celery import app


class Beat(beat.Beat):
    """Celery's, of which only the schedule is wanted."""

    def init_loader(self) -> None:
        """Settings and logging; no task is imported."""
        dictConfig(settings.LOGGING)
        app.finalize()


def main(argv: list[str]) -> int:
    """Send what is due until told to stop; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m config.beat")
    parser.add_argument("--schedule", type=Path, required=True, help="what was sent when")
    arguments = parser.parse_args(argv)
    whole: Any = app  # celery-types wants the app of plain tasks
    Beat(app=whole, schedule=str(arguments.schedule), quiet=True).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
