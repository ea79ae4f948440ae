"""What a job needs of each node, and whether a node can ever give it or has it free now."""

from simulator.config import Cluster
from simulator.engine.constraints import parse_constraint
from simulator.engine.model import Demand, Node, Request, Share, World
from simulator.hostlist import expand


def task_count(request: Request) -> int:
    """Tasks of the whole job: as asked, or one a node."""
    if request.tasks_per_node:
        return request.tasks_per_node * request.nodes_min
    return request.tasks or request.nodes_min


def cpus_asked_per_node(request: Request) -> int:
    """CPUs a node before rounding to whole cores."""
    per_node = request.tasks_per_node or -(-task_count(request) // request.nodes_min)
    return per_node * (request.cpus_per_task or 1)


def demand_of(request: Request, config: Cluster) -> Demand:
    """What the request needs of each node. CPUs come in whole cores (all threads of a core)."""
    asked = cpus_asked_per_node(request)
    cpus = -(-asked // config.threads) * config.threads
    memory = request.memory_per_node_mb
    if request.exclusive:
        cpus = max(cpus, config.cpus)
    if memory is None:
        memory = cpus * (request.memory_per_cpu_mb or config.memory_per_cpu_mb)
    return Demand(
        nodes=request.nodes_min,
        gpus=request.gpus_per_node,
        cpus=cpus,
        memory_mb=memory,
        exclusive=request.exclusive,
        constraint=parse_constraint(request.constraints),
    )


def able_nodes(world: World, partition: str, demand: Demand) -> dict[str, Node]:
    """The nodes of a partition that could each hold their part of the job if they were empty."""
    key = (partition, demand)
    if key not in world.able:
        chosen = next(p for p in world.config.partitions if p.name == partition)
        names = expand(chosen.nodes) if chosen.nodes else list(world.nodes)
        nodes = [world.nodes[name] for name in names]
        world.able[key] = {node.name: node for node in nodes if _could_hold(node, demand)}
    return world.able[key]


def _could_hold(node: Node, demand: Demand) -> bool:
    return (
        len(node.owners) >= demand.gpus
        and node.cpus >= demand.cpus
        and node.memory_mb >= demand.memory_mb
        and demand.constraint.allows(node.features)
    )


def has_free(node: Node, demand: Demand) -> bool:
    """Has the node its part of the job free right now?"""
    return (
        node.available
        and node.exclusive_by == 0
        and not (demand.exclusive and node.jobs)
        and node.owners.count(0) >= demand.gpus
        and node.cpus - node.cpus_used >= demand.cpus
        and node.memory_mb - node.memory_used_mb >= demand.memory_mb
    )


def share_of(node: Node, demand: Demand) -> Share:
    """The part of the node the job gets: its lowest free GPUs; an exclusive job gets all CPUs."""
    free = [index for index, owner in enumerate(node.owners) if owner == 0]
    return Share(tuple(free[: demand.gpus]), demand.cpus, demand.memory_mb)
