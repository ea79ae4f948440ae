"""Volcano played inside a real API server: the simulator's controllers and scheduler over HTTP.

What is there is followed in a store of its own, list by list; what the controllers want is sent to
the server, and seen again as the server has it. Kubelets, garbage collection and the life of nodes
and namespaces are the real server's own, and whoever plays kubelets there.
"""

from collections.abc import Iterable
from threading import Event, Thread

import httpx

from simulator.config import Cluster, Volcano
from simulator.kubernetes.errors import ApiError, Json
from simulator.kubernetes.objects import instant, key_of
from simulator.kubernetes.resources import BY_PLURAL, Resource
from simulator.kubernetes.store import Change
from simulator.volcano import kubelets
from simulator.volcano.applying import event_of
from simulator.volcano.cluster import VolcanoCluster
from simulator.volcano.queues import defaulted
from simulator.volcano.topology import counted
from simulator.volcano.webhooks import defaulted_job
from simulator.volcano.writes import Bind, Create, Delete, Merge, Note, Status, Write

# Nodes first: what is bound to one is looked at when its node is known.
FOLLOWED = (
    "nodes", "priorityclasses", "queues", "hypernodes", "configmaps", "services",
    "networkpolicies", "jobs", "podgroups", "pods", "commands",
)  # fmt: skip
_MERGE = {"Content-Type": "application/merge-patch+json"}


class Player(VolcanoCluster):
    """Plays Volcano for the server that the client speaks to, as who the client is there."""

    def __init__(self, client: httpx.Client, *, period_ms: int = 200) -> None:
        """Look at what is there."""
        self._client = client
        volcano = Volcano(schedule_period_ms=period_ms)
        super().__init__(Cluster(name="played", kind="volcano", volcano=volcano))

    def play(self, stop: Event, *, every_s: float = 0.1) -> None:
        """Go on until told to stop. A server that is away is waited for."""
        while not stop.wait(every_s):
            try:
                self.look()
                self.now_ms()
            except (httpx.HTTPError, ApiError):
                continue

    def in_background(self, stop: Event) -> Thread:
        """The thread that plays until told to stop."""
        thread = Thread(target=self.play, args=(stop,), daemon=True)
        thread.start()
        return thread

    def look(self) -> None:
        """Follow the server: what is new, what is other, what is gone."""
        for plural in FOLLOWED:
            resource = BY_PLURAL[plural]
            there = {key_of(thing): thing for thing in self._list(resource)}
            for key, known in list(self.store.items[resource].items()):
                new = there.get(key)
                if new is None or new["metadata"]["uid"] != known["metadata"]["uid"]:
                    self.store.mirror(resource, key, None)
            for key, thing in there.items():
                self.store.mirror(resource, key, thing)

    def _list(self, resource: Resource) -> Iterable[Json]:
        answer = self._client.get(f"/{_root(resource)}/{resource.plural}")
        answer.raise_for_status()
        for thing in answer.json()["items"]:
            yield self._as_seen(
                resource, {"apiVersion": resource.api_version, "kind": resource.kind, **thing}
            )

    def _as_seen(self, resource: Resource, thing: Json) -> Json:
        """With Volcano's defaults, which the server lets it fill in only where it has a webhook."""
        return defaulted_job(thing) if resource.plural == "jobs" else thing

    def _furnish(self, now_ms: int) -> None:
        self.look()

    def _collected(self) -> bool:
        return False

    def _welcome(self, plural: str, thing: Json) -> list[Write]:
        known = self.store.items[BY_PLURAL[plural]].get(key_of(thing))
        if known is None or plural == "nodes":
            return []
        if plural == "queues":
            return defaulted(known)
        return counted(known, list(self.store.all(BY_PLURAL["nodes"])))

    def _hear_node(self, change: Change) -> None:
        """The server's own controllers look after nodes."""

    def _plan(self, pod: Json) -> None:
        """Whoever plays kubelets there has pods run and end."""

    def _apply(self, writes: list[Write]) -> list[ApiError]:
        """Send the writes; the refusals of what should have been made."""
        refused = []
        for write in writes:
            answer = self._send(write)
            if answer.is_success:
                self._take(write, answer.json())
            elif isinstance(write, Create) and answer.status_code not in (404, 409):
                told = answer.json()
                refused.append(
                    ApiError(
                        answer.status_code, told.get("reason", ""), told.get("message", ""),
                        details=told.get("details", {}),
                    )
                )  # fmt: skip
        return refused

    def _take(self, write: Write, told: Json) -> None:
        """See at once what was written, as the server answered it."""
        if isinstance(write, (Bind, Note)):
            return
        resource = BY_PLURAL[write.resource]
        if told.get("kind") != resource.kind:  # of a delete that was carried out at once
            if isinstance(write, Delete):
                self.store.mirror(resource, (write.namespace, write.name), None)
            return
        self.store.mirror(resource, key_of(told), self._as_seen(resource, told))

    def _send(self, write: Write) -> httpx.Response:
        client = self._client
        match write:
            case Create(plural, thing):
                namespace = thing["metadata"].get("namespace", "")
                made = kubelets.steered(thing) if plural == "pods" else thing
                return client.post(_path(plural, namespace), json=_whole(plural, made))
            case Status(plural, namespace, name, status):
                known = self.store.find(BY_PLURAL[plural], namespace, name)
                path = f"{_path(plural, namespace, name)}/status"
                return client.put(path, json={**(known or {}), "status": status})
            case Merge(plural, namespace, name, patch):
                return client.patch(_path(plural, namespace, name), json=patch, headers=_MERGE)
            case Delete(plural, namespace, name, uid, grace_s):
                wish: Json = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
                if grace_s is not None:
                    wish["gracePeriodSeconds"] = grace_s
                return client.request("DELETE", _path(plural, namespace, name), json=wish)
            case Bind(namespace, name, node):
                body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
                whole = {"apiVersion": "v1", "kind": "Binding", **body}
                return client.post(f"{_path('pods', namespace, name)}/binding", json=whole)
            case Note():
                event = event_of(write, instant(self._at_ms))
                return client.post(_path("events", event["metadata"]["namespace"]), json=event)


def _root(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _path(plural: str, namespace: str = "", name: str = "") -> str:
    resource = BY_PLURAL[plural]
    within = f"/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{_root(resource)}{within}/{plural}" + (f"/{name}" if name else "")


def _whole(plural: str, thing: Json) -> Json:
    resource = BY_PLURAL[plural]
    return {"apiVersion": resource.api_version, "kind": resource.kind, **thing}
