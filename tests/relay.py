"""A TCP relay of the tests' own: a network that can be cut, and an address that can move.

It stands between Muster and a server. Its target can be switched while connections come and go, as
a virtual address moves from a dead server to its standby.
"""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

BUFFER = 65536
TICK_S = 0.05


class Line(Enum):
    """What the relay does with a connection."""

    PASS = auto()
    REFUSE = auto()  # nothing listens: a connection is refused, those that stood are reset
    BLACKHOLE = auto()  # connections are accepted, and nothing ever answers
    HALF_OPEN = auto()  # what is sent arrives, no answer comes back


class Relay:
    """Relays `127.0.0.1:port` to a port of the same machine; `line` may change at any time."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._line = Line.PASS
        self._listener: socket.socket | None = _listen(0)
        self.port: int = self._listener.getsockname()[1]
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._closing = threading.Event()
        self._lock = threading.Lock()

    @property
    def line(self) -> Line:
        return self._line

    def cut(self, line: Line) -> None:
        """From now on connections fare like this, also those that stand."""
        with self._lock:
            self._line = line
            if line is Line.REFUSE and self._listener:
                self._listener.close()
                self._listener = None
            elif line is not Line.REFUSE and self._listener is None:
                self._listener = _listen(self.port)
        if line is Line.REFUSE:
            self.drop()

    def heal(self) -> None:
        """The network is whole again; what hung is reset, as by a peer that lost its state."""
        self.drop()
        self.cut(Line.PASS)

    def switch(self, target: int) -> None:
        """The address belongs to another server now; what stood is reset."""
        self.target = target
        self.drop()

    def drop(self) -> None:
        """Resets every connection that stands."""
        with self._lock:
            for pair in self._pairs:
                for end in pair:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def open(self) -> Iterator["Relay"]:
        """Relays until the block ends."""
        thread = threading.Thread(target=self._accept_all, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._closing.set()
            self.drop()
            thread.join(10)
            if self._listener:
                self._listener.close()

    def _accept_all(self) -> None:
        while not self._closing.is_set():
            listener = self._listener
            if listener is None:
                time.sleep(TICK_S)
                continue
            try:
                if not select.select([listener], [], [], TICK_S)[0]:
                    continue
                near, _ = listener.accept()
            except (OSError, ValueError):  # closed meanwhile
                continue
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near:
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                return
            with far:
                far.settimeout(None)
                pair = (near, far)
                with self._lock:
                    self._pairs.add(pair)
                try:
                    self._pump(near, far)
                finally:
                    with self._lock:
                        self._pairs.discard(pair)

    def _pump(self, near: socket.socket, far: socket.socket) -> None:
        """Carries bytes both ways until an end closes; a cut line swallows them."""
        while not self._closing.is_set():
            try:
                for source in select.select([near, far], [], [], TICK_S)[0]:
                    part = source.recv(BUFFER)
                    if not part:
                        return
                    if self._line is Line.PASS or (self._line, source) == (Line.HALF_OPEN, near):
                        (far if source is near else near).sendall(part)
            except (OSError, ValueError):
                return


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener
