"""Lists: selectors, pages of one moment, and versions that are too old or not there yet."""

import base64
import binascii
import json

from simulator.kubernetes import errors, selectors
from simulator.kubernetes.calls import Answer, Call
from simulator.kubernetes.errors import ApiError, Json
from simulator.kubernetes.objects import Key
from simulator.kubernetes.resources import Resource
from simulator.kubernetes.store import Store

_FIELDS: dict[str, tuple[str, ...]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
}
_MORE: dict[str, dict[str, tuple[str, ...]]] = {
    "pods": {
        "spec.nodeName": ("spec", "nodeName"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "status.phase": ("status", "phase"),
    },
    "events": {
        "involvedObject.name": ("involvedObject", "name"),
        "involvedObject.kind": ("involvedObject", "kind"),
        "involvedObject.uid": ("involvedObject", "uid"),
        "reason": ("reason",),
        "type": ("type",),
    },
    "nodes": {"spec.unschedulable": ("spec", "unschedulable")},
}


def chosen(call: Call) -> list[selectors.Matches]:
    """The call's selectors, and its namespace; ApiError if one cannot be read."""
    resource, namespace = call.target.resource, call.target.namespace
    allowed = _FIELDS | _MORE.get(resource.plural, {})
    found = selectors.labels(call.query.get("labelSelector", ""))
    found += selectors.fields(call.query.get("fieldSelector", ""), allowed)
    if namespace:
        found.append(lambda thing: thing["metadata"].get("namespace") == namespace)
    return found


def list_things(store: Store, call: Call) -> Answer:
    """The answer to a list."""
    resource = call.target.resource
    limit = _number(call.query.get("limit", "0"), "limit")
    token = call.query.get("continue", "")
    start: Key | None = None
    revision = _revision(store, call)
    if token:
        revision, start = _decode(token)
        if revision >= 0 and revision < store.oldest and revision != store.revision:
            raise errors.expired_list(_encode(-1, start))
    exact = token or call.query.get("resourceVersionMatch") == "Exact"
    revision = revision if exact and revision >= 0 else store.revision
    rows = _rows(store, call, revision, start)
    page = rows[:limit] if limit else rows
    metadata: Json = {"resourceVersion": str(revision), "continue": ""}
    if len(page) < len(rows):
        metadata["continue"] = _encode(revision, page[-1][0])
        if not call.query.get("labelSelector") and not call.query.get("fieldSelector"):
            metadata["remainingItemCount"] = len(rows) - len(page)
    return _answer(resource, metadata, [thing for _, thing in page])


def _rows(store: Store, call: Call, revision: int, start: Key | None) -> list[tuple[Key, Json]]:
    """What fits the selectors, in order of namespace and name, after the start."""
    resource, wanted = call.target.resource, chosen(call)
    now = revision == store.revision
    things = store.items[resource] if now else store.as_of(resource, revision)
    return sorted(
        (
            (key, thing)
            for key, thing in things.items()
            if (start is None or key > start) and all(fits(thing) for fits in wanted)
        ),
        key=lambda row: row[0],
    )


def _answer(resource: Resource, metadata: Json, things: list[Json]) -> Answer:
    if resource.built_in:
        things = [
            {k: v for k, v in thing.items() if k not in {"kind", "apiVersion"}} for thing in things
        ]
    body = {
        "apiVersion": resource.api_version,
        "items": things,
        "kind": f"{resource.kind}List",
        "metadata": metadata,
    }
    return Answer(200, json.dumps(body, separators=(",", ":")))


def _revision(store: Store, call: Call) -> int:
    """The version a list asks for; 504 if it is not there yet, 410 if it is forgotten."""
    text = call.query.get("resourceVersion", "")
    if text in {"", "0"}:
        return store.revision
    revision = read_version(text)
    if revision > store.revision:
        raise errors.too_large(revision, store.revision)
    if call.query.get("resourceVersionMatch") == "Exact" and revision < store.oldest:
        raise errors.too_old(revision, store.revision)
    return revision


def read_version(text: str) -> int:
    """A resourceVersion; as recorded, 500 without a reason if it is no number."""
    if not text.isdigit():
        raise ApiError(
            500,
            "",
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
            "invalid syntax",
        )
    return int(text)


def _number(text: str, name: str) -> int:
    if not text.isdigit():
        raise errors.bad_request(f'{name}: Invalid value: "{text}": not a number')
    return int(text)


def _encode(revision: int, key: Key) -> str:
    start = "/".join(part for part in key if part) + "\0"
    # A key without namespace is told from one with by the slash in front.
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start, "key": list(key)})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(token: str) -> tuple[int, Key]:
    try:
        data = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = data["key"]
        return int(data["rv"]), (str(namespace), str(name))
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise errors.bad_request(
            f"invalid continue token: continue key is not valid: {error}"
        ) from None
