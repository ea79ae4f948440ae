import pytest

from tests.api.world import World, build


@pytest.fixture
def world(db: None) -> World:
    return build()
