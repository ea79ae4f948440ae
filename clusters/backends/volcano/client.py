"""The HTTP side: credentials, deadlines, pages, and replies turned into the protocol's errors.

Raw JSON over the connections that Slurm's backend uses, too: lists of thousands of objects are read
as plain dictionaries, of which a model of each would cost many times as much.
"""

import json
import weakref
from collections.abc import Callable, Iterator, Mapping
from email.utils import mktime_tz, parsedate_tz
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec

from clusters.backends.volcano.credentials import Credentials, CredentialsError, credentials_of
from clusters.backends.volcano.errors import EXPIRED, FORBIDDEN, error_of, refusal
from clusters.backends.volcano.rights import REVIEWS, Right, is_allowed, review, right_of
from clusters.core.backend import (
    BackendAmbiguousError,
    BackendError,
    BackendRejectedError,
    BackendUnavailableError,
    Connection,
    lost,
)
from kit.gate import GateShutError
from kit.wire import Answer, HttpxWire, KeptWire, Request, Wire, WireError

Json = dict[str, Any]
T = TypeVar("T")

PAGE = 500
WATCH_S = 1
_TRIES = 3  # of a list whose pages expired: the server keeps a version for five minutes
_MERGE = "application/merge-patch+json"
_DECODE = msgspec.json.Decoder()


class KubernetesClient:
    """Calls to one API server. Safe to share between threads.

    The connection's secret is as in `credentials`. Options: `authority` (PEM of the one that signed the
    server's certificate), `timeout_s` (whole call, default 20), `connect_timeout_s` (3).
    """

    def __init__(
        self, connection: Connection, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.connection = connection
        self._transport = transport
        # a cluster in the same process, with a time of its own: one call after another
        self.is_played = transport is not None
        self.date_ms: int | None = None  # the server's clock in its last answer, whole seconds

    @cached_property
    def timeout_s(self) -> float:
        """The deadline of one call."""
        return float(self.connection.options.get("timeout_s", "20"))

    @cached_property
    def _credentials(self) -> Credentials:
        """Who we are there.

        Raises:
            BackendUnavailableError: what is in the secret cannot be used; the words name the field.
        """
        try:
            return credentials_of(self.connection.secret, self.connection.endpoint)
        except CredentialsError as error:
            raise BackendUnavailableError(str(error), code="credentials") from error

    @cached_property
    def _wire(self) -> Wire:
        options, endpoint = self.connection.options, self.connection.endpoint
        connect_s = float(options.get("connect_timeout_s", "3"))
        known = self._credentials
        wire: Wire = (
            KeptWire(
                endpoint,
                connect_s,
                options.get("authority", "") or known.authority,
                identity=known.identity,
                server_name=known.server_name,
            )
            if self._transport is None
            else HttpxWire(endpoint, connect_s, self._transport)
        )
        weakref.finalize(self, wire.close)
        return wire

    def close(self) -> None:
        """Close the connections it keeps alive."""
        self._wire.close()

    def get(self, path: str, **query: str) -> Json:
        """One object. Never ambiguous; rejected with the code `NotFound` where there is none."""
        return self._call("GET", path, query)

    def text(self, path: str, **query: str) -> str:
        """What is no object: a log. Never ambiguous."""
        answer = self._exchange("GET", path, query, None, "text/plain")
        if answer.status >= 400:
            self._checked("GET", path, answer)
        return answer.content.decode("utf-8", "replace")

    def may(self, right: Right, namespace: str = "") -> bool:
        """Whether this account has the right (in that namespace), as the server itself says."""
        return is_allowed(self.create(REVIEWS, review(right, namespace)))

    def create(self, path: str, body: Mapping[str, Any], **query: str) -> Json:
        """A new object; rejected with the code `AlreadyExists` where the name is taken."""
        return self._call("POST", path, query, body)

    def merge(self, path: str, body: Mapping[str, Any]) -> Json:
        """Changes an object by a merge patch."""
        return self._call("PATCH", path, {}, body, _MERGE)

    def remove(self, path: str, uid: str) -> Json:
        """Takes a pod out of the API at once, if it still is the one of this uid.

        Nobody waits for its node: for nodes that are known dead only.
        """
        body = {"preconditions": {"uid": uid}, "gracePeriodSeconds": 0}
        return self._call("DELETE", path, {}, body)

    def items(self, path: str, **query: str) -> list[Json]:
        """Everything in a list."""
        return self.listing(path, lambda thing: thing, **query)[0]

    def listing(self, path: str, read: Callable[[Json], T], **query: str) -> tuple[list[T], str]:
        """What `read` makes of each object of a list, and the list's version.

        In pages of one version, each forgotten once it is read; begun anew where the pages expired.
        """
        for left in reversed(range(_TRIES)):
            try:
                return self._pages(path, read, query)
            except BackendUnavailableError as error:
                if error.code != EXPIRED or not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def version(self, path: str) -> str:
        """The version that a list would be of now."""
        page = self._call("GET", path, {"limit": "1"})
        return str((page.get("metadata") or {}).get("resourceVersion") or "")

    def changes(self, path: str, version: str) -> Iterator[tuple[str, Json]]:
        """What was written since a version of a list and within `WATCH_S`: (type, object) each.

        Raises:
            BackendError: it cannot be told, or what was told was cut short.
        """
        query = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        query["timeoutSeconds"] = str(WATCH_S)
        answer = self._exchange("GET", path, query, None, "application/json")
        if answer.status >= 400:
            self._checked("GET", path, answer)
        return map(_event, filter(None, answer.content.split(b"\n")))

    def _pages(
        self, path: str, read: Callable[[Json], T], query: Mapping[str, str]
    ) -> tuple[list[T], str]:
        found: list[T] = []
        after = version = ""
        while True:
            more = {"continue": after} if after else {}
            page = self._call("GET", path, {**query, "limit": str(PAGE), **more})
            found += map(read, page.get("items") or ())
            meta = page.get("metadata") or {}
            version = version or str(meta.get("resourceVersion") or "")
            after = meta.get("continue") or ""
            if not after:
                return found, version

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        kind: str = "application/json",
    ) -> Json:
        answer = self._exchange(method, path, query, body, kind)
        return self._checked(method, path, answer)

    def _checked(self, method: str, path: str, answer: Answer) -> Json:
        """The object of a reply. A 403 is ours to mend, and not the job's fault, where a right lacks."""
        try:
            return _read(answer, is_write=method != "GET")
        except BackendRejectedError as error:
            if answer.status == 403 and path != REVIEWS and self._lacks(method, path):
                raise BackendUnavailableError(error.words, code=FORBIDDEN) from error
            raise

    def _lacks(self, method: str, path: str) -> bool:
        """Whether the server says that this account may not do that."""
        needed = right_of(method, path)
        try:
            return needed is not None and not self.may(*needed)
        except BackendError:  # nobody can tell now: the next try will
            return True

    def _exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        kind: str,
    ) -> Answer:
        headers = {"Accept": "application/json, */*"}
        if self._credentials.token:
            headers["Authorization"] = f"Bearer {self._credentials.token}"
        content = None
        if body is not None:
            headers["Content-Type"] = kind
            content = json.dumps(body, separators=(",", ":")).encode()
        target = f"{path}?{urlencode(query)}" if query else path
        is_write = method != "GET"
        try:
            with self.connection.gate.passage():
                request = Request(method, target, headers, content)
                answer = self._wire.exchange(request, self.timeout_s)
        except GateShutError:
            words = "not called: it did not answer another call"
            raise BackendUnavailableError(words, code="held_back") from None
        except WireError as error:
            raise lost(str(error), was_sent=error.was_sent, is_write=is_write) from error
        self.date_ms = _date_ms(answer)
        return answer


def _event(line: bytes) -> tuple[str, Json]:
    try:
        event = _DECODE.decode(line)
        kind, thing = event["type"], event["object"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        words = "a watch told what is no event"
        raise BackendUnavailableError(words, code="unreadable") from error
    return str(kind), thing


def path_of(group: str, kind: str, namespace: str = "", name: str = "") -> str:
    """The path of a kind (`apis/batch.volcano.sh/v1alpha1`, `jobs`) or of one object of it."""
    where = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"/{group}{where}/{kind}" + (f"/{quote(name, safe='')}" if name else "")


def _date_ms(answer: Answer) -> int | None:
    parsed = parsedate_tz(answer.headers.get("date", ""))
    return None if parsed is None else mktime_tz(parsed) * 1000


def _read(answer: Answer, *, is_write: bool) -> Json:
    """The object of a reply.

    Raises:
        BackendError: it is a refusal, or no object: then nobody knows what became of a write.
    """
    try:
        body = _DECODE.decode(answer.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = None
    if answer.status >= 400:
        raise error_of(
            refusal(answer.status, body, answer.headers.get("retry-after")), is_write=is_write
        )
    if isinstance(body, dict):
        return body
    words = f"HTTP {answer.status} without an object of JSON"
    if is_write:
        raise BackendAmbiguousError(words, code="unreadable")
    raise BackendUnavailableError(words, code="unreadable")
