"""The page of a cluster's limits: wanted beside what is there, preview, apply, and what is in the way."""

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from clusters.models import Cluster
from kit.crypto import encrypt
from quotas.services.rows import set_quota
from tenancy.models import AuditEntry
from tests.pages.scene import Scene
from tests.pages.test_pages import plain
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
