"""The contract on recordings of real Slurm 22.05.8 (`test_contract_live` makes them)."""

from pathlib import Path

import pytest

from clusters.backends.slurm.client import forget_versions
from clusters.core.backend import Connection
from tests.clusters.backends.contract import SCENARIOS, Scenario
from tests.clusters.backends.site import Site
from tests.clusters.backends.transports import Replay

RECORDINGS = Path(__file__).parent / "recordings"


class NoHands:
    """What an admin did is in the recording."""

    def requeue(self, job_id: str) -> None: ...
    def node_down(self, node: str) -> None: ...
    def node_up(self, node: str) -> None: ...
    def forget_finished(self, seconds: int) -> None: ...


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_recording(scenario: Scenario) -> None:
    replay = Replay(RECORDINGS / f"{scenario.__name__}.jsonl")
    options = replay.facts["options"]
    assert isinstance(options, dict)
    endpoint = f"http://{scenario.__name__}.recording"
    connection = Connection(str(replay.facts["cluster"]), endpoint, b"k" * 32, "slurm", options)
    forget_versions()
    site = Site(connection, replay, NoHands(), str(replay.facts["salt"]), pause_s=0)
    scenario(site)
    site.close()
    assert not replay.left, "the scenario asked less than was recorded"
