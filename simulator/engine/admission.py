"""What Slurm checks when a job is submitted, with its own error numbers (EnforcePartLimits=ALL)."""

from dataclasses import replace

from simulator.config import Partition
from simulator.engine.constraints import parse_constraint
from simulator.engine.demand import able_nodes, demand_of
from simulator.engine.dependencies import is_dependency
from simulator.engine.model import RefusedError, Request, World

INVALID_PARTITION = 2000
NODE_COUNT = 2006
SCRIPT_MISSING = 2009
NODE_CONFIGURATION = 2014
INVALID_NODE = 2018
DEPENDENCY = 2038
INVALID_ACCOUNT = 2045
TIME_LIMIT = 2051
INVALID_QOS = 2066
INVALID_FEATURE = 2029
INVALID_NICE = 2123


def admit(world: World, request: Request) -> tuple[Request, int]:
    """The request with defaults filled in, and its association id; RefusedError if Slurm would."""
    if not request.script:
        raise RefusedError(SCRIPT_MISSING)
    partition = _partition(world, request)
    account, association = _association(world, request)
    qos = request.qos or next(iter(world.config.qos), "normal")
    if qos not in {*world.config.qos, "normal"}:
        raise RefusedError(INVALID_QOS)
    limit = request.time_limit or partition.default_minutes or partition.max_minutes
    filled = replace(request, partition=partition.name, account=account, qos=qos, time_limit=limit)
    if (request.nice or 0) < 0 and request.user not in world.config.admins:
        raise RefusedError(INVALID_NICE)
    if not 0 < limit <= partition.max_minutes:
        raise RefusedError(TIME_LIMIT)
    _check_nodes(world, filled)
    return filled, association


def _partition(world: World, request: Request) -> Partition:
    partitions = world.config.partitions
    default = next((p for p in partitions if p.default), partitions[0])
    chosen = next((p for p in partitions if p.name == request.partition), None)
    if request.partition and chosen is None:
        raise RefusedError(INVALID_PARTITION)
    return chosen or default


def associations(world: World) -> list[tuple[int, str, str]]:
    """(id, account, user) of everybody who may run jobs, foreign users included."""
    pairs = [(account, user.name) for user in world.config.users for account in user.accounts]
    pairs += [(world.config.accounts[0], a) for a in world.config.admins if world.config.accounts]
    if world.config.foreign is not None:
        pairs += [(world.config.foreign.account, user) for user in world.config.foreign.users]
    pairs += world.guests
    return [(i + 2, account, user) for i, (account, user) in enumerate(dict.fromkeys(pairs))]


def _association(world: World, request: Request) -> tuple[str, int]:
    """Account and association id: the named account, or the user's first."""
    for number, account, user in associations(world):
        if user == request.user and request.account in {"", account}:
            return account, number
    raise RefusedError(INVALID_ACCOUNT)


def _check_nodes(world: World, request: Request) -> None:
    """Could the job ever run here? Counts, names, features and sizes."""
    named = set(request.required_nodes)
    if not all(name in world.nodes for name in (*named, *request.excluded_nodes)):
        raise RefusedError(INVALID_NODE)
    most = max(request.nodes_max, request.nodes_min)
    if not 0 < request.nodes_min <= len(world.nodes) or len(named) > most:
        raise RefusedError(NODE_COUNT)
    if not is_dependency(request.dependency):
        raise RefusedError(DEPENDENCY)
    _check_features(world, request.constraints)
    if not request.hold and not fits(world, request):
        raise RefusedError(NODE_CONFIGURATION)


def fits(world: World, request: Request) -> bool:
    """Could the cluster's nodes, all empty, take the job? Of a held job Slurm asks it on release."""
    demand = demand_of(request, world.config)
    able = able_nodes(world, request.partition, demand)
    if request.gpu_type not in {"", world.config.gpu_type}:
        return False
    left = [node for name, node in able.items() if name not in request.excluded_nodes]
    blocks = [[n for n in left if name in n.features] for name in demand.constraint.same]
    named_are_able = all(name in able for name in request.required_nodes)
    return named_are_able and max(map(len, blocks or [left])) >= demand.nodes


def _check_features(world: World, text: str) -> None:
    try:
        names = parse_constraint(text).names
    except ValueError as error:
        raise RefusedError(INVALID_FEATURE) from error
    nodes = world.nodes.values()
    if not all(any(name in node.features for node in nodes) for name in names):
        raise RefusedError(INVALID_FEATURE)
