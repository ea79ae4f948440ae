"""Works off the simulations that were asked for at `/simulations`, then ends.

The worker of the queue `accounting` starts it by itself. It stops, and gives back what it works on,
when it is told to or when its parent is gone.
"""

import logging
import os
import signal
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from federation.services.simulate import work_off
from kit.logs import bound

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    """`run_simulations`."""

    help = __doc__
    requires_system_checks: tuple[str, ...] = ()

    def handle(self, *_: Any, **__: Any) -> None:
        """Works until nothing is due, SIGTERM comes, or the parent is gone."""
        parent, is_told = os.getppid(), False

        def told(_number: int, _frame: FrameType | None) -> None:
            nonlocal is_told
            is_told = True

        signal.signal(signal.SIGTERM, told)
        with bound(task="run_simulations"):
            count = work_off(
                clock=timezone.now, goes_on=lambda: not is_told and os.getppid() == parent
            )
            logger.info("%d simulations worked off", count)
