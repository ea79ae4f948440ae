"""What admins do to clusters on their page, and that nobody else can."""

import pytest
from django.test import Client

from clusters.models import Cluster
from tests.pages.scene import Scene


@pytest.fixture
def ada(scene: Scene) -> Client:
    client = Client()
    client.force_login(scene.admin)
    return client


def state(scene: Scene) -> str:
    return Cluster.everything.get(pk=scene.basalt.pk).state


def test_only_admins_are_offered_it_and_only_they_can(
    ada: Client, mia: Client, scene: Scene
) -> None:
    assert "Cut off…" in ada.get("/clusters/alpine").content.decode()
    assert "Cut off…" not in mia.get("/clusters/alpine").content.decode()
    assert mia.post("/clusters/basalt/cut-off").status_code == 403
    assert Client().post("/clusters/basalt/cut-off").status_code == 302
    assert ada.get("/clusters/basalt/cut-off").status_code == 405
    assert ada.post("/clusters/basalt/burn").status_code == 404
    assert ada.post("/clusters/nowhere/drain").status_code == 404
    assert state(scene) == "draining"


def test_it_is_cut_off_leaves_and_is_hidden(ada: Client, scene: Scene) -> None:
    page = ada.post("/clusters/basalt/cut-off", {"why": "fire"}, follow=True).content.decode()
    assert "The cluster is cut off." in page
    assert "state-cut-off" in page
    refused = ada.post("/clusters/basalt/leave", follow=True).content.decode()
    assert "A plan needs a reason." in refused
    leaving = ada.post("/clusters/basalt/leave", {"why": "sold"}, follow=True).content.decode()
    assert "state-leaving" in leaving
    assert "It leaves (plan: cancel): sold" in leaving
    opened = ada.post("/clusters/basalt/undrain", follow=True).content.decode()
    assert "The cluster is open." in opened
    gone = ada.post("/clusters/basalt/forget", {"why": "burnt"}, follow=True)
    assert gone.redirect_chain[-1][0] == "/clusters"
    assert "basalt" not in gone.content.decode().replace("basalt takes", "")
    assert state(scene) == "gone"
    assert ada.get("/clusters/basalt").status_code == 404
    job = scene.jobs["vit-huge"]
    page = ada.get(f"/jobs/{job.uuid}").content.decode()
    assert "basalt left while this ran there" in page
