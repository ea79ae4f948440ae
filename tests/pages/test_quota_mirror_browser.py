"""The page of a cluster's limits in a real browser: looked at, previewed, set."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from playwright.sync_api import Browser, expect

from clusters.models import Cluster
from kit.crypto import encrypt
from quotas.services.rows import set_quota
from tenancy.models import AuditEntry, Tenant
from tests.pages.scene import Scene
from tests.pages.test_browser import SIZES, browser, chromium, front, pictures, scene, visit
from tests.pages.test_quotas_browser import fits
from tests.world import Simulated, like_new, simulated

__all__ = ["browser", "chromium", "front", "pictures", "scene"]  # fixtures of this module too
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Simulated]]:
    accounts = {"accounts": ["ml", "vis", "spe"], "nodes": 8, "gpu_type": "h100"}
    with simulated(tmp_path_factory.mktemp("simulated"), alpine=accounts) as made:
        yield made


def furnish(scene: Scene, member: Simulated) -> None:
    """Accounts for three tenants, one with a limit that is too small, one option for nobody."""
    alpine = Cluster.objects.get(name="alpine")
    named = {"acme": "ml", "acme/vision": "vis", "acme/speech": "spe", "gone": "vis"}
    Cluster.objects.filter(pk=alpine.pk).update(
        endpoint=member.endpoint,
        secret=encrypt(member.key, settings.ENVIRONMENT.encryption_keys),
        options={**{f"charge.{path}": account for path, account in named.items()}, "tiers": "leaf"},
    )
    for path, owed, limit in (("acme", 64, 32), ("acme/vision", 24, 16), ("rival", 8, 0)):
        set_quota(
            actor=scene.admin,
            tenant=Tenant.objects.get(path=path),
            flavor=alpine.flavors.get().flavor,
            guaranteed=owed,
            borrowing_limit=limit,
            now=scene.now,
        )
    total = [{"type": "gres", "name": "gpu:h100", "count": 16}]
    small = {"account": "vis", "cluster": "alpine", "max": {"tres": {"total": total}}}
    member.slurm("POST", "slurmdb/v0.0.38/associations", json={"associations": [small]})


@pytest.mark.parametrize("size", list(SIZES))
def test_an_admin_looks_previews_and_sets(
    browser: Browser,
    front: str,
    scene: Scene,
    fleet: dict[str, Simulated],
    size: str,
    pictures: Path | None,
) -> None:
    furnish(scene, like_new(fleet)["alpine"])
    scene.jobs["diffusion-xl"].attempts.update(backend_reason="AssocGrpGRES")
    it = visit(browser, front, size, "light" if size == "wide" else "dark", who="ada")
    page = it.page
    page.goto(f"{front}/clusters/alpine")
    page.get_by_role("link", name="Limits").click()
    expect(page.get_by_role("heading", name="Limits on alpine")).to_be_visible()
    expect(page.get_by_text("Option charge.gone names no tenant.")).to_be_visible()
    expect(page.get_by_text("holds back").first).to_be_visible()
    expect(page.get_by_text("1 job waits there because of a limit on GPUs")).to_be_visible()
    fits(it, f"limits-{size}", pictures)
    page.get_by_role("button", name="Preview…").click()
    expect(page.get_by_text("nothing is set yet")).to_be_visible()
    fits(it, f"limits-preview-{size}", pictures)
    page.get_by_label("Why; it is kept with the change").fill("plan 27")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Limits set: 3.")).to_be_visible()
    expect(page.get_by_text("in step").first).to_be_visible()
    fits(it, f"limits-set-{size}", pictures)
    assert AuditEntry.objects.get(action="mirror_quotas").why == "plan 27"
    page.goto(f"{front}/jobs/{scene.jobs['diffusion-xl'].uuid}")
    expect(page.get_by_text("which does not rise by itself with quotas").first).to_be_visible()
    fits(it, f"job-held-by-limit-{size}", pictures)
    assert it.wrong == []
