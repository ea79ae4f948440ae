"""What a controller asks of the API server: plain values, to be carried out by whoever drives it.

`resource` is the plural; no plural occurs twice among the resources that are written.
"""

from dataclasses import dataclass

from simulator.kubernetes.errors import Json


@dataclass(frozen=True)
class Create:
    """Make an object."""

    resource: str
    thing: Json


@dataclass(frozen=True)
class Status:
    """Put this status in place of an object's, through the status subresource."""

    resource: str
    namespace: str
    name: str
    status: Json


@dataclass(frozen=True)
class Merge:
    """A merge patch of the main resource."""

    resource: str
    namespace: str
    name: str
    patch: Json


@dataclass(frozen=True)
class Delete:
    """Delete an object, if it is still this one; `grace_s` None is the pod's own grace."""

    resource: str
    namespace: str
    name: str
    uid: str
    grace_s: int | None = None


@dataclass(frozen=True)
class Bind:
    """Put a pod on a node."""

    namespace: str
    name: str
    node: str


@dataclass(frozen=True)
class Note:
    """An Event about an object; the same words again only raise its count."""

    about: Json
    type: str
    reason: str
    message: str


Write = Create | Status | Merge | Delete | Bind | Note


def delete(resource: str, thing: Json, grace_s: int | None = None) -> Delete:
    """The write that deletes just this object."""
    meta = thing["metadata"]
    return Delete(resource, meta.get("namespace", ""), meta["name"], meta["uid"], grace_s)


def put_status(resource: str, thing: Json, status: Json) -> list[Write]:
    """The write of another status, none if it is the same."""
    if thing.get("status", {}) == status:
        return []
    meta = thing["metadata"]
    return [Status(resource, meta.get("namespace", ""), meta["name"], status)]


def owner(thing: Json) -> list[Json]:
    """The owner references of what belongs to an object."""
    meta = thing["metadata"]
    return [
        {
            "apiVersion": thing["apiVersion"],
            "kind": thing["kind"],
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
