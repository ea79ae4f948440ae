"""The world of the accounting tests as a fixture."""

import pytest

from tests.accounting.world import World, build_world


@pytest.fixture
def world(db: None) -> World:
    return build_world()
