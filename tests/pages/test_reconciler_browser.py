"""The reconciler in a real browser: preview, reason, done; and how it looks, wide and on a phone."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from federation.models import Job
from federation.selectors.cases import find_cases
from tenancy.models import AuditEntry
from tests.pages import trouble
from tests.pages.scene import Scene

# The fixtures are found by their names.
from tests.pages.test_browser import SIZES, browser, front, scene, visit  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_lost_attempt_is_forgotten_with_a_reason(
    browser: Browser,  # noqa: F811
    front: str,  # noqa: F811
    scene: Scene,  # noqa: F811
) -> None:
    trouble.make(scene)
    it = visit(browser, front, who="ada")
    it.page.get_by_role("link", name="Reconciler").click()
    row = it.page.get_by_role("row").filter(has_text="Lost on alpine")
    row.get_by_role("link", name="Forget…").click()
    expect(it.page.get_by_role("heading", name="Forget?")).to_be_visible()
    expect(it.page.get_by_text("nothing is done yet")).to_be_visible()
    job = scene.jobs["llm-pretrain-70b"]
    assert Job.objects.get(pk=job.pk).state == "unknown"
    it.page.get_by_label("Why").fill("alpine was rebuilt")
    it.page.get_by_role("button", name="Forget now").click()
    expect(it.page.get_by_text("Done. Ends the attempt as lost")).to_be_visible(timeout=60_000)
    expect(it.page.get_by_role("row").filter(has_text="Lost on alpine")).to_have_count(0)
    assert Job.objects.get(pk=job.pk).state == "failed"
    assert AuditEntry.objects.get(object_type="case").why == "alpine was rebuilt"
    assert it.wrong == []


@pytest.mark.parametrize("size", list(SIZES))
def test_its_pages_fit_and_are_pictured(
    browser: Browser,  # noqa: F811
    front: str,  # noqa: F811
    scene: Scene,  # noqa: F811
    size: str,
    pytestconfig: pytest.Config,
    tmp_path: Path,
) -> None:
    trouble.make(scene)
    directory = Path(pytestconfig.getoption("--screenshots") or tmp_path)
    directory.mkdir(parents=True, exist_ok=True)
    found = {finding.kind.value: finding.id for finding in find_cases(scene.now)}
    pages = {
        "reconciler": "/reconciler",
        "case": f"/reconciler/{found['duplicate']}",
        "act": f"/reconciler/{found['lost']}/resubmit",
    }
    it = visit(browser, front, size, "light" if size == "wide" else "dark", who="ada")
    for name, path in pages.items():
        it.go(path)
        wide = it.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} scrolls sideways by {wide} px"
        it.page.screenshot(path=directory / f"{name}-{size}.png", full_page=True)
    assert it.wrong == []
