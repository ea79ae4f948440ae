"""Two simulated clusters that keep their accounting, whatever becomes of our database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.world import World, make_world, simulated


@pytest.fixture
def world(tmp_path: Path, transactional_db: None) -> Iterator[World]:
    fleet = {
        "aurora": {"nodes": 8, "gpu_type": "h100"},
        "borealis": {"nodes": 8, "gpu_type": "h100"},
    }
    devices = dict.fromkeys(fleet, ("h100", "h100-sxm-80"))
    with simulated(tmp_path, **fleet) as clusters:
        yield make_world(clusters, devices)
