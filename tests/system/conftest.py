"""A federation of two simulated clusters for every test here."""

from collections.abc import Iterator

import pytest

from tests.world import Simulated, World, like_new, make_world, simulated

FLEET = {
    "aurora": {"nodes": 8, "gpu_type": "h100"},
    "borealis": {"nodes": 8, "gpu_type": "a100"},
}
DEVICES = {"aurora": ("h100", "h100-sxm-80"), "borealis": ("a100", "a100-sxm-80")}


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Simulated]]:
    with simulated(tmp_path_factory.mktemp("fleet"), **FLEET) as clusters:
        yield clusters


@pytest.fixture
def world(fleet: dict[str, Simulated], transactional_db: None) -> World:
    return make_world(like_new(fleet), DEVICES)
