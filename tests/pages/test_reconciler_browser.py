"""The reconciler in a real browser: how it looks, wide and on a phone; preview, reason, done."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from federation.models import Job
from federation.selectors.cases import find_cases
from tenancy.models import AuditEntry
from tests.pages import trouble
from tests.pages.scene import Scene

# The fixtures are found by their names.
from tests.pages.test_browser import Visit, browser, front, scene, visit  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
WAIT_MS = 60_000


def test_its_pages_fit_and_a_lost_attempt_is_forgotten_with_a_reason(
    browser: Browser,  # noqa: F811
    front: str,  # noqa: F811
    scene: Scene,  # noqa: F811
    pytestconfig: pytest.Config,
    tmp_path: Path,
) -> None:
    trouble.make(scene)
    directory = Path(pytestconfig.getoption("--screenshots") or tmp_path)
    directory.mkdir(parents=True, exist_ok=True)
    phone = visit(browser, front, "phone", "dark", who="ada")
    picture(phone, scene, directory / "phone")
    phone.page.context.close()  # else it goes on refreshing a case that is settled below
    wide = visit(browser, front, "wide", "light", who="ada")
    picture(wide, scene, directory / "wide")
    forget(wide, scene)
    assert phone.wrong == wide.wrong == []


def picture(it: Visit, scene: Scene, stem: Path) -> None:  # noqa: F811
    """Visits its three kinds of page; none may scroll sideways."""
    found = {finding.kind.value: finding.id for finding in find_cases(scene.now)}
    pages = {
        "reconciler": "/reconciler",
        "case": f"/reconciler/{found['duplicate']}",
        "act": f"/reconciler/{found['lost']}/resubmit",
    }
    for name, path in pages.items():
        it.page.goto(it.front + path)
        expect(it.page.locator("#live")).to_be_visible(timeout=WAIT_MS)
        wide = it.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} scrolls sideways by {wide} px"
        it.page.screenshot(path=stem.with_name(f"{name}-{stem.name}.png"), full_page=True)


def forget(it: Visit, scene: Scene) -> None:  # noqa: F811
    """From the list over the preview to what came of it."""
    job = scene.jobs["llm-pretrain-70b"]
    it.page.get_by_role("link", name="Reconciler").first.click()
    row = it.page.get_by_role("row").filter(has_text="Lost on alpine")
    row.get_by_role("link", name="Forget…").click()
    expect(it.page.get_by_role("heading", name="Forget?")).to_be_visible(timeout=WAIT_MS)
    expect(it.page.get_by_text("nothing is done yet")).to_be_visible()
    assert Job.objects.get(pk=job.pk).state == "unknown"
    it.page.get_by_label("Why").fill("alpine was rebuilt")
    it.page.get_by_role("button", name="Forget now").click()
    expect(it.page.get_by_text("Done. Ends the attempt as lost")).to_be_visible(timeout=WAIT_MS)
    expect(it.page.get_by_role("row").filter(has_text="Lost on alpine")).to_have_count(0)
    assert Job.objects.get(pk=job.pk).state == "failed"
    assert AuditEntry.objects.get(object_type="case").why == "alpine was rebuilt"
