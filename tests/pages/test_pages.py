"""What pages say, to whom, and at what price in queries."""

import re
from collections.abc import Iterator

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, reverse

from clusters.models import Cluster, ClusterAccount
from federation.models import Job, Telling
from federation.urls import page_urls
from tenancy.models import AuditEntry, User
from tenancy.views import PUBLIC, SIGNED_IN
from tenancy.views import page_urls as access_urls
from tests.pages.scene import PASSWORD, Scene

ROUTES = [*page_urls, *access_urls]
PAGES = ["/", "/clusters", "/clusters/alpine", "/queue", "/jobs", "/jobs/new"]


def text(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return response.content.decode()


def address(route: URLPattern, job: Job) -> str:
    given = {
        "name": "alpine",
        "job_id": job.uuid,
        "case_id": job.uuid,
        "request_id": job.uuid,
        "simulation_id": job.uuid,
        "entry_id": 7,
        "action": "cancel",
    }
    names = route.pattern.converters
    return reverse(str(route.name), kwargs={name: given[name] for name in names})


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_page_declares_who_may_see_it(route: URLPattern) -> None:
    assert route.callback.permission in {PUBLIC, SIGNED_IN}


@pytest.mark.parametrize("route", page_urls, ids=lambda route: route.name)
def test_who_is_not_signed_in_is_sent_to_sign_in(route: URLPattern, scene: Scene) -> None:
    path = address(route, scene.jobs["moe-1t"])
    response = Client().get(path)
    assert (response.status_code, response["Location"]) == (302, f"/login?next={path}")
    assert Client().post(path).status_code == 302
    refresh = Client().get(path, headers={"HX-Request": "true"})
    assert refresh["HX-Redirect"] == f"/login?next={path}"


@pytest.mark.parametrize("who", ["stranger", "rival"])
def test_a_stranger_finds_no_job_of_others(who: str, scene: Scene) -> None:
    client = Client()
    client.force_login(getattr(scene, who))
    job = scene.jobs["moe-1t"]
    assert client.get(f"/jobs/{job.uuid}").status_code == 404
    for action in ("cancel", "hold", "release"):
        assert client.post(f"/jobs/{job.uuid}/{action}").status_code == 404
    for path in (
        "/",
        "/queue",
        "/jobs",
        "/clusters/alpine",
        "/jobs?tenant=acme",
        "/queue?tenant=acme",
    ):
        page = text(client, path)
        assert "moe-1t" not in page
        assert "llm-pretrain" not in page
        assert "acme/vision" not in page
    job.refresh_from_db()
    assert job.state == "queued"


def test_a_member_sees_their_own_tree(mia: Client) -> None:
    for path in ("/", "/queue", "/jobs", "/clusters/alpine"):
        page = text(mia, path)
        assert "theirs-secret" not in page
        assert "rival" not in page.replace("rival-waits", "rival") or path == "never"
    assert "asr-large" in text(mia, "/queue")


def test_an_admin_sees_all(scene: Scene) -> None:
    client = Client()
    client.force_login(scene.admin)
    page = text(client, "/queue")
    assert "theirs-secret" in page
    assert "llm-pretrain-70b" in page


def test_what_people_wrote_is_text(mia: Client, scene: Scene) -> None:
    odd = scene.jobs["video-align"]
    Job.objects.filter(pk=odd.pk).update(
        name='<script>alert("x")</script>',
        labels={"<i>": "<u>label</u>"},
        outcome="<b>bold</b>",
    )
    message = {**odd.reasons[0], "message": "<b>bold</b> & reason"}
    Telling.objects.filter(job=odd).update(reasons=[message])
    Cluster.objects.filter(pk=scene.cedar.pk).update(failure="refused <by its gateway>")
    pages = [text(mia, path) for path in ("/", "/queue", "/jobs", f"/jobs/{odd.uuid}", "/clusters")]
    for page in pages:
        assert "<script>alert" not in page
        assert "<b>bold" not in page
        assert "<u>label" not in page
        assert "<by its gateway>" not in page
    assert "&lt;script&gt;alert(" in pages[3]
    assert "&lt;u&gt;label" in pages[3]
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; reason" in pages[1]
    assert "refused &lt;by its gateway&gt;" in pages[4]


def test_no_page_has_inline_script_or_style(mia: Client, scene: Scene) -> None:
    paths = [*PAGES, f"/jobs/{scene.jobs['llm-pretrain-70b'].uuid}", "/login"]
    for path in paths:
        client = Client() if path == "/login" else mia
        response = client.get(path)
        page = response.content.decode()
        assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", page), path
        assert "default-src 'self'" in response["Content-Security-Policy"]


def test_the_fleet_in_numbers(mia: Client) -> None:
    page = plain(text(mia, "/clusters"))
    # alpine: 256 GPUs; ours 8 + 2 + 2 + 2 nodes; foreign 20; one node down, one draining.
    assert re.search(r"h100-sxm-80 32 nodes . 8 GPUs 108 112 20 16 2 nodes 256", page)
    assert "72 GPUs in one spine 9 nodes, 33 % fragmented" in page
    assert "draining" in page
    assert "Does not answer since" in page


def test_nodes_stand_in_their_topology(mia: Client, scene: Scene) -> None:
    page = text(mia, "/clusters/alpine")
    words = plain(page)
    assert (
        words.index("spine s0")
        < words.index("leaf l0")
        < words.index("spine s1")
        < words.index("leaf l4")
    )
    assert f"/jobs/{scene.jobs['llm-pretrain-70b'].uuid}" in page
    assert "takes no work (fan failed)" in page
    assert str(scene.jobs["theirs-secret"].uuid) not in page


def test_the_queue_keeps_its_order_and_says_why(mia: Client) -> None:
    words = plain(text(mia, "/queue"))
    places = [words.index(name) for name in ("vit-huge", "moe-1t", "tts-multilingual", "just-in")]
    assert places == sorted(places)
    assert "It needs 16 whole nodes with 8 GPUs each in one spine" in words
    assert "and 1 more place" in words
    assert "3 2 24" in words  # foreign: running, pending, GPUs


def test_the_queue_filters_and_pages(mia: Client) -> None:
    assert "moe-1t" not in text(mia, "/queue?part=running")
    assert "vit-huge" not in text(mia, "/queue?part=waiting")
    assert "moe-1t" not in text(mia, "/queue?tenant=acme/speech")
    seen: list[str] = []
    path = "/queue?limit=2"
    while path:
        page = text(mia, path)
        seen += re.findall(r'<a href="/jobs/([0-9a-f-]{36})">', page)
        link = re.search(r'href="([^"]*cursor=[^"]*)"', page)
        path = link[1].replace("&amp;", "&") if link else ""
    waiting_or_bound = Job.objects.exclude(state__in=["held", "succeeded", "failed", "cancelled"])
    expected = waiting_or_bound.exclude(tenant__path="rival")
    assert sorted(seen) == sorted(str(job.uuid) for job in expected)


def test_jobs_filter_by_state_tenant_and_person(mia: Client) -> None:
    assert "sweep-19" in text(mia, "/jobs?state=failed")
    assert "moe-1t" not in text(mia, "/jobs?state=failed")
    assert "moe-1t" not in text(mia, "/jobs?tenant=acme/speech")
    assert "moe-1t" not in text(mia, "/jobs?user=noor")
    assert mia.get("/jobs?colour=red").status_code == 404
    assert "No jobs here" in text(mia, "/jobs?user=nobody")


def test_a_job_page_tells_the_whole_story(mia: Client, scene: Scene) -> None:
    words = plain(text(mia, f"/jobs/{scene.jobs['llm-pretrain-70b'].uuid}"))
    for expected in (
        "Submitted by mia",
        "Bound to alpine: 64 GPUs of h100-sxm-80, guaranteed",
        "Every member runs on alpine",
        "8 nodes in one spine",
        "1,664.",  # 26 h on 64 GPUs
        "4,992.",  # at 3 USD
        "leaf l5",
        "spine promised",
    ):
        assert expected in words, expected
    assert "leaf l3" not in words, "only the leaves that it touches"


def test_a_waiting_job_says_why_for_each_place(mia: Client, scene: Scene) -> None:
    words = plain(text(mia, f"/jobs/{scene.jobs['moe-1t'].uuid}"))
    assert "alpine · h100-sxm-80 topology unavailable" in words
    assert "16 nodes 9 nodes" in words
    assert "basalt takes no new work." in words
    assert "At most 27,648.00 USD" in words  # 128 GPUs x 72 h x 3


def test_hold_release_cancel(mia: Client, scene: Scene) -> None:
    job = scene.jobs["moe-1t"]
    for action, state, words in (
        ("hold", "held", "The job is held"),
        ("release", "queued", "The job is released"),
        ("cancel", "cancelled", "The job is cancelled"),
        ("hold", "cancelled", "The job is cancelled."),
    ):
        page = mia.post(f"/jobs/{job.uuid}/{action}", follow=True).content.decode()
        job.refresh_from_db()
        assert (job.state, words in page) == (state, True), action
    assert AuditEntry.objects.filter(object_id=str(job.uuid)).count() == 3
    assert mia.get(f"/jobs/{job.uuid}/cancel").status_code == 405
    assert mia.post(f"/jobs/{job.uuid}/explode").status_code == 404


def test_who_may_not_change_a_job_is_shown_no_button_and_refused(mia: Client, scene: Scene) -> None:
    job = scene.jobs["asr-large"]  # another person's, in a tenant where Mia only submits
    assert f"/jobs/{job.uuid}/cancel" not in text(mia, f"/jobs/{job.uuid}")
    page = mia.post(f"/jobs/{job.uuid}/cancel", follow=True).content.decode()
    assert "an owner of its tenant or an admin may" in page
    job.refresh_from_db()
    assert job.state == "running"


def test_changing_needs_the_csrf_token(scene: Scene) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(scene.mia)
    assert client.post(f"/jobs/{scene.jobs['moe-1t'].uuid}/cancel").status_code == 403


def test_the_form_says_what_is_wrong_at_its_field(mia: Client) -> None:
    before = Job.objects.count()
    response = mia.post(
        "/jobs/new",
        {
            "tenant": "acme/vision",
            "nodes": "0",
            "gpus_per_node": "x",
            "time_limit": "soon",
            "script": "",
        },
    )
    page = response.content.decode()
    assert response.status_code == 422
    for field in ("nodes", "gpus_per_node", "time_limit", "flavors", "script"):
        assert f'id="wrong-{field}-1"' in page, field
    assert 'value="soon"' in page, "what was typed stays"
    assert Job.objects.count() == before


@pytest.mark.django_db(transaction=True)
def test_the_form_submits(mia: Client, scene: Scene) -> None:
    ClusterAccount.objects.create(cluster=scene.alpine, user=scene.mia, account="mia")
    filled = {
        "tenant": "acme/vision", "name": "from the form", "flavors": ["h100-sxm-80"], "nodes": "2",
        "gpus_per_node": "8", "class": "spot", "priority": "high", "tier": "leaf", "workdir": "",
        "time_limit": "90m", "script": "#!/bin/bash\r\nsrun true\r\n",
    }  # fmt: skip
    response = mia.post("/jobs/new", filled)
    job = Job.objects.get(name="from the form")
    assert (response.status_code, response["Location"]) == (302, f"/jobs/{job.uuid}")
    assert (job.tenant, job.user, job.wanted_class, job.priority) == (
        scene.vision,
        scene.mia,
        "spot",
        700,
    )
    assert (job.required_tier, job.time_limit_ms) == ("leaf", 90 * 60_000)
    assert job.spec["run"]["script"] == "#!/bin/bash\nsrun true\n"
    refused = mia.post("/jobs/new", {**filled, "tenant": "rival"})
    assert refused.status_code == 422
    assert 'id="wrong-tenant-1"' in refused.content.decode()


def test_signing_in_and_out(scene: Scene) -> None:
    scene.mia.set_password(PASSWORD)  # by the tests' own quick hasher
    scene.mia.save()
    client = Client()
    wrong = client.post("/login", {"username": "mia", "password": "no"})
    assert "do not go together" in wrong.content.decode()
    there = client.post(
        "/login?next=/queue", {"username": "mia", "password": PASSWORD, "next": "/queue"}
    )
    assert there["Location"] == "/queue"
    elsewhere = client.post("/logout")
    assert elsewhere["Location"] == "/login"
    assert client.get("/queue").status_code == 302
    evil = {"username": "mia", "password": PASSWORD, "next": "https://evil.example/"}
    assert client.post("/login", evil)["Location"] == "/"


def test_empty_pages_say_what_to_do(db: None) -> None:
    client = Client()
    client.force_login(User.objects.create(username="new"))
    assert "No cluster yet" in text(client, "/")
    assert "You have no jobs yet" in text(client, "/")
    assert "Nothing waits" in text(client, "/queue")
    assert "You cannot submit yet" in text(client, "/jobs/new")
    assert client.get("/clusters/none").status_code == 404


def test_the_number_of_queries_does_not_grow(mia: Client, scene: Scene) -> None:
    paths = [*PAGES, f"/jobs/{scene.jobs['llm-pretrain-70b'].uuid}"]
    before = dict(queries(mia, paths))
    source = Job.objects.filter(tenant=scene.vision).exclude(state="running")
    for job in list(source):
        for _ in range(3):
            job.pk, job.uuid = None, job._meta.get_field("uuid").get_default()
            job.save(force_insert=True)
    after = dict(queries(mia, paths))
    assert after == before
    assert max(after.values()) <= 20, after


def queries(client: Client, paths: list[str]) -> Iterator[tuple[str, int]]:
    for path in paths:
        with CaptureQueriesContext(connection) as caught:
            text(client, path)
        yield path, len(caught)


def plain(page: str) -> str:
    """A page's visible words, single-spaced."""
    body = re.sub(r"<svg.*?</svg>|<head>.*?</head>", " ", page, flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())
