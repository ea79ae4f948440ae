"""Fixtures of the page tests."""

import pytest
from django.test import Client

from tests.pages import scene as scenes


@pytest.fixture
def scene(db: None) -> scenes.Scene:
    """The scene, in a transaction that is rolled back."""
    return scenes.build()


@pytest.fixture
def mia(scene: scenes.Scene) -> Client:
    """A browser in which Mia, a submitter of acme, is signed in."""
    client = Client()
    client.force_login(scene.mia)
    return client
