"""How objects go: grace, finalizers, and the garbage collector behind them."""

from dataclasses import dataclass

from simulator.kubernetes import errors
from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import Key, at, instant, is_going, key_of, with_meta
from simulator.kubernetes.resources import BY_PLURAL, Resource
from simulator.kubernetes.store import Store

_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
_PODS = BY_PLURAL["pods"]
_NAMESPACES = BY_PLURAL["namespaces"]
_NO_GRACE = {"Succeeded", "Failed"}


@dataclass(frozen=True)
class Wish:
    """The options of a DELETE: grace in seconds (None: the pod's own), uid and propagation."""

    grace_s: int | None = None
    uid: str = ""
    propagation: str = "Background"


def delete(store: Store, resource: Resource, key: Key, wish: Wish, now_ms: int) -> Json | None:
    """Begin to delete an object; what is left of it, None if it has gone. 404, 409."""
    thing = store.get(resource, key)
    uid = thing["metadata"]["uid"]
    if wish.uid and wish.uid != uid:
        raise errors.wrong_uid(resource, key[1], wish.uid, uid)
    grace_s = _grace(resource, thing, wish)
    finalizers = _finalizers(resource, thing, wish)
    if grace_s == 0 and not finalizers:
        store.remove(resource, key)
        _delete_dependents(store, uid, now_ms)
        return None
    return store.update(resource, _marked(thing, finalizers, grace_s, now_ms))


def _grace(resource: Resource, thing: Json, wish: Wish) -> int:
    """Only pods with a kubelet that runs something get grace; never more than before."""
    if resource != _PODS:
        return 0
    if not at(thing, "spec", "nodeName") or at(thing, "status", "phase") in _NO_GRACE:
        return 0
    own: int = at(thing, "spec", "terminationGracePeriodSeconds") or 0
    grace_s = own if wish.grace_s is None else wish.grace_s
    before = thing["metadata"].get("deletionGracePeriodSeconds")
    return grace_s if before is None else min(grace_s, before)


def _finalizers(resource: Resource, thing: Json, wish: Wish) -> list[str]:
    found = list(thing["metadata"].get("finalizers") or [])
    added = _FINALIZERS.get(wish.propagation)
    if resource == _NAMESPACES:
        added = "kubernetes"
    return found if added is None or added in found else [*found, added]


def _marked(thing: Json, finalizers: list[str], grace_s: int, now_ms: int) -> Json:
    before = thing["metadata"].get("deletionGracePeriodSeconds")
    if is_going(thing) and (before or 0) <= grace_s:
        return thing
    marked = with_meta(
        thing,
        deletionTimestamp=instant(now_ms + grace_s * 1000),
        deletionGracePeriodSeconds=grace_s,
        finalizers=finalizers or None,
    )
    if thing["kind"] == "Namespace":
        marked = {**marked, "status": {**marked.get("status", {}), "phase": "Terminating"}}
    return marked


def _delete_dependents(store: Store, uid: str, now_ms: int) -> None:
    for resource, key in store.dependents(uid):
        if store.items[resource].get(key) is not None:
            delete(store, resource, key, Wish(), now_ms)


def finalized(store: Store, resource: Resource, thing: Json) -> None:
    """Let an object go whose last finalizer has been taken away, unless a kubelet holds it."""
    meta = thing["metadata"]
    if is_going(thing) and not meta.get("finalizers") and not meta["deletionGracePeriodSeconds"]:
        store.remove(resource, key_of(thing))


def collect(store: Store, now_ms: int) -> bool:
    """One round of the garbage collector and the namespace controller; was there anything?"""
    before = store.revision
    for resource, key in list(store.going):
        thing = store.items[resource].get(key)
        finalizers = thing["metadata"].get("finalizers") or [] if thing else []
        if "orphan" in finalizers:
            _orphan(store, resource, key)
        elif "foregroundDeletion" in finalizers:
            _foreground(store, resource, key, now_ms)
        elif resource == _NAMESPACES and "kubernetes" in finalizers:
            _empty(store, key[1], now_ms)
    return store.revision != before


def _orphan(store: Store, resource: Resource, key: Key) -> None:
    thing = store.get(resource, key)
    uid = thing["metadata"]["uid"]
    for kind, dependent in store.dependents(uid):
        orphan = store.get(kind, dependent)
        references = [r for r in orphan["metadata"]["ownerReferences"] if r["uid"] != uid]
        store.update(kind, with_meta(orphan, ownerReferences=references or None))
    _release(store, resource, thing, "orphan")


def _foreground(store: Store, resource: Resource, key: Key, now_ms: int) -> None:
    thing = store.get(resource, key)
    uid = thing["metadata"]["uid"]
    for kind, dependent in store.dependents(uid):
        if not is_going(store.get(kind, dependent)):
            delete(store, kind, dependent, Wish(), now_ms)
    if not store.dependents(uid):
        _release(store, resource, thing, "foregroundDeletion")


def _empty(store: Store, namespace: str, now_ms: int) -> None:
    """A namespace goes when nothing is in it any more."""
    left = False
    for resource, things in list(store.items.items()):
        for key in [k for k in things if resource.namespaced and k[0] == namespace]:
            # What an owner took with it is gone by now.
            thing = things.get(key)
            if thing is not None and not is_going(thing):
                delete(store, resource, key, Wish(), now_ms)
            left = left or key in things
    if not left:
        thing = store.get(_NAMESPACES, ("", namespace))
        _release(store, _NAMESPACES, thing, "kubernetes")


def _release(store: Store, resource: Resource, thing: Json, finalizer: str) -> None:
    left = [name for name in thing["metadata"]["finalizers"] if name != finalizer]
    if left:
        store.update(resource, with_meta(thing, finalizers=left))
    else:
        store.remove(resource, key_of(thing))
