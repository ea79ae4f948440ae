"""One read shared by many callers at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """A read that callers may ask for at once; each gets one that *began after it asked*.

    A submit must see its own job in the list that follows, and the list of a large cluster is
    megabytes: k submits in flight share about two lists instead of making k. A failure is shared as
    well, so that k callers do not wait for k deadlines in turn.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._counter = Lock()
        self._reading = Lock()
        self._begun = 0
        self._done = 0
        self._value: T | None = None
        self._error: Exception | None = None

    def get(self) -> T:
        """The value; raises what the read raised."""
        with self._counter:
            wanted = self._begun + 1
        with self._reading:
            if self._done < wanted:
                self._run()
            if self._error is not None:
                raise self._error
            return self._value  # type: ignore[return-value]  # set by the read that just ended

    def _run(self) -> None:
        with self._counter:
            self._begun += 1
        self._value, self._error = None, None
        try:
            self._value = self._read()
        except Exception as error:  # noqa: BLE001 - kept, and raised to every caller
            self._error = error
        self._done = self._begun


class Together:
    """Lets those who have done a step wait a moment for those who are at it."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._at_it = 0
        self._none_left = Condition()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Somebody is at the step while the block runs."""
        with self._none_left:
            self._at_it += 1
        try:
            yield
        finally:
            with self._none_left:
                self._at_it -= 1
                if not self._at_it:
                    self._none_left.notify_all()

    def wait(self) -> None:
        """Returns when nobody is at the step, or when it has taken too long."""
        with self._none_left:
            self._none_left.wait_for(lambda: not self._at_it, timeout=self._longest_s)
