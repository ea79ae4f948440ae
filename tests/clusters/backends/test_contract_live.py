"""The contract on real Slurm (alpha of the lab). With RECORD_SLURM=1 it also writes the recordings.

The recordings come from a lab of 4 nodes with 8 threads each, so that they stay readable:
`NODES=4 LEAF=2 CPUS=8 LAB=... script/slurm-lab/up.sh alpha 31000 h100`.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from clusters.backends.slurm.client import forget_versions
from tests.clusters.backends.contract import SCENARIOS, Scenario
from tests.clusters.backends.site import Site
from tests.clusters.backends.transports import Recording
from tests.live.slurm.lab import HOW, LabCluster, lab_directory

pytestmark = pytest.mark.live
RECORDINGS = Path(__file__).parent / "recordings"


@pytest.fixture
def cluster() -> LabCluster:
    directory = lab_directory()
    if directory is None:
        pytest.skip(HOW)
    return LabCluster(directory / "clusters" / "alpha")


@pytest.fixture
def site(cluster: LabCluster, request: pytest.FixtureRequest) -> Iterator[Site]:
    salt = f"{time.time_ns() // 1_000_000 % 10**9:09d}"
    wire = httpx.HTTPTransport()
    recording = Recording(wire, salt) if os.environ.get("RECORD_SLURM") else None
    cluster.drop_jobs()
    idle = Site(cluster.connection(), wire, cluster, salt)
    idle.until(lambda: not _holders(idle), "an idle cluster")
    forget_versions()
    site = Site(cluster.connection(), recording or wire, cluster, salt)
    yield site
    site.close()
    idle.close()
    wire.close()
    if recording is not None and not request.session.testsfailed:
        name = request.node.callspec.params["scenario"].__name__
        options = dict(cluster.connection().options)
        facts = {"salt": salt, "cluster": cluster.name, "options": options}
        recording.save(RECORDINGS / f"{name}.jsonl", facts)


def _holders(site: Site) -> bool:
    observed = site.look()
    ours = any(gang.state.holds_nodes for gang in observed.gangs)
    return ours or observed.foreign.running > 0


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_real_slurm(site: Site, cluster: LabCluster, scenario: Scenario) -> None:
    try:
        scenario(site)
    finally:
        if "limit" in scenario.__name__:  # the lab is that of all live tests
            cluster.drop_limits("vision", "ml")
