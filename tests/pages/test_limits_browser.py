"""The page of limits in a real browser: an admin changes them, an owner adds one on a phone."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from quotas.models import Limit
from quotas.services.limits import Whose, set_limit
from tenancy.models import AuditEntry, Tenant
from tests.pages.scene import Scene
from tests.pages.test_browser import (
    SIZES,
    browser,
    chromium,
    front,
    pictures,
    scene,
    visit,
)
from tests.pages.test_quotas_browser import fits, furnish

__all__ = ["browser", "chromium", "front", "pictures", "scene"]  # fixtures of this module too
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
HOUR_MS = 3_600_000


def bound(scene: Scene, path: str, whose: Whose, **bounds: int) -> Limit:
    tenant = Tenant.objects.get(path=path)
    return set_limit(
        actor=scene.admin, tenant=tenant, whose=whose, now=scene.now, why="first", **bounds
    )


def some(scene: Scene) -> None:
    furnish(scene)
    bound(scene, "acme", Whose("user"), running_gpus=64, waiting_jobs=200)
    bound(scene, "acme/vision", Whose("user", scene.mia), running_jobs=12)
    kind = Whose("label", label="kind", text="sweep")
    bound(scene, "acme/vision", kind, running_gpus=32, longest_ms=12 * HOUR_MS)
    bound(scene, "rival", Whose(), longest_ms=72 * HOUR_MS)


@pytest.mark.parametrize("size", list(SIZES))
def test_an_admin_changes_limits_on_the_page_of_quotas(
    browser: Browser, front: str, scene: Scene, size: str, pictures: Path | None
) -> None:
    some(scene)
    it = visit(browser, front, size, "light" if size == "wide" else "dark", who="ada")
    page = it.page
    page.goto(f"{front}/quotas")
    fits(it, f"quotas-with-limits-{size}", pictures)
    page.get_by_label("GPUs running of acme, each person").fill("48")
    page.get_by_label("Take away rival, all jobs together").check()
    limits = page.get_by_role("region", name="Limits")
    limits.get_by_role("button", name="What would change…").click()
    expect(page.get_by_text("GPUs running 64 → 48")).to_be_visible()
    expect(page.get_by_text("taken away (Longest time limit 3 d)")).to_be_visible()
    fits(it, f"limits-plan-{size}", pictures)
    bound(scene, "acme", Whose("user"), running_gpus=56)
    page.get_by_label("Why; it is kept with the change").fill("room for all")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("somebody else was faster")).to_be_visible()
    expect(page.get_by_label("GPUs running of acme, each person")).to_have_value("48")
    expect(page.get_by_text("now 56")).to_be_visible()
    expect(page.get_by_label("Take away rival, all jobs together")).to_be_checked()
    fits(it, f"limits-stale-{size}", pictures)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved: 2 limits changed.")).to_be_visible()
    fits(it, f"limits-saved-{size}", pictures)
    assert Limit.objects.get(tenant__path="acme").running_gpus == 48
    assert not Limit.objects.filter(tenant__path="rival").exists()
    assert AuditEntry.objects.filter(object_type="limit", why="room for all").count() == 2
    assert [said for said in it.wrong if "412" not in said and "/quotas" not in said] == []


def test_an_owner_adds_a_limit_and_is_told_what_is_wrong(
    browser: Browser, front: str, scene: Scene, pictures: Path | None
) -> None:
    some(scene)
    it = visit(browser, front, "phone", who="mia")
    page = it.page
    page.goto(f"{front}/quotas")
    page.get_by_role("link", name="Limits").click()
    expect(page.get_by_label("GPUs running of acme, each person")).to_have_count(0)
    page.get_by_label("One more: tenant").fill("acme/speech")
    page.get_by_label("Of", exact=True).select_option("one person")
    page.get_by_label("Name, or name=text").fill("nobody")
    page.get_by_label("Longest time limit").last.fill("soon")
    page.get_by_role("button", name="What would change…").last.click()
    expect(page.get_by_text("There is no such person.")).to_be_visible()
    expect(page.get_by_text("Give a time such as")).to_be_visible()
    fits(it, "limits-wrong-phone", pictures)
    page.get_by_label("Name, or name=text").fill("noor")
    page.get_by_label("Longest time limit").last.fill("36:00:00")
    page.get_by_role("button", name="What would change…").last.click()
    expect(page.get_by_text("new: Longest time limit 1 d 12 h")).to_be_visible()
    page.get_by_label("Why; it is kept with the change").fill("as agreed")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved: 1 limit changed.")).to_be_visible()
    held = Limit.objects.get(tenant__path="acme/speech")
    assert (str(held.user), held.longest_ms) == ("noor", 36 * HOUR_MS)
    assert [said for said in it.wrong if "422" not in said and "/quotas" not in said] == []
