"""The reconciler's pages: who may see them, what they say, and doing something about a case."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters.models import Cluster, Command
from federation.models import Attempt, Job
from federation.selectors.cases import find_cases
from tenancy.models import AuditEntry
from tests.pages import trouble
from tests.pages.scene import Scene


@pytest.fixture
def ada(scene: Scene) -> Client:
    """A browser in which Ada, an admin, is signed in, and everything went wrong."""
    trouble.make(scene)
    client = Client()
    client.force_login(scene.admin)
    return client


def text(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return response.content.decode()


def path_of(scene: Scene, kind: str) -> str:
    (found,) = find_cases(scene.now, kinds=[kind])
    return f"/reconciler/{found.id}"


def test_only_admins_see_it_or_a_way_to_it(scene: Scene, mia: Client) -> None:
    trouble.make(scene)
    lost = path_of(scene, "lost")
    for path in ("/reconciler", lost, f"{lost}/forget"):
        assert mia.get(path).status_code == 403
    assert mia.post(f"{lost}/forget", {"why": "mine"}).status_code == 403
    assert "/reconciler" not in text(mia, "/")
    assert Attempt.objects.filter(state="lost").count() == 1


def test_the_page_shows_every_cluster_and_case(ada: Client) -> None:
    page = text(ada, "/reconciler")
    assert 'href="/reconciler" aria-current="page"' in page
    for words in (
        "It ran, and now neither alpine nor its accounting knows of it.",
        "2 objects live under one fence; one of them counts.",
        "our records have no such attempt",
        "The order to submit was sent, and no answer came. It says: read timed out.",
        "The order to signal failed once. It says: connection refused.",
        "basalt refused the order to cancel. It says: Access/permission denied (2002).",
        "cedar does not answer; its jobs keep their states. It says: connection refused.",
    ):
        assert words in page, words
    for kind in ("lost", "orphan", "duplicate", "ambiguous", "rejected", "parked", "silent"):
        assert f"1 {kind}" in page
    assert re.search(r"6 failed, until", page)
    assert "+1 s" in page


def test_cases_are_chosen_by_cluster_and_kind(ada: Client) -> None:
    page = text(ada, "/reconciler?cluster=alpine&kind=orphan")
    assert "mst-orphanorphan-a3" in page
    assert "llm-pretrain-70b" not in page
    assert ada.get("/reconciler?colour=red").status_code == 404


def test_nothing_wrong_says_so(scene: Scene) -> None:
    Cluster.objects.update(last_seen_at=scene.now, failing_since=None)
    client = Client()
    client.force_login(scene.admin)
    assert "Nothing to look into" in text(client, "/reconciler")


def test_a_case_tells_what_may_be_done_and_why_not(ada: Client, scene: Scene) -> None:
    page = text(ada, path_of(scene, "lost"))
    assert f"{path_of(scene, 'lost')}/resubmit" in page
    assert "The controller of alpine has no such object." in page
    assert "up to the moment it was lost" in page
    silent = text(ada, path_of(scene, "silent"))
    assert "Silence changes nothing" in silent
    assert "/resubmit" not in silent


def test_an_action_is_shown_first_and_done_with_a_reason(ada: Client, scene: Scene) -> None:
    path = f"{path_of(scene, 'lost')}/forget"
    shown = text(ada, path)
    assert "nothing is done yet" in shown
    assert "close bill" in shown
    assert Attempt.objects.filter(state="lost").count() == 1
    empty = ada.post(path, {"why": "  "})
    assert empty.status_code == 422
    assert "Say why" in empty.content.decode()
    assert not AuditEntry.objects.filter(object_type="case").exists()
    job = scene.jobs["llm-pretrain-70b"]
    stale = ada.post(path, {"why": "gone", "version": job.version + 7}, follow=True)
    assert "look at the case again" in stale.content.decode()
    done = ada.post(path, {"why": "alpine was rebuilt", "version": job.version}, follow=True)
    assert "Done. Ends the attempt as lost" in done.content.decode()
    job.refresh_from_db()
    assert job.state == "failed"
    assert AuditEntry.objects.get(object_type="case").why == "alpine was rebuilt"
    assert "given up by ada: alpine was rebuilt" in text(ada, f"/jobs/{job.uuid}")
    assert ada.get(path).status_code == 404
    for late in (path, path.removesuffix("/forget")):  # a page that is still open refreshes
        assert ada.get(late, headers={"HX-Request": "true"}).status_code == 204
    again = ada.post(path, {"why": "alpine was rebuilt"}, follow=True)
    assert "it was done already" in again.content.decode()


def test_what_is_not_offered_leads_back_with_the_reason(ada: Client, scene: Scene) -> None:
    response = ada.get(f"{path_of(scene, 'orphan')}/forget", follow=True)
    assert response.redirect_chain == [(path_of(scene, "orphan"), 302)]
    assert "It is there, and what is there is billed." in response.content.decode()
    assert ada.get(f"{path_of(scene, 'orphan')}/destroy").status_code == 404


def test_what_clusters_and_people_wrote_is_text(ada: Client, scene: Scene) -> None:
    Cluster.objects.filter(pk=scene.cedar.pk).update(failure="<b>refused</b>")
    Command.objects.filter(state="rejected").update(error="<script>alert(1)</script>")
    Job.objects.update(name="<i>name</i>")
    for path in ("/reconciler", path_of(scene, "rejected"), path_of(scene, "silent")):
        page = text(ada, path)
        assert "<b>refused" not in page
        assert "<script>alert" not in page
        assert "<i>name" not in page
        assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", page), path


def test_the_page_costs_a_constant_number_of_queries(ada: Client, scene: Scene) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            text(ada, "/reconciler")
        return len(queries)

    before = count()
    Attempt.objects.filter(state="running").update(state="lost")
    assert len(find_cases(scene.now)) > 8
    assert count() <= before
