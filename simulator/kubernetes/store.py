"""Objects in memory, their versions, and what changed: what etcd and the watch cache keep."""

import bisect
import hashlib
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from simulator.kubernetes import errors
from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import Key, instant, is_going, key_of, with_meta
from simulator.kubernetes.resources import Resource

KEPT_CHANGES = 100_000
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class Change:
    """One write: ADDED, MODIFIED or DELETED, the object before and after (deleted: as it went)."""

    revision: int
    type: str
    resource: Resource
    old: Json | None
    new: Json


Hearer = Callable[[Change], None]


@dataclass
class Store:
    """All objects by resource and key. `oldest`: changes up to it are forgotten (410)."""

    seed: int = 1
    revision: int = 1
    oldest: int = 0
    kept: int = KEPT_CHANGES
    items: dict[Resource, dict[Key, Json]] = field(default_factory=lambda: defaultdict(dict))
    changes: dict[Resource, deque[Change]] = field(default_factory=lambda: defaultdict(deque))
    owned: dict[str, dict[tuple[Resource, Key], None]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    going: dict[tuple[Resource, Key], None] = field(default_factory=dict)
    hearers: list[Hearer] = field(default_factory=list)

    def get(self, resource: Resource, key: Key) -> Json:
        """The object; 404 if it is not there."""
        found = self.items[resource].get(key)
        if found is None:
            raise errors.not_found(resource, key[1])
        return found

    def find(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """The object, None if it is not there."""
        return self.items[resource].get((namespace, name))

    def all(self, resource: Resource, namespace: str = "") -> Iterator[Json]:
        """All objects of a resource, those of one namespace if it is named."""
        for key, thing in self.items[resource].items():
            if not namespace or key[0] == namespace:
                yield thing

    def dependents(self, uid: str) -> list[tuple[Resource, Key]]:
        """What names this uid as an owner."""
        return list(self.owned.get(uid, ()))

    def create(self, resource: Resource, thing: Json, now_ms: int) -> Json:
        """Keep a new object, given its identity; 409 if the name is in use."""
        made = self.named(resource, thing, now_ms)
        known = self.items[resource].get(key_of(made))
        if known is not None:
            raise errors.already_exists(resource, key_of(made)[1], going=is_going(known))
        return self._put(resource, None, made)

    def named(self, resource: Resource, thing: Json, now_ms: int) -> Json:
        """The object with the name, uid and time that a create would give it."""
        meta = thing["metadata"]
        identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.seed}/{self.revision}/{meta}")
        name = meta.get("name") or meta["generateName"] + _suffix(str(identity))
        return with_meta(
            {"apiVersion": resource.api_version, "kind": resource.kind, **thing},
            name=name,
            namespace=meta.get("namespace") if resource.namespaced else None,
            uid=str(identity),
            creationTimestamp=instant(now_ms),
            generation=1,
            resourceVersion=None,
            deletionTimestamp=None,
            deletionGracePeriodSeconds=None,
        )

    def update(self, resource: Resource, thing: Json) -> Json:
        """Keep another state of an object; nothing happens if it is the same. 404 if it is gone."""
        old = self.get(resource, key_of(thing))
        if thing == old:
            return old
        if thing.get("spec") != old.get("spec"):
            thing = with_meta(thing, generation=old["metadata"].get("generation", 0) + 1)
        return self._put(resource, old, thing)

    def restore(self, resource: Resource, thing: Json) -> None:
        """Have an object again as it was saved; nobody hears of it."""
        self.items[resource][key_of(thing)] = thing
        self._index(resource, None, thing)

    def mirror(self, resource: Resource, key: Key, thing: Json | None) -> None:
        """Follow another server: an object is there as it says, or (None) is not."""
        old = self.items[resource].get(key)
        if old == thing:
            return
        self.revision += 1
        self._index(resource, old, thing)
        if thing is None:
            self._tell(
                Change(self.revision, "DELETED", resource, old, self.items[resource].pop(key))
            )
            return
        self.items[resource][key] = thing
        self._tell(Change(self.revision, "MODIFIED" if old else "ADDED", resource, old, thing))

    def remove(self, resource: Resource, key: Key) -> None:
        """Forget an object. Nothing happens if it is gone."""
        old = self.items[resource].pop(key, None)
        if old is None:
            return
        self.revision += 1
        self._index(resource, old, None)
        last = with_meta(old, resourceVersion=str(self.revision))
        self._tell(Change(self.revision, "DELETED", resource, old, last))

    def since(self, resource: Resource, revision: int) -> list[Change]:
        """The changes after a revision, in order; 410 if some of them are forgotten."""
        if revision < self.oldest:
            raise errors.too_old(revision, self.revision)
        changes = self.changes[resource]
        start = bisect.bisect_right(changes, revision, key=lambda change: change.revision)
        return [changes[index] for index in range(start, len(changes))]

    def as_of(self, resource: Resource, revision: int) -> dict[Key, Json]:
        """The objects as they were at a revision; 410 if it is forgotten."""
        things = dict(self.items[resource])
        for change in reversed(self.since(resource, revision)):
            if change.old is None:
                things.pop(key_of(change.new), None)
            else:
                things[key_of(change.new)] = change.old
        return things

    def forget_changes(self) -> None:
        """All earlier versions are too old from now on, as after a restart of the server."""
        self.revision += 1
        self.oldest = self.revision
        self.changes.clear()

    def _put(self, resource: Resource, old: Json | None, thing: Json) -> Json:
        self.revision += 1
        kept = with_meta(thing, resourceVersion=str(self.revision))
        self.items[resource][key_of(kept)] = kept
        self._index(resource, old, kept)
        self._tell(Change(self.revision, "MODIFIED" if old else "ADDED", resource, old, kept))
        return kept

    def _index(self, resource: Resource, old: Json | None, new: Json | None) -> None:
        place = (resource, key_of(new or old or {}))
        for uid in _owners(old):
            self.owned[uid].pop(place, None)
        for uid in _owners(new):
            self.owned[uid][place] = None
        self.going.pop(place, None)
        if new is not None and is_going(new):
            self.going[place] = None

    def _tell(self, change: Change) -> None:
        changes = self.changes[change.resource]
        changes.append(change)
        if len(changes) > self.kept:
            self.oldest = max(self.oldest, changes.popleft().revision)
        for hear in self.hearers:
            hear(change)


def _owners(thing: Json | None) -> list[str]:
    references: list[Any] = thing["metadata"].get("ownerReferences") or [] if thing else []
    return [reference["uid"] for reference in references]


def _suffix(text: str) -> str:
    """Five characters, as the server gives to generated names."""
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:5])
