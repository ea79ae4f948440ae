"""Crash points: a process can be killed between any two writes, and each such place has a name.

A write is a committed transaction, a single statement outside one, or a request that changes
something on a cluster. A kill *before* a write is a kill after the one before it, so there is one
point a write: right after it, before anybody learns of it. Nothing of this is in the product: the
names are read off the stack.
"""

import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

BACKENDS = {f"clusters.backends.{kind}.backend" for kind in ("slurm", "volcano")}
READS = ("SELECT", "SHOW", "NOTIFY", "EXECUTE KEPT_SELECT")


Place = tuple[str, int]  # a module, and the line of a statement or of a transaction's beginning


class _Service(NamedTuple):
    """A service on the stack as `module.function`, and where it is at."""

    name: str
    place: Place


class Killed(BaseException):
    """The process is gone: no handler of its own runs, as after SIGKILL."""


class Points:
    """Counts the points that were passed and kills at the one that is armed."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.places: dict[str, set[Place]] = defaultdict(set)
        self.killed: list[str] = []
        self._is_due: Callable[[str], bool] | None = None
        self._thread = threading.get_ident()
        self.watching = False
        self.has_written = False

    def kill_at(self, name: str) -> None:
        """Kills the next time the point of this name is reached."""
        self.kill_at_each([name])

    def kill_after(self, writes: int) -> None:
        """Kills after so many writes (0: not at all)."""
        left = iter(range(writes - 1, -1, -1))
        self._is_due = (lambda _: next(left, 1) == 0) if writes else None

    def kill_at_each(self, names: Iterable[str]) -> None:
        """Kills once at each of these points."""
        left = set(names)

        def is_due(reached: str) -> bool:
            was_left = reached in left
            left.discard(reached)
            return was_left

        self._is_due = is_due

    def disarm(self) -> None:
        """Nobody is to be killed."""
        self._is_due = None

    def reach(self, name: str, place: Place = ("", 0)) -> None:
        """A write was done at a place of the code: count it, and die here if that is wanted."""
        if not self.watching:
            return
        self.passed[name] += 1
        self.places[name].add(place)
        if self._is_due is not None and self._is_due(name):
            self.killed.append(name)
            raise Killed(name)

    def reach_database(self) -> None:
        """As `reach`, for the database; other workers' threads are not watched."""
        if self.watching and threading.get_ident() == self._thread and (found := list(_services())):
            names = list(dict.fromkeys(service.name for service in found))
            name = f"{names[-1]} > {names[0]}" if len(names) > 1 else names[0]
            self.reach(name, found[0].place)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watches the writes of what runs inside; True writes only, reads are no points."""
        self.watching = True
        try:
            with connection.execute_wrapper(self._after_statement):
                yield
        finally:
            self.watching = False

    def _after_statement(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        result = execute(sql, params, many, context)
        if not str(sql).lstrip().upper().startswith(READS):
            self.has_written = True
            if not connection.in_atomic_block:
                self.reach_database()
        return result


@contextmanager
def installed(points: Points) -> Iterator[None]:
    """Commits of every connection are told to `points`."""
    commit = BaseDatabaseWrapper.commit

    def told(self: BaseDatabaseWrapper) -> None:
        commit(self)
        points.reach_database()

    patch = pytest.MonkeyPatch()
    patch.setattr(BaseDatabaseWrapper, "commit", told)
    try:
        yield
    finally:
        patch.undo()


def request_name() -> str:
    """The point of a request that changed a cluster: the backend's verb, and its step."""
    steps = [
        frame.f_code.co_name for frame in _frames() if frame.f_globals.get("__name__") in BACKENDS
    ]
    return f"call {steps[-1]} > {steps[0].lstrip('_')}"


def _services() -> Iterator[_Service]:
    """Services on the stack, the innermost first; none: what was committed was a reading."""
    for frame in _frames():
        code, module = frame.f_code, str(frame.f_globals.get("__name__"))
        name, line = code.co_name, frame.f_lineno
        if module == "contextlib" and name == "inner":  # a function that is a transaction
            function = frame.f_locals["func"]
            module, name = function.__module__, function.__name__
            line = function.__code__.co_firstlineno
        if ".services." in module and name.isidentifier():
            yield _Service(f"{module.rpartition('.')[2]}.{name.lstrip('_')}", (module, line))


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


CRASH_POINTS = (
    "call cancel > delete",
    "call signal > signal",
    "call submit > delete",
    "call submit > post",
    "call submit > settle",
    "change.cancel_job",
    "change.change_job",
    "change.checkpoint_job",
    "change.hold_job",
    "change.release_job",
    "commit.begin_term",
    "commit.commit_plan > commit.bind",
    "commit.commit_plan > commit.claim",
    "commit.commit_plan > commit.promote",
    "commit.commit_plan > commit.tell",
    "deliver.deliver > deliver.claim",
    "deliver.deliver > lease.back_off",
    "deliver.deliver > lease.give_back",
    "deliver.deliver > lease.renew",
    "deliver.deliver > lease.rest",
    "deliver.deliver > lease.take",
    "deliver.deliver > results.record",
    "evict.tend_evictions",
    "fleet.set_state",
    "life.tend_clusters > life.tend_cluster",
    "observe.observe > lease.back_off",
    "observe.observe > lease.give_back",
    "observe.observe > lease.rest",
    "observe.observe > lease.take",
    "observe.observe > observe.store",
    "observe.observe > observe.store_failure",
    "posting.meter_and_post",
    "reconcile.reconcile_cluster > reconcile.change",
    "reconcile.reconcile_cluster > checkpoint.record_proofs",
    "reconcile.reconcile_cluster > rebuilt.write",
    "rotate.rotate_credentials",
    "submit.submit_jobs > submit.insert",
    "submit.submit_jobs > submit.within_limits",
)
