"""One call of the API after its path is read, and the answers it can get."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.kubernetes.access import NOBODY, Person
from simulator.kubernetes.errors import ApiError, Json, bad_request
from simulator.kubernetes.resources import BY_PLURAL, Resource, find
from simulator.kubernetes.store import Store

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
TRUE = {"1", "t", "T", "true", "True", "TRUE"}


@dataclass(frozen=True)
class Target:
    """What a path names; a name is "" where it names a collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True)
class Call:
    """What a handler needs."""

    verb: str
    target: Target
    query: Mapping[str, str]
    body: bytes
    content_type: str
    now_ms: int
    person: Person = NOBODY

    @property
    def dry(self) -> bool:
        """Is nothing to be kept (`dryRun=All`)?"""
        return self.query.get("dryRun") == "All"

    def decoded(self) -> Any:
        """The body as JSON, None if there is none; 400 if it is no JSON."""
        if not self.body.strip():
            return None
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from None


@dataclass(frozen=True)
class Answer:
    """Status, text and headers of a reply; `stream` takes the place of the text in a watch."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    stream: AsyncIterator[bytes] | None = None


@dataclass(frozen=True)
class Review:
    """What an admission webhook is asked: the object to be, and as it was (None: none)."""

    verb: str
    resource: Resource
    subresource: str
    new: Json | None
    old: Json | None
    store: Store


Admission = Callable[[Review], Json | None]
"""Answers with the object to keep, maybe changed; ApiError refuses."""


def answer(body: Json, status: int = 200, **headers: str) -> Answer:
    """A reply in JSON."""
    return Answer(status, json.dumps(body, separators=(",", ":")), headers)


def refusal(error: ApiError) -> Answer:
    """A refusal as the reply it is."""
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s is not None else {}
    return Answer(error.code, json.dumps(error.body), headers)


def read_path(path: str) -> Target | None:
    """What a path names, None if it names no resource."""
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            return _target("", version, rest)
        case ["apis", group, version, *rest]:
            return _target(group, version, rest)
    return None


def _target(group: str, version: str, rest: list[str]) -> Target | None:
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and find(group, version, rest[2]) is not None:
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3:
        return None
    resource = find(group, version, rest[0])
    name, subresource = [*rest[1:], "", ""][:2]
    if resource is None or (name and resource.namespaced != bool(namespace)):
        return None
    if not _known(resource, subresource):
        return None
    return Target(resource, namespace, name, subresource)


_OF_PODS = {"binding", "eviction", "log"}


def _known(resource: Resource, subresource: str) -> bool:
    if not subresource or (subresource == "status" and resource.status):
        return True
    if subresource == "token":
        return resource == BY_PLURAL["serviceaccounts"]
    return resource == BY_PLURAL["pods"] and subresource in _OF_PODS


def verb_of(method: str, target: Target, query: Mapping[str, str]) -> str:
    """The verb that rights are about."""
    if method == "GET":
        if target.name:
            return "get"
        return "watch" if query.get("watch") in TRUE else "list"
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    return _VERBS.get(method, method.lower())
