"""The page of quotas shows the limits of tenants that one may see."""

import pytest

from quotas.services.limits import Whose, set_limit
from tenancy.models import Tenant
from tests.pages.scene import Scene
from tests.pages.test_quotas import browser, words

HOUR_MS = 3_600_000


@pytest.fixture
def bounded(scene: Scene) -> None:
    for path, whose, bounds in (
        ("acme", Whose("user"), {"running_gpus": 1064}),
        ("acme/vision", Whose("user", scene.mia), {"waiting_jobs": 7}),
        ("acme/vision", Whose("label", label="kind", text="<b>x"), {"longest_ms": 36 * HOUR_MS}),
        ("rival", Whose(), {"running_jobs": 313}),
    ):
        tenant = Tenant.objects.get(path=path)
        set_limit(actor=None, tenant=tenant, whose=whose, now=scene.now, **bounds)


@pytest.mark.usefixtures("bounded")
def test_an_admin_sees_all_and_a_filter_narrows_them(scene: Scene) -> None:
    ada = browser(scene.admin)
    shown = words(ada.get("/quotas"))
    for line in (
        "acme each person 1,064 any any any",
        "acme/vision mia any any 7 any",
        "acme/vision label kind=<b>x any any any 1 d 12 h",
        "rival all jobs together any 313 any any",
    ):
        assert line in shown
    assert b"<b>x" not in ada.get("/quotas").content
    narrowed = words(ada.get("/quotas?tenant=acme/vision"))
    assert "label kind=<b>x" in narrowed
    assert "1,064 any" not in narrowed


@pytest.mark.usefixtures("bounded")
def test_others_see_only_what_is_theirs(scene: Scene) -> None:
    assert "313 any" not in words(browser(scene.mia).get("/quotas"))
    assert "all jobs together any 313 any any" in words(browser(scene.rival).get("/quotas"))


def test_without_limits_it_says_so(scene: Scene) -> None:
    assert "No limits" in words(browser(scene.admin).get("/quotas"))
