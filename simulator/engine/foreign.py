"""Other people's jobs: a stream fixed by the seed that keeps some of the nodes busy."""

import random
from collections.abc import Sequence

from simulator.config import Foreign
from simulator.engine.admission import admit, associations
from simulator.engine.lifecycle import enqueue
from simulator.engine.model import Job, Request, World
from simulator.engine.scheduling import run_pass

FIRST = 1_000_000  # a priority above every QOS's


def uid_of(world: World, user: str) -> int:
    """The user's number; people we were not told about get one from their name."""
    known = {u.name: u.uid for u in world.config.users}
    if user == "root":
        return 0
    return known.get(user, 60_000 + sum(user.encode()) % 5_000)


def draw_foreign(world: World) -> None:
    """Submit foreign jobs until their share of the nodes is taken or queued for."""
    foreign = world.foreign
    if foreign is None:
        return
    wanted = len(world.nodes) * foreign.percent // 100
    taken = sum(
        job.demand.nodes
        for job in world.jobs.values()
        if job.request.foreign and (job.waiting or job.holds_nodes)
    )
    while taken < wanted:
        job = _draw(world, foreign, wanted - taken)
        taken += job.demand.nodes


def _draw(world: World, foreign: Foreign, most: int) -> Job:
    dice = random.Random(f"foreign:{world.config.seed}:{world.foreign_drawn}")  # noqa: S311
    world.foreign_drawn += 1
    nodes = min(most, dice.randint(foreign.nodes[0], foreign.nodes[1]))
    seconds = dice.randint(foreign.seconds[0], foreign.seconds[1])
    return submit_foreign(
        world,
        user=dice.choice(foreign.users),
        account=foreign.account,
        name=f"{foreign.name}-{world.foreign_drawn}",
        nodes=nodes,
        seconds=seconds,
    )


def take_nodes(world: World, names: Sequence[str], *, seconds: int) -> Job:
    """A foreign job that is ahead of everybody takes just these nodes, at once if they are free."""
    foreign = world.foreign or Foreign()
    job = submit_foreign(
        world,
        user=foreign.users[0],
        account=foreign.account,
        name=foreign.name,
        nodes=len(names),
        seconds=seconds,
        required=tuple(names),
        priority=FIRST,
    )
    if not world.paused:
        run_pass(world)
    return job


def _welcome(world: World, user: str, account: str) -> None:
    """Let somebody run jobs whom the configuration does not name, or not in this account."""
    known = {(a, u) for _, a, u in associations(world) if u == user and account in {"", a}}
    if not known:
        default = next(iter(world.config.accounts), Foreign().account)
        world.guests.append((account or default, user))


def submit_foreign(
    world: World,
    *,
    user: str,
    account: str,
    name: str,
    nodes: int,
    seconds: int,
    comment: str = "",
    hold: bool = False,
    required: tuple[str, ...] = (),
    priority: int | None = None,
) -> Job:
    """Queue one foreign job on whole nodes for so many seconds of job time, whoever it is of."""
    config = world.config
    _welcome(world, user, account)
    request = Request(
        user=user,
        uid=uid_of(world, user),
        name=name,
        account=account,
        partition="",
        qos="",
        script=f"#!/bin/sh\n# simulate: seconds={seconds}\n",
        nodes_min=nodes,
        nodes_max=nodes,
        gpus_per_node=config.gpus_per_node,
        gpu_type=config.gpu_type if config.gpus_per_node else "",
        gres=f"{config.gres}:{config.gpu_type}:{config.gpus_per_node}"
        if config.gpus_per_node
        else "",
        time_limit=seconds // 60 + 10,
        required_nodes=required,
        priority=priority,
        hold=hold,
        comment=comment,
        foreign=True,
    )
    filled, association = admit(world, request)
    return enqueue(world, filled, association)
