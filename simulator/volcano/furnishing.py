"""What a fresh cluster has: nodes, HyperNodes, queues, namespaces, tokens."""

from simulator.config import Cluster
from simulator.kubernetes.access import Gate, Person, Right
from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import instant


def things(config: Cluster, now_ms: int) -> list[tuple[str, Json]]:
    """All objects of a fresh cluster, by plural."""
    volcano = config.volcano
    found: list[tuple[str, Json]] = [
        ("namespaces", _named(name)) for name in ("default", *volcano.namespaces)
    ]
    found += [("nodes", node) for node in _nodes(config, now_ms)]
    found += [("hypernodes", hypernode) for hypernode in _hypernodes(config)]
    found += [("queues", queue) for queue in _queues(config)]
    found += [
        ("priorityclasses", {**_named(name), "value": value})
        for name, value in volcano.priority_classes.items()
    ]
    return found


def gate(config: Cluster) -> Gate:
    """The tokens that the configuration names."""
    return Gate(
        {
            token.token: Person(token.user, tuple(_right(row) for row in token.rights))
            for token in config.volcano.tokens
        }
    )


def _right(row: list[str]) -> Right:
    """`[group, resource, verb]`, with a namespace where it is a Role's."""
    return Right(*row)


def _named(name: str, **more: Json) -> Json:
    return {"metadata": {"name": name}, **more}


def node_names(config: Cluster) -> list[str]:
    """The nodes in order: `volc-n000`."""
    width = max(3, len(str(config.nodes - 1)))
    return [f"{config.prefix}{index:0{width}d}" for index in range(config.nodes)]


def _nodes(config: Cluster, now_ms: int) -> list[Json]:
    has = {
        "cpu": str(config.cpus),
        "memory": f"{config.memory_mb}Mi",
        "pods": "110",
        config.volcano.gpu_resource: str(config.gpus_per_node),
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": instant(now_ms),
        "lastTransitionTime": instant(now_ms),
    }
    status = {
        "capacity": has,
        "allocatable": has,
        "conditions": [ready],
        "nodeInfo": {"kubeletVersion": "v1.36.1", "architecture": "amd64"},
    }
    product = {"nvidia.com/gpu.product": config.gpu_type, "nvidia.com/gpu.present": "true"}
    return [
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **product}},
            "spec": {},
            "status": status,
        }
        for name in node_names(config)
    ]


def _hypernodes(config: Cluster) -> list[Json]:
    """A HyperNode for each block; lowest tier is 1, higher ones hold those below by name."""
    names = node_names(config)
    below = [(name, index, 1) for index, name in enumerate(names)]
    found: list[Json] = []
    for level, tier in enumerate(config.tiers, 1):
        blocks: dict[int, list[tuple[str, int, int]]] = {}
        for member in below:
            blocks.setdefault(_block(tier.nodes, member[1]), []).append(member)
        kind = "Node" if level == 1 else "HyperNode"
        below = []
        for number, members in blocks.items():
            name = f"{tier.name}{number:0{tier.digits}d}"
            below.append((name, members[0][1], len(members)))
            chosen = [
                {"type": kind, "selector": {"exactMatch": {"name": member[0]}}}
                for member in members
            ]
            spec = {"tier": level, "tierName": tier.name, "members": chosen}
            found.append(_named(name, spec=spec))
    return found


def _block(sizes: int | list[int], index: int) -> int:
    if isinstance(sizes, int):
        return index // sizes
    for number, size in enumerate(sizes):
        if index < size:
            return number
        index -= size
    return len(sizes) + index // sizes[-1]


def _queues(config: Cluster) -> list[Json]:
    found = [_named("root", spec={"weight": 1, "reclaimable": False})]
    found.append(_named("default", spec={"weight": 1, "parent": "root", "reclaimable": True}))
    for queue in config.volcano.queues:
        spec: Json = {"weight": 1, "parent": queue.parent, "reclaimable": queue.reclaimable}
        for name in ("capability", "deserved"):
            if getattr(queue, name):
                spec[name] = dict(getattr(queue, name))
        found.append(_named(queue.name, spec=spec))
    return found
