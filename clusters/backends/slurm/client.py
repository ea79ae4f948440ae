"""The HTTP side: tokens, deadlines, and replies turned into JSON or into the protocol's errors."""

import json
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import mktime_tz, parsedate_tz
from functools import cached_property
from threading import Lock
from typing import Any

import httpx
import jwt
import msgspec

from clusters.backends.slurm.errors import (
    TOO_MANY,
    Fault,
    from_faults,
    from_text,
    read_faults,
)
from clusters.backends.slurm.values import Json, parsed
from clusters.backends.slurm.versions import DIALECTS, Dialect, newest_known
from clusters.core.backend import (
    BackendUnavailableError,
    Connection,
    lost,
)
from kit.gate import GateShutError
from kit.wire import Answer, HttpxWire, KeptWire, Request, Wire, WireError

# A list of jobs is megabytes: it is cut into its rows first, and a row parsed only by who reads it.
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ROWS = msgspec.json.Decoder(list[msgspec.Raw])
# The API version by endpoint: the list is half a megabyte, a server keeps its version for months.
_DIALECT_BY_ENDPOINT: dict[str, Dialect] = {}


def forget_versions() -> None:
    """Ask every server anew for its API versions."""
    _DIALECT_BY_ENDPOINT.clear()


def number_option(options: Mapping[str, str], name: str, default: float) -> float:
    """A number among the cluster's options.

    Raises:
        BackendUnavailableError: it is no positive number; the admin can mend it.
    """
    text = options.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:  # false for NaN as well
        raise BackendUnavailableError(f"option {name} is no number: {text!r}", code="options")
    return value


def wall_clock_s() -> int:
    """Now in epoch seconds: a token's life is wall time, and nothing else here reads the clock."""
    return int(time.time())  # noqa: TID251 - see above


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply whose errors the caller said it can live with: its parts by name, as JSON text."""

    parts: Mapping[str, msgspec.Raw]
    faults: tuple[Fault, ...]
    took_s: float

    def part(self, name: str) -> Any:
        """One of its parts; None when it is not there."""
        return parsed(self.parts.get(name, b"null"))

    def texts(self, name: str) -> list[bytes]:
        """The objects in the list of this name, each as JSON text; none where it is no list."""
        try:
            found = map(bytes, _ROWS.decode(self.parts.get(name, b"[]")))
        except msgspec.ValidationError:
            return []
        return [text for text in found if text.startswith(b"{")]

    def rows(self, name: str) -> list[Json]:
        """The objects in the list of this name."""
        return [parsed(text) for text in self.texts(name)]


@dataclass
class TokenMint:
    """HS256 tokens for any account, signed with the cluster's key, renewed at half their life."""

    key: bytes
    life_s: int
    clock: Callable[[], int] = wall_clock_s
    _made: dict[str, tuple[int, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def token(self, account: str) -> str:
        """A token of this account that is valid for at least half of `life_s`."""
        now = self.clock()
        with self._lock:
            made_at, token = self._made.get(account, (0, ""))
            if not token or not made_at <= now < made_at + self.life_s // 2:
                claims = {"exp": now + self.life_s, "iat": now, "sun": account}
                token = jwt.encode(claims, self.key, algorithm="HS256")
                self._made[account] = (now, token)
            return token


class SlurmClient:
    """Calls to one slurmrestd. Safe to share between threads.

    Options: `timeout_s` (whole call, default 20), `connect_timeout_s` (3), `token_life_s` (1800),
    `api_version` (pins one, `v0.0.38`).
    """

    def __init__(
        self,
        connection: Connection,
        *,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], int] = wall_clock_s,
    ) -> None:
        self.connection = connection
        self._transport = transport
        self._clock = clock

    @cached_property
    def timeout_s(self) -> float:
        """The deadline of one call."""
        return number_option(self.connection.options, "timeout_s", 20)

    @cached_property
    def _mint(self) -> TokenMint:
        life_s = number_option(self.connection.options, "token_life_s", 1800)
        return TokenMint(self.connection.secret, int(life_s), self._clock)

    @cached_property
    def _wire(self) -> Wire:
        connect_s = number_option(self.connection.options, "connect_timeout_s", 3)
        endpoint = self.connection.endpoint
        wire: Wire = (
            KeptWire(endpoint, connect_s)
            if self._transport is None
            else HttpxWire(endpoint, connect_s, self._transport)
        )
        # a backend is made per task and may just be dropped: its sockets are not left to luck
        weakref.finalize(self, wire.close)
        return wire

    def close(self) -> None:
        """Close the connections it keeps alive."""
        self._wire.close()

    @property
    def dialect(self) -> Dialect:
        """The API version in use: the pinned one, or the newest known that the server lists.

        Raises:
            BackendUnavailableError: the server cannot be asked, or lists none that we know.
        """
        pinned = self.connection.options.get("api_version")
        if pinned:
            if pinned not in DIALECTS:
                raise BackendUnavailableError(f"unknown api_version {pinned}", code="api_version")
            return DIALECTS[pinned]
        endpoint = self.connection.endpoint
        if endpoint not in _DIALECT_BY_ENDPOINT:
            paths = self._call("GET", "/openapi/v3").part("paths") or {}
            dialect = newest_known(paths)
            if dialect is None:
                words = f"the server offers no API version of {', '.join(DIALECTS)}"
                raise BackendUnavailableError(words, code="api_version")
            _DIALECT_BY_ENDPOINT[endpoint] = dialect
        return _DIALECT_BY_ENDPOINT[endpoint]

    def read(self, path: str, *, accounting: bool = False, fine: Iterable[int] = ()) -> Reply:
        """GET below the API's prefix, as the connection's own account. Never ambiguous."""
        return self._versioned("GET", path, accounting=accounting, fine=fine)

    def write(
        self,
        method: str,
        path: str,
        account: str,
        body: Json | None = None,
        *,
        fine: Iterable[int],
        accounting: bool = False,
    ) -> Reply:
        """POST or DELETE as an account; `fine` are error numbers that are no failure here."""
        return self._versioned(
            method, path, accounting=accounting, account=account, body=body, fine=fine
        )

    def _versioned(
        self,
        method: str,
        path: str,
        *,
        accounting: bool = False,
        account: str = "",
        body: Json | None = None,
        fine: Iterable[int] = (),
    ) -> Reply:
        prefix = "slurmdb" if accounting else "slurm"
        url = f"/{prefix}/{self.dialect.api}/{path}"
        try:
            return self._call(method, url, account=account, body=body, fine=fine)
        except BackendUnavailableError as error:
            if error.code == "api_version":  # the server was upgraded under us: ask anew next time
                _DIALECT_BY_ENDPOINT.pop(self.connection.endpoint, None)
            raise

    def _call(
        self,
        method: str,
        url: str,
        *,
        account: str = "",
        body: Json | None = None,
        fine: Iterable[int] = (),
    ) -> Reply:
        user = account or self.connection.account
        headers = {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": self._mint.token(user)}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, separators=(",", ":")).encode()
        is_write = method != "GET"
        try:
            with self.connection.gate.passage():
                begun = time.monotonic()
                answer = self._wire.exchange(Request(method, url, headers, content), self.timeout_s)
        except GateShutError:
            words = "not called: it did not answer another call"
            raise BackendUnavailableError(words, code="held_back") from None
        except WireError as error:
            raise lost(str(error), was_sent=error.was_sent, is_write=is_write) from error
        took_s = time.monotonic() - begun
        return _read(answer, is_write=is_write, took_s=took_s, fine=frozenset(fine))


def _retry_after_s(answer: Answer) -> float | None:
    """The seconds of a Retry-After (RFC 9110): a number, or a moment, which counts from the reply's
    own `Date`, so that no clock need agree with ours. Without a `Date`, ours has to do.
    """
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    until_s = _moment_s(text)
    if until_s is None:
        return None
    said_s = _moment_s(answer.headers.get("date", ""))
    return max(0.0, until_s - (wall_clock_s() if said_s is None else said_s))


def _moment_s(text: str) -> float | None:
    """The epoch seconds of an HTTP date, in any of its three forms; None when it is none."""
    parsed = parsedate_tz(text)
    try:
        return None if parsed is None else float(mktime_tz(parsed))
    except (ValueError, OverflowError):
        return None


def _parts(content: bytes) -> Mapping[str, msgspec.Raw]:
    """The parts of a reply.

    json-c, which slurmrestd writes with, spells numbers that JSON does not have as NaN and
    Infinity: these are read as null, by a parser that takes them.

    Raises:
        ValueError: it is no object of JSON.
    """
    try:
        return _PARTS.decode(content)
    except msgspec.DecodeError:
        text = content.decode("utf-8", "replace")
        plain = json.loads(text, parse_constant=lambda _: None)
        return _PARTS.decode(json.dumps(plain))


def _read(answer: Answer, *, is_write: bool, took_s: float, fine: frozenset[int]) -> Reply:
    status = answer.status
    try:
        parts = _parts(answer.content)
        faults = read_faults(parsed(parts.get("errors", b"null")))
    except ValueError:
        text = answer.content.decode("utf-8", "replace")
        # a reply cut short starts like JSON: it was on its way, whatever its status
        shown = 500 if text[:1] in {"{", "["} and status != TOO_MANY else status
        retry_after_s = _retry_after_s(answer)
        raise from_text(
            text, is_write=is_write, status=shown, retry_after_s=retry_after_s
        ) from None
    if status == TOO_MANY:  # a proxy's, whatever it says in its body: it did not let us through
        words = f"HTTP {status}: told to slow down"
        retry_after_s = _retry_after_s(answer)
        raise BackendUnavailableError(words, code=str(status), retry_after_s=retry_after_s)
    bad = tuple(fault for fault in faults if fault.number not in fine)
    # A job id beside errors: the job exists (held, or unable to start), so the caller judges.
    if "job_id" not in parts and (bad or (status >= 400 and not faults)):
        raise from_faults(bad, is_write=is_write, took_s=took_s, status=status)
    return Reply(parts, faults, took_s)
