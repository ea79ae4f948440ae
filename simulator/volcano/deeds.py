"""The side door of a Volcano cluster: what can happen to it besides calls of its API."""

from simulator.deeds.common import Deed, Json, bounded
from simulator.deeds.wire import add_fault
from simulator.hostlist import expand
from simulator.kubernetes.access import Person
from simulator.kubernetes.objects import with_meta
from simulator.kubernetes.patches import merge
from simulator.kubernetes.pods import with_condition
from simulator.kubernetes.resources import BY_PLURAL
from simulator.volcano.cluster import VolcanoCluster
from simulator.volcano.kubelets import SILENT

_NODES = BY_PLURAL["nodes"]


def state(cluster: VolcanoCluster) -> Json:
    """Time, switches, faults in force, and how many objects there are."""
    now_ms = cluster.now_ms()
    return {
        "cluster": cluster.config.name,
        "now_ms": now_ms,
        "paused": cluster.paused,
        "controllers_down": cluster.faults.controller_down,
        "revision": cluster.store.revision,
        "objects": {r.plural: len(things) for r, things in cluster.store.items.items()},
        "faults": [vars(fault) for fault in cluster.faults.faults],
    }


def advance(cluster: VolcanoCluster, *, ms: int) -> Json:
    """Let a manual clock go on by `ms`."""
    return {"now_ms": cluster.advance_ms(ms)}


def clear_faults(cluster: VolcanoCluster) -> Json:
    """No faults on the wire, all parts up."""
    cluster.faults.clear()
    return state(cluster)


def refuse(cluster: VolcanoCluster, *, ms: int) -> Json:
    """Nobody listens for `ms`: open connections end, new ones are refused."""
    cluster.faults.refuse(cluster.now_ms(), bounded("ms", ms, 1, 600_000))
    return state(cluster)


def restart(cluster: VolcanoCluster) -> Json:
    """The API server starts anew: watches end, every earlier version is too old (410)."""
    cluster.now_ms()
    cluster.store.forget_changes()
    cluster.scissors.cut(abrupt=False)
    return state(cluster)


def cut_watches(cluster: VolcanoCluster, *, abrupt: bool = False) -> Json:
    """All open watches end, without a word or (`abrupt`) with their connections."""
    cluster.scissors.cut(abrupt=abrupt)
    return state(cluster)


def pause(cluster: VolcanoCluster) -> Json:
    """The scheduler is down."""
    cluster.now_ms()
    cluster.paused = True
    return state(cluster)


def resume(cluster: VolcanoCluster) -> Json:
    """The scheduler is up."""
    cluster.now_ms()
    cluster.paused = False
    return state(cluster)


def silence(cluster: VolcanoCluster, *, nodes: str) -> Json:
    """The kubelets of these nodes (a hostlist) fall silent: nothing starts, ends or goes there."""
    now_ms = cluster.now_ms()
    for name in expand(nodes):
        node = cluster.store.get(_NODES, ("", name))
        notes = {**(node["metadata"].get("annotations") or {}), SILENT: str(now_ms)}
        cluster.store.update(_NODES, with_meta(node, annotations=notes))
    cluster.settle()
    return state(cluster)


def speak(cluster: VolcanoCluster, *, nodes: str) -> Json:
    """These kubelets are back, and their nodes Ready."""
    now_ms = cluster.now_ms()
    for name in expand(nodes):
        node = merge(
            cluster.store.get(_NODES, ("", name)), {"metadata": {"annotations": {SILENT: None}}}
        )
        told = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        conditions = with_condition(node["status"], told, now_ms)
        node["status"] = {**node["status"], "conditions": conditions}
        cluster.store.update(_NODES, node)
    cluster.settle()
    return state(cluster)


def revoke(cluster: VolcanoCluster, *, token: str) -> Json:
    """A token is good no more (401)."""
    cluster.gate.people.pop(token, None)
    return state(cluster)


def grant(cluster: VolcanoCluster, *, token: str, user: str, seconds: int = 0) -> Json:
    """Another token with all the rights of a user's first one, for `seconds` (0: for ever)."""
    rights = [p.rights for p in cluster.gate.people.values() if p.user == user]
    if not rights:
        raise ValueError(f"user: nobody is called {user}")
    expires_ms = cluster.now_ms() + seconds * 1000 if seconds else 0
    cluster.gate.people[token] = Person(user, rights[0], expires_ms)
    return state(cluster)


def reset(cluster: VolcanoCluster) -> Json:
    """A new cluster under the old name: everything is forgotten."""
    cluster.reset()
    return state(cluster)


DEEDS: dict[str, Deed] = {
    "api/restart": restart,
    "clock/advance": advance,
    "faults/add": add_fault,
    "faults/clear": clear_faults,
    "nodes/silent": silence,
    "nodes/speak": speak,
    "reset": reset,
    "scheduling/pause": pause,
    "scheduling/resume": resume,
    "tokens/grant": grant,
    "tokens/revoke": revoke,
    "watches/cut": cut_watches,
    "wire/refuse": refuse,
}
