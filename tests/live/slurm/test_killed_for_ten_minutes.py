"""Everything is killed at random under load, then quiet: runs, states and books agree.

MUSTER_KILL_SECONDS says for how long (120 when it is not set), MUSTER_KILL_SEED in which order;
`script/soak kills` sets both: 600 seconds are the full ten minutes.
"""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from clusters.models import Command
from federation.models import Attempt
from tests.live.slurm import servers
from tests.live.slurm.books import agree, cost_nano
from tests.live.slurm.federation import A100, H100, Muster
from tests.live.slurm.kills import Killer
from tests.load import Load
from tests.stack import eventually

pytestmark = pytest.mark.live
KILL_SECONDS = float(os.environ.get("MUSTER_KILL_SECONDS", "120"))
SEED = int(os.environ.get("MUSTER_KILL_SEED", "4"))


def nothing_is_open(muster: Muster) -> None:
    """No attempt, no order and no job of ours is left anywhere."""
    eventually(lambda: not Attempt.objects.exclude(state="ended").exists(), what="attempts end")
    orders = Command.objects.filter(state__in=["waiting", "sent"])
    eventually(lambda: not orders.exists(), what="no order waits")
    left = ("squeue", "--noheader", "--format=%i %j %T")
    labs = muster.labs.values()
    eventually(lambda: not any(lab.run(*left).strip() for lab in labs), what="no job is left")


def test_everything_killed_under_load_and_all_agrees_afterwards(muster: Muster, lab: Path) -> None:
    team, chance = muster.team("killed-for-long"), random.Random(SEED)  # noqa: S311

    def body() -> dict[str, Any]:
        """A gang of one to four nodes on either cluster."""
        flavors = [H100, A100]
        chance.shuffle(flavors)
        seconds, nodes = chance.randrange(1, 9), chance.randrange(1, 5)
        gpus = chance.choice([2, 4, 8])
        return muster.body(team, f"sleep {seconds}", nodes=nodes, gpus=gpus, flavors=flavors)

    token = muster.mia.headers["Authorization"].removeprefix("Bearer ")
    load = Load(muster.stack.url, token, body, every_s=0.7)
    order = random.Random(SEED)  # noqa: S311
    killer = Killer(muster, order, with_servers=servers.are_ours(lab))
    with load.running():
        killer.deal(for_s=KILL_SECONDS)
    muster.stack.wait_until_ready()
    connection.close()

    muster.until_all(team, "succeeded", within_s=300)
    nothing_is_open(muster)
    jobs = [job["id"] for job in muster.pages("/jobs", tenant=team)]
    assert sorted(jobs) == sorted(load.ids)
    stays = agree(muster, team, load.ids)
    every = [stay for found in stays.values() for stay in found]
    finished = Counter(stay.name.rpartition("-a")[0] for stay in every if stay.state == "COMPLETED")
    assert set(finished.values()) == {1}
    assert len(finished) == len(load.ids)
    print(  # noqa: T201 - the figures
        f"\nseed {SEED}: {sum(killer.done.values())} kills in {KILL_SECONDS:g} s,"
        f" {load.repeats} requests repeated, {len(load.ids)} jobs, {len(every)} runs,"
        f" {sum(cost_nano(stay) for stay in every)} nano-dollars\n{dict(sorted(killer.done.items()))}"
    )
