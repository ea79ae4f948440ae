"""The pages of quotas in a real browser: an admin changes the tree, an owner asks for more."""

from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from clusters.models import Flavor
from quotas.models import Quota, QuotaRequest
from quotas.services.requests import Wish, approve, ask
from quotas.services.rows import set_quota
from tenancy.models import AuditEntry, Role, Tenant
from tenancy.services.access import set_member
from tests.pages.scene import Scene
from tests.pages.test_browser import (
    SIZES,
    Visit,
    browser,
    chromium,
    front,
    pictures,
    scene,
    visit,
)

__all__ = ["browser", "chromium", "front", "pictures", "scene"]  # fixtures of this module too
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
H100 = "h100-sxm-80"


def furnish(scene: Scene) -> dict[str, Quota]:
    """Quotas with limits, a grant, an open request, and too much promised of one flavor."""
    rows = {}
    for path, flavor, gpus, more in (
        ("acme", H100, 128, {}),
        ("acme/vision", H100, 64, {"lending_limit": 32, "weight": 2}),
        ("acme/speech", H100, 8, {"borrowing_limit": 64}),
        ("rival", H100, 96, {}),
        ("acme", "a100-sxm-80", 160, {}),
    ):
        rows[f"{path} {flavor}"] = set_quota(
            actor=scene.admin, tenant=Tenant.objects.get(path=path),
            flavor=Flavor.objects.get(name=flavor), guaranteed=gpus, why="plan 27",
            now=scene.now, **more,
        )  # fmt: skip
    acme = Tenant.objects.get(path="acme")
    set_member(actor=None, tenant=acme, user=scene.mia, role=Role.OWNER, now=scene.now)
    for gpus, why in ((16, "a paper is due"), (8, "the new vision model")):
        request = ask(
            actor=scene.mia, tenant=scene.vision, flavor=Flavor.objects.get(name=H100),
            wish=Wish(gpus, scene.now, scene.now + timedelta(days=14)), why=why, now=scene.now,
        )  # fmt: skip
    approve(actor=scene.admin, request=request, changes={}, comment="for now", now=scene.now)
    return rows


def fits(it: Visit, name: str, pictures: Path | None) -> None:
    """Nothing scrolls sideways; a picture for people."""
    wide = it.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{name} scrolls sideways by {wide} px"
    it.picture(pictures and pictures / f"{name}.png")


@pytest.mark.parametrize("size", list(SIZES))
def test_an_admin_changes_the_tree_and_sets_it_back(
    browser: Browser, front: str, scene: Scene, size: str, pictures: Path | None
) -> None:
    rows = furnish(scene)
    it = visit(browser, front, size, "light" if size == "wide" else "dark", who="ada")
    page = it.page
    page.goto(f"{front}/")
    page.get_by_role("link", name="Quotas", exact=True).click()
    expect(page.get_by_role("heading", name="Quotas")).to_be_visible()
    expect(page.get_by_text("32 over-committed")).to_be_visible()
    fits(it, f"quotas-{size}", pictures)
    page.get_by_label(f"Guaranteed of acme/vision, {H100}").fill("80")
    page.get_by_role("button", name="What would change…").first.click()
    expect(page.get_by_text("guaranteed 64 → 80")).to_be_visible()
    fits(it, f"quotas-plan-{size}", pictures)
    key = rows[f"acme/vision {H100}"]
    set_quota(
        actor=scene.admin, tenant=scene.vision, flavor=key.flavor, guaranteed=72, lending_limit=32,
        weight=2, why="meanwhile", now=scene.now,
    )  # fmt: skip
    page.get_by_label("Why; it is kept with the change").fill("more vision")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("somebody else was faster")).to_be_visible()
    expect(page.get_by_label(f"Guaranteed of acme/vision, {H100}")).to_have_value("80")
    expect(page.get_by_text("now 72")).to_be_visible()
    fits(it, f"quotas-stale-{size}", pictures)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved: 1 row changed.")).to_be_visible()
    assert Quota.objects.get(pk=key.pk).guaranteed == 80
    line = page.get_by_role("listitem").filter(has_text="more vision")
    line.get_by_text("Undo…").click()
    line.get_by_label("Why").fill("too much")
    fits(it, f"quotas-undo-{size}", pictures)
    line.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Saved: 1 row changed.")).to_be_visible()
    assert Quota.objects.get(pk=key.pk).guaranteed == 72
    assert AuditEntry.objects.filter(object_type="quota", why="too much").count() == 1
    assert [said for said in it.wrong if "412" not in said and "/quotas" not in said] == []


def test_an_owner_asks_and_an_admin_grants_a_part(
    browser: Browser, front: str, scene: Scene, pictures: Path | None
) -> None:
    furnish(scene)
    it = visit(browser, front, "phone", who="mia")
    it.page.goto(f"{front}/quotas/requests")
    it.page.get_by_label("GPUs, beside what it has").fill("24")
    it.page.get_by_label("Why").last.fill("a bigger model")
    fits(it, "quota-requests-phone", pictures)
    it.page.get_by_role("button", name="Ask").click()
    expect(it.page.get_by_text("Asked. An admin")).to_be_visible()
    admin = visit(browser, front, "wide", "dark", who="ada")
    admin.page.goto(f"{front}/quotas/requests")
    row = admin.page.get_by_role("row").filter(has_text="a bigger model")
    row.get_by_text("Approve…").click()
    row.get_by_label("GPUs").fill("12")
    row.get_by_label("Comment").first.fill("half of it")
    fits(admin, "quota-requests-wide", pictures)
    row.get_by_role("button", name="Approve").click()
    expect(admin.page.get_by_text("The request is granted.")).to_be_visible()
    held = QuotaRequest.objects.get(why="a bigger model")
    assert (held.state, held.granted_gpus, held.comment) == ("approved", 12, "half of it")
    assert it.wrong == admin.wrong == []
