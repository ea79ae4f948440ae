"""The page of a cluster's limits: wanted beside what is there, preview, apply, and what is in the way."""

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from clusters.models import Cluster
from federation.models import Job
from kit.crypto import encrypt
from quotas.models import Quota
from quotas.services.requests import Wish, ask
from quotas.services.rows import set_quota
from tenancy.models import AuditEntry
from tests.pages.scene import Scene
from tests.pages.test_pages import plain
from tests.pages.test_quotas import sent
from tests.world import Simulated, like_new, simulated

PAGE = "/clusters/alpine/quota-mirror"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Simulated]]:
    accounts = {"accounts": ["ml", "vis"], "nodes": 8, "gpu_type": "h100"}
    with simulated(tmp_path_factory.mktemp("simulated"), alpine=accounts) as made:
        yield made


@pytest.fixture
def admin(scene: Scene, fleet: dict[str, Simulated]) -> Client:
    """Ada, and alpine with an account for acme/vision."""
    member = like_new(fleet)["alpine"]
    Cluster.objects.filter(name="alpine").update(
        endpoint=member.endpoint,
        secret=encrypt(member.key, settings.ENVIRONMENT.encryption_keys),
        options={"charge.acme/vision": "vis", "charge.acme": "ml", "timeout_s": "3"},
    )
    served = Cluster.objects.get(name="alpine").flavors.get()
    set_quota(
        actor=None,
        tenant=scene.vision,
        flavor=served.flavor,
        cluster=None,
        guaranteed=24,
        borrowing_limit=8,
        now=timezone.now(),
    )
    client = Client()
    client.force_login(scene.admin)
    return client


def words(client: Client, data: dict[str, str] | None = None) -> str:
    answer = client.get(PAGE) if data is None else client.post(PAGE, data, follow=True)
    assert answer.status_code == 200, answer.content
    return plain(answer.content.decode())


def test_preview_then_apply(admin: Client) -> None:
    shown = words(admin)
    assert "vis gpu:h100" in shown
    assert "missing" in shown
    assert "sacctmgr -i modify account where name=vis cluster=alpine" in shown
    previewed = words(admin, {"act": "preview"})
    assert "nothing is set yet" in previewed
    assert "would be set" in previewed
    assert not AuditEntry.objects.filter(action="mirror_quotas").exists()
    done = words(admin, {"act": "apply", "why": "plan 27"})
    assert "Limits set: 2." in done
    assert "in step" in done
    assert "Preview" not in done
    assert AuditEntry.objects.get(action="mirror_quotas").why == "plan 27"


def test_without_a_reason_nothing_is_set(admin: Client) -> None:
    answer = admin.post(PAGE, {"act": "apply", "why": " "})
    assert answer.status_code == 422
    assert "Say why" in answer.content.decode()
    assert "What would be set" in answer.content.decode()
    assert not AuditEntry.objects.filter(action="mirror_quotas").exists()


def test_what_keeps_muster_from_setting_is_told_with_its_fix(admin: Client) -> None:
    Cluster.objects.filter(name="alpine").update(account="mia")
    shown = words(admin)
    assert "Shown only, not applied: mia may not change associations" in shown
    assert "AdminLevel=Operator" in shown
    assert 'value="apply"' not in admin.post(PAGE, {"act": "preview"}).content.decode()


def test_a_silent_cluster_is_a_page_that_says_so(admin: Client) -> None:
    Cluster.objects.filter(name="alpine").update(endpoint="http://127.0.0.1:9")
    answer = admin.get(PAGE)
    assert answer.status_code == 502
    assert "alpine does not answer" in answer.content.decode()


def test_admins_only_and_linked_from_the_cluster(admin: Client, mia: Client) -> None:
    assert PAGE in admin.get("/clusters/alpine").content.decode()
    assert PAGE not in mia.get("/clusters/alpine").content.decode()
    assert mia.get(PAGE).status_code == 403
    assert mia.post(PAGE, {"act": "apply", "why": "mine"}).status_code == 403
    assert admin.get("/clusters/nowhere/quota-mirror").status_code == 404


def test_a_job_that_a_limit_there_holds_back_says_so_and_how_to_mend_it(
    admin: Client, mia: Client, scene: Scene
) -> None:
    job = scene.jobs["diffusion-xl"]
    job.attempts.update(backend_reason="Resources")
    explained = f"/api/v1/jobs/{job.uuid}/explanation"
    assert mia.get(explained).json()["reasons"] == []
    assert "because of a limit on GPUs" not in words(admin)
    job.attempts.update(backend_reason="AssocGrpGRES")
    told = (
        "alpine holds it back by its own limit on GPUs of the account vis (AssocGrpGRES), which does"
        " not rise by itself with quotas."
    )
    (reason,) = mia.get(explained).json()["reasons"]
    assert (reason["code"], reason["cluster"], reason["message"]) == (
        "limit_reached",
        "alpine",
        told,
    )
    assert (reason["needed"], reason["unit"], reason["available"]) == (16, "gpus", None)
    assert PAGE in reason["fix"]["description"]
    places = {place["name"]: place for place in mia.get("/api/v1/queue").json()["items"]}
    assert places["diffusion-xl"]["reasons"] == [reason]
    page = plain(mia.get(f"/jobs/{job.uuid}").content.decode())
    assert f"{told} An admin looks at {PAGE}" in page
    assert "1 job waits there because of a limit on GPUs: diffusion-xl acme/vision ." in words(
        admin
    )
    numbers = Client().get("/metrics").content.decode()
    assert 'muster_jobs_held_by_member_limit{cluster="alpine"} 1.0' in numbers
    assert 'muster_jobs_held_by_member_limit{cluster="basalt"} 0.0' in numbers
    job.attempts.update(state="running")
    Job.objects.filter(pk=job.pk).update(state="running")
    assert mia.get(explained).json()["reasons"] == []
    assert "because of a limit on GPUs" not in words(admin)


def test_who_saves_quotas_is_told_where_limits_do_not_follow(admin: Client, scene: Scene) -> None:
    quota = Quota.objects.get(tenant=scene.vision)
    body = {**sent(quota, borrowing_limit="8", guaranteed="16"), "act": "save", "why": "less"}
    told = "Limits that were set on accounts of alpine do not follow quotas by themselves"
    assert told not in plain(admin.post("/quotas", body, follow=True).content.decode())
    assert Quota.objects.get(pk=quota.pk).guaranteed == 16
    words(admin, {"act": "apply", "why": "plan 27"})
    quota.refresh_from_db()
    body = {**sent(quota, borrowing_limit="8", guaranteed="120"), "act": "save", "why": "more"}
    assert told in plain(admin.post("/quotas", body, follow=True).content.decode())
    request = ask(
        actor=scene.admin, tenant=scene.vision, flavor=quota.flavor,
        wish=Wish(8, scene.now, None), why="a paper", now=timezone.now(),
    )  # fmt: skip
    given = {"amount": "8", "comment": "", "revision": str(request.revision)}
    answer = admin.post(f"/quotas/requests/{request.pk}/approve", given, follow=True)
    assert "The request is granted." in plain(answer.content.decode())
    assert told in plain(answer.content.decode())
    shown = words(admin)
    assert "holds back" in shown
    assert "Some limit there is stricter than quotas" in shown
