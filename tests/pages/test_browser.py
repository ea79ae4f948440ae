"""Pages in a real browser, before real web and stream processes."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect, sync_playwright

from clusters.models import Cluster
from federation.models import Job, Telling
from federation.selectors.cases import find_cases
from tenancy.models import AuditEntry, User
from tenancy.services.records import ring
from tests.pages import scene as scenes
from tests.pages import trouble
from tests.pages.scene import PASSWORD, Scene, tell
from tests.pages.servers import stream, web

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
WAIT_MS = 12_000  # below the 15 s after which a page refreshes without an event
PATIENCE_MS = 60_000  # for all that no event has to do
SIZES = {"wide": (1440, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def front(django_db_setup: None) -> Iterator[str]:
    """Muster's one origin: the stream process before the web process."""
    with web() as upstream, stream(upstream) as url:
        yield url


@pytest.fixture
def scene(transactional_db: None) -> Scene:
    return scenes.build()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        # Playwright keeps an event loop in this thread; queries run between its calls.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        expect.set_options(timeout=PATIENCE_MS)
        with playwright.chromium.launch(executable_path=found, headless=True, args=ARGUMENTS) as it:
            yield it


@pytest.fixture
def browser(chromium: Browser, scene: Scene) -> Iterator[Browser]:
    yield chromium
    for context in chromium.contexts:
        context.close()


@dataclass
class Visit:
    """A signed-in page that notes what goes wrong in it."""

    page: Page
    front: str
    wrong: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(self.front + path)
        if path != "/jobs/new":
            expect(self.page.locator("#live-sign")).to_have_text("Live")

    def picture(self, path: Path | None) -> None:
        """The whole page, for people to look at; it takes as long as all else."""
        if path:
            self.page.screenshot(path=path, full_page=True)


@pytest.fixture
def pictures(pytestconfig: pytest.Config) -> Path | None:
    """Where pictures go, if anybody asked for some."""
    wanted = pytestconfig.getoption("--screenshots")
    return Path(wanted) if wanted else None


def visit(
    browser: Browser, front: str, size: str = "wide", theme: str = "light", who: str = "mia"
) -> Visit:
    """A page of somebody who is signed in; passwords are slow on purpose, so none is asked."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,  # type: ignore[arg-type]
        has_touch=size == "phone",
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    it = Visit(page, front)
    page.on("console", lambda said: it.wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: it.wrong.append(str(error)))
    page.on("response", lambda got: it.wrong.append(got.url) if got.status >= 400 else None)
    client = Client()
    client.force_login(User.objects.get(username=who))
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": front}])
    return it


def sign_in(it: Visit, who: str) -> None:
    """Through the form, as people do."""
    it.page.context.clear_cookies()
    it.page.goto(f"{it.front}/")
    it.page.get_by_label("Name").fill(who)
    it.page.get_by_label("Password").fill(PASSWORD)
    it.page.get_by_role("button", name="Sign in").click()
    expect(it.page.get_by_role("heading", name="Overview")).to_be_visible()


def test_the_queue_follows_what_happens_and_keeps_what_is_open(
    browser: Browser, front: str, scene: Scene
) -> None:
    it = visit(browser, front)
    it.go("/queue")
    row = it.page.get_by_role("row").filter(has_text="moe-1t")
    row.get_by_text("and 1 more place").click()
    expect(row.get_by_text("basalt takes no new work.")).to_be_visible()
    job = scene.jobs["tts-multilingual"]
    Job.objects.filter(pk=job.pk).update(state="held", held_by="owner")
    tell(job, "job.held", "held_by_owner", timezone.now())
    ring()
    gone = it.page.get_by_role("row").filter(has_text="tts-multilingual")
    expect(gone).to_have_count(0, timeout=WAIT_MS)
    expect(row.get_by_text("basalt takes no new work.")).to_be_visible()
    assert it.wrong == []


def test_a_job_page_moves_with_its_job_and_its_buttons_work(
    browser: Browser, front: str, scene: Scene
) -> None:
    it = visit(browser, front)
    job = scene.jobs["just-in"]
    it.go(f"/jobs/{job.uuid}")
    Telling.objects.create(job=job, version=job.version, reasons=[
        {"cluster": "alpine", "flavor": "h100-sxm-80", "code": "no_capacity", "message": "It is full."}
    ])  # fmt: skip
    tell(scene.jobs["moe-1t"], "job.changed", "", timezone.now())  # another job's: no refresh
    tell(job, "job.queued", "vanished", timezone.now(), cluster="alpine")
    ring()
    expect(it.page.get_by_text("It is full.")).to_be_visible(timeout=WAIT_MS)
    expect(it.page.get_by_text("Never appeared on alpine; waits again")).to_be_visible()
    it.page.get_by_role("button", name="Hold").click()
    expect(it.page.get_by_text("The job is held; it starts nowhere")).to_be_visible()
    it.page.get_by_text("Cancel…").click()
    it.page.get_by_role("button", name="Cancel the job").click()
    expect(it.page.get_by_text("The job is cancelled; if it runs")).to_be_visible()
    assert it.wrong == []


def test_the_keyboard_reaches_the_content_and_the_theme_is_kept(
    browser: Browser, front: str
) -> None:
    it = visit(browser, front)
    sign_in(it, "mia")
    it.go("/clusters")
    it.page.keyboard.press("Tab")
    expect(it.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    it.page.get_by_role("button", name="Switch between light and dark").click()
    it.page.reload()
    expect(it.page.locator("html")).to_have_attribute("data-theme", "dark")
    assert it.wrong == []


def test_the_admin_works_under_the_content_policy(
    browser: Browser, front: str, scene: Scene
) -> None:
    it = visit(browser, front, who="ada")
    for path in (
        "/admin/",
        "/admin/clusters/cluster/",
        f"/admin/clusters/cluster/{scene.alpine.pk}/",
    ):
        it.page.goto(front + path)
        expect(it.page.locator("#content")).to_be_visible()
    assert it.wrong == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
def test_every_page_fits_and_is_pictured(
    browser: Browser, front: str, scene: Scene, size: str, theme: str,
    pictures: Path | None,
) -> None:  # fmt: skip
    pages = {
        "overview": "/",
        "clusters": "/clusters",
        "cluster": "/clusters/alpine",
        "queue": "/queue",
        "jobs": "/jobs",
        "job": f"/jobs/{scene.jobs['llm-pretrain-70b'].uuid}",
        "waiting": f"/jobs/{scene.jobs['moe-1t'].uuid}",
        "new": "/jobs/new",
    }
    it = visit(browser, front, size, theme)
    for name, path in pages.items():
        it.go(path)
        wide = it.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} scrolls sideways by {wide} px"
        it.picture(pictures and pictures / f"{name}-{size}-{theme}.png")
    assert it.wrong == []


@pytest.mark.parametrize("size", list(SIZES))
def test_an_admin_sees_what_a_cluster_can_do_and_drains_it_with_a_reason(
    browser: Browser, front: str, scene: Scene, size: str,
    pictures: Path | None,
) -> None:  # fmt: skip
    findings = [
        {"capability": "accounting", "is_on": True, "detail": "9 associations", "fix": ""},
        {"capability": "clock", "is_on": False, "detail": "9 s ahead", "fix": "run an NTP client"},
    ]
    Cluster.objects.filter(pk=scene.alpine.pk).update(
        probe={"v": 1, "at": "2026-11-30T10:00:00Z", "findings": findings}
    )
    it = visit(browser, front, size, who="ada")
    it.go("/clusters/alpine")
    expect(it.page.get_by_text("run an NTP client")).to_be_visible()
    it.page.get_by_text("Drain…").click()
    it.page.get_by_role("textbox", name="Why").first.fill("new switches")
    it.picture(pictures and pictures / f"cluster-admin-{size}-light.png")
    wide = it.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"scrolls sideways by {wide} px"
    it.page.get_by_role("button", name="Drain alpine").click()
    expect(it.page.get_by_text("The cluster is draining.")).to_be_visible()
    assert Cluster.objects.get(pk=scene.alpine.pk).state == "draining"
    assert AuditEntry.objects.get(action="drain").why == "new switches"
    it.page.get_by_text("Open…").click()
    it.page.get_by_role("button", name="Open alpine").click()
    expect(it.page.get_by_text("The cluster is open.")).to_be_visible()
    assert it.wrong == []


def test_the_reconcilers_pages_fit_and_a_lost_attempt_is_forgotten_with_a_reason(
    browser: Browser,
    front: str,
    scene: Scene,
    pictures: Path | None,
) -> None:
    trouble.make(scene)
    phone = visit(browser, front, "phone", "dark", who="ada")
    look(phone, scene, "phone", pictures)
    phone.page.context.close()  # else it goes on refreshing a case that is settled below
    wide = visit(browser, front, "wide", "light", who="ada")
    look(wide, scene, "wide", pictures)
    forget(wide, scene)
    assert phone.wrong == wide.wrong == []


def look(it: Visit, scene: Scene, size: str, pictures: Path | None) -> None:
    """Visits its three kinds of page; none may scroll sideways."""
    found = {finding.kind.value: finding.id for finding in find_cases(scene.now)}
    pages = {
        "reconciler": "/reconciler",
        "case": f"/reconciler/{found['duplicate']}",
        "act": f"/reconciler/{found['lost']}/resubmit",
    }
    for name, path in pages.items():
        it.page.goto(it.front + path)
        expect(it.page.locator("#live")).to_be_visible()
        wide = it.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} scrolls sideways by {wide} px"
        it.picture(pictures and pictures / f"{name}-{size}.png")


def forget(it: Visit, scene: Scene) -> None:
    """From the list over the preview to what came of it."""
    job = scene.jobs["llm-pretrain-70b"]
    it.page.get_by_role("link", name="Reconciler").first.click()
    row = it.page.get_by_role("row").filter(has_text="Lost on alpine")
    row.get_by_role("link", name="Forget…").click()
    expect(it.page.get_by_role("heading", name="Forget?")).to_be_visible()
    expect(it.page.get_by_text("nothing is done yet")).to_be_visible()
    assert Job.objects.get(pk=job.pk).state == "unknown"
    it.page.get_by_label("Why").fill("alpine was rebuilt")
    it.page.get_by_role("button", name="Forget now").click()
    expect(it.page.get_by_text("Done. Ends the attempt as lost")).to_be_visible()
    expect(it.page.get_by_role("row").filter(has_text="Lost on alpine")).to_have_count(0)
    assert Job.objects.get(pk=job.pk).state == "failed"
    assert AuditEntry.objects.get(object_type="case").why == "alpine was rebuilt"
