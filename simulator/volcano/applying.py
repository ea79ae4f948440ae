"""Writes carried out on the API in the process; a write that comes too late is let go."""

import hashlib

from simulator.kubernetes import patches
from simulator.kubernetes.deletion import Wish, delete
from simulator.kubernetes.errors import ApiError, Json
from simulator.kubernetes.objects import instant, key_of
from simulator.kubernetes.pods import bound
from simulator.kubernetes.resources import BY_PLURAL
from simulator.kubernetes.store import Store
from simulator.kubernetes.verbs import Api
from simulator.volcano.writes import Bind, Create, Delete, Merge, Note, Status, Write


def apply(api: Api, write: Write, now_ms: int) -> ApiError | None:
    """Carry out one write; the error if the server refuses what it should make."""
    store = api.store
    try:
        match write:
            case Create(resource, thing):
                api.make(thing, resource, now_ms)
            case Status(resource, namespace, name, status):
                _put(store, resource, namespace, name, {"status": status})
            case Merge(resource, namespace, name, patch):
                old = store.get(BY_PLURAL[resource], (namespace, name))
                store.update(BY_PLURAL[resource], patches.merge(old, patch))
            case Delete(resource, namespace, name, uid, grace_s):
                wish = Wish(grace_s, uid)
                delete(store, BY_PLURAL[resource], (namespace, name), wish, now_ms)
            case Bind(namespace, name, node):
                bound(store, namespace, name, node, now_ms)
            case Note():
                _tell(store, write, now_ms)
    except ApiError as error:
        # What is gone or another meanwhile is seen again in the next pass.
        return error if isinstance(write, Create) and error.code not in {404, 409} else None
    return None


def _put(store: Store, plural: str, namespace: str, name: str, part: Json) -> None:
    resource = BY_PLURAL[plural]
    store.update(resource, {**store.get(resource, (namespace, name)), **part})


def _tell(store: Store, note: Note, now_ms: int) -> None:
    """An Event, or one more of an Event of the same words."""
    events, event = BY_PLURAL["events"], event_of(note, instant(now_ms))
    known = store.find(events, *key_of(event))
    if known is None:
        store.create(events, event, now_ms)
        return
    told = {"count": known["count"] + 1, "lastTimestamp": event["lastTimestamp"]}
    store.update(events, {**known, **told})


def event_of(note: Note, moment: str) -> Json:
    """The Event; those of the same words about the same object have one name."""
    meta = note.about["metadata"]
    namespace = meta.get("namespace", "default")
    words = f"{meta['uid']}/{note.type}/{note.reason}/{note.message}"
    name = f"{meta['name']}.{hashlib.sha256(words.encode()).hexdigest()[:16]}"
    about = {
        "kind": note.about["kind"],
        "apiVersion": note.about["apiVersion"],
        "name": meta["name"],
        "uid": meta["uid"],
        "resourceVersion": meta.get("resourceVersion", ""),
    }
    return {
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {**about, "namespace": namespace} if meta.get("namespace") else about,
        "type": note.type,
        "reason": note.reason,
        "message": note.message,
        "count": 1,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "source": {"component": "volcano"},
    }
