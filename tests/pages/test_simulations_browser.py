"""The pages of simulations in a real browser: asked for, followed while it goes, compared."""

from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, expect

from federation.models import Simulation
from federation.services.simulate import take_simulation, work_off
from federation.services.simulations import tell
from tenancy.services.records import ring
from tests.pages.past import give_past, give_quotas
from tests.pages.scene import Scene
from tests.pages.test_browser import (
    SIZES,
    WAIT_MS,
    browser,
    chromium,
    front,
    pictures,
    scene,
    visit,
)
from tests.pages.test_quotas_browser import fits

__all__ = ["browser", "chromium", "front", "pictures", "scene"]  # fixtures of this module too
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("size", list(SIZES))
def test_an_admin_asks_follows_and_compares(
    browser: Browser, front: str, scene: Scene, size: str, pictures: Path | None
) -> None:
    give_quotas(scene)
    give_past(scene, 100)
    it = visit(browser, front, size, "light" if size == "wide" else "dark", who="ada")
    page = it.page
    page.goto(f"{front}/quotas")
    page.get_by_role("link", name="Simulate a policy").click()
    other = page.get_by_label("Policy B, YAML")
    text = other.input_value()
    assert "guaranteed: 96" in text
    other.fill(text.replace("guaranteed: 96", "guaranteed: ninety"))
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_text("row 3, guaranteed: 'ninety' is no whole number")).to_be_visible()
    fits(it, f"simulations-wrong-{size}", pictures)
    other.fill(text.replace("guaranteed: 96", "guaranteed: 32"))
    page.get_by_label("The jobs of").select_option("2")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_text("It waits for its turn")).to_be_visible()
    expect(page.locator("#live-sign")).to_have_text("Live")
    taken = take_simulation(now=timezone.now())
    assert taken is not None
    Simulation.objects.update(progress=37)
    taken.progress = 37
    tell(taken, timezone.now())
    ring()
    expect(page.get_by_text("37 % done")).to_be_visible(timeout=WAIT_MS)
    fits(it, f"simulation-running-{size}", pictures)
    Simulation.objects.update(lease_until=scene.now)  # its worker is gone; another takes it
    assert work_off(clock=timezone.now) == 1
    ring()
    expect(page.get_by_role("heading", name="By tenant")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("B against A")).to_be_visible()
    fits(it, f"simulation-{size}", pictures)
    page.get_by_role("link", name="Simulations").click()
    expect(page.get_by_role("row").filter(has_text="done")).to_have_count(1)
    fits(it, f"simulations-{size}", pictures)
    assert [said for said in it.wrong if "422" not in said and "/simulations" not in said] == []
