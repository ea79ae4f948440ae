"""The limits of tenants on the pages: who sees and changes which, what is refused, and how it is saved."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from federation.core.spec.quantities import read_duration_ms
from federation.views.limit_form import clock_text
from quotas.models import Limit
from quotas.services.limits import LONGEST_MS, Whose, remove_limit, set_limit
from tenancy.models import AuditEntry, Tenant
from tests.pages.scene import Scene
from tests.pages.test_quotas import browser, quotas, words

__all__ = ["quotas"]  # a fixture of this module too: Mia owns acme
HOUR_MS = 3_600_000
PAGE = "/quotas/limits"
NAMES = ("running_gpus", "running_jobs", "waiting_jobs", "longest_ms")


@pytest.fixture
def bounded(scene: Scene) -> dict[str, Limit]:
    """Four limits, by what they are of."""
    given = {
        "each": ("acme", Whose("user"), {"running_gpus": 1064}),
        "mia": ("acme/vision", Whose("user", scene.mia), {"waiting_jobs": 7}),
        "kind": ("acme/vision", Whose("label", label="kind", text="<b>x"), {"longest_ms": 36 * HOUR_MS}),
        "rival": ("rival", Whose(), {"running_jobs": 313}),
    }  # fmt: skip
    return {
        name: put(scene, path, whose, **bounds) for name, (path, whose, bounds) in given.items()
    }


def put(scene: Scene, path: str, whose: Whose, **bounds: int) -> Limit:
    tenant = Tenant.objects.get(path=path)
    return set_limit(actor=None, tenant=tenant, whose=whose, now=scene.now, **bounds)


def sent(limit: Limit, **typed: object) -> dict[str, object]:
    """A limit as the form of the page sends it, with what was typed."""
    held = {name: getattr(limit, name) for name in NAMES[:3]}
    texts = {name: "" if value is None else str(value) for name, value in held.items()}
    texts["longest_ms"] = "" if limit.longest_ms is None else clock_text(limit.longest_ms)
    gone = {f"gone:{limit.pk}": "on"} if typed.pop("gone", False) else {}
    return {
        **{f"{name}:{limit.pk}": value for name, value in {**texts, **typed}.items()},
        f"was:{limit.pk}": "|".join(texts[name] for name in NAMES),
        f"revision:{limit.pk}": limit.revision,
        **gone,
    }


def new(path: str, scope: str = "tenant", of: str = "", **typed: object) -> dict[str, object]:
    """The row of a new limit."""
    place = {"tenant:new": path, "scope:new": scope, "of:new": of}
    return {**place, **{f"{name}:new": value for name, value in typed.items()}}


def save(client: Client, body: Mapping[str, object], why: str = "plan 27") -> Any:
    return client.post(PAGE, {**body, "act": "save", "why": why}, follow=True)


def values(page: str, limit: Limit) -> list[str]:
    """What the inputs of a limit hold."""
    return [re.findall(rf'name="{name}:{limit.pk}" value="([^"]*)"', page)[0] for name in NAMES]


def test_an_admin_sees_all_and_a_filter_narrows_them(
    scene: Scene, bounded: dict[str, Limit]
) -> None:
    ada = browser(scene.admin)
    for path in ("/quotas", PAGE):
        page = ada.get(path).content.decode()
        assert values(page, bounded["each"]) == ["1064", "", "", ""]
        assert values(page, bounded["mia"]) == ["", "", "7", ""]
        assert values(page, bounded["kind"]) == ["", "", "", "1-12:00:00"]
        assert values(page, bounded["rival"]) == ["", "313", "", ""]
        assert "label kind=&lt;b&gt;x" in page
        assert "<b>x" not in page
        narrowed = ada.get(f"{path}?tenant=acme/vision").content.decode()
        assert values(narrowed, bounded["mia"])
        assert f'was:{bounded["each"].pk}"' not in narrowed
    assert ada.get(f"{PAGE}?flavor=x").status_code == 404


@pytest.mark.usefixtures("bounded")
def test_others_see_only_what_is_theirs_and_change_nothing(scene: Scene) -> None:
    for path in ("/quotas", PAGE):
        mia = browser(scene.mia).get(path)
        assert "acme each person 1,064 any any any" in words(mia)
        assert "acme/vision label kind=<b>x any any any 1 d 12 h" in words(mia)
        assert "313" not in words(mia)
        assert b"was:" not in mia.content
        assert "all jobs together any 313 any any" in words(browser(scene.rival).get(path))
    assert Client().get(PAGE).status_code == 302


def test_without_limits_it_says_so(scene: Scene) -> None:
    for path in ("/quotas", PAGE):
        assert "No limits" in words(browser(scene.admin).get(path))


def test_a_change_is_shown_before_it_is_saved_with_a_reason(
    scene: Scene, bounded: dict[str, Limit]
) -> None:
    ada, each, rival = browser(scene.admin), bounded["each"], bounded["rival"]
    body = {**sent(each, running_gpus="64", longest_ms="90m"), **sent(rival, gone=True)}
    shown = ada.post(PAGE, body)
    assert (
        "acme, each person : GPUs running 1,064 → 64, Longest time limit any → 1 h 30 min"
        in words(shown)
    )
    assert "rival, all jobs : taken away (Jobs running 313)" in words(shown)
    assert "No job starts, is promoted, is evicted or is held back by it" in words(shown)
    assert Limit.objects.get(pk=each.pk).running_gpus == 1064
    refused = save(ada, body, why=" ")
    assert refused.status_code == 422
    assert "Say why; it is kept with the change." in words(refused)
    assert Limit.objects.get(pk=each.pk).running_gpus == 1064
    done = save(ada, body)
    assert "Saved: 2 limits changed." in words(done)
    each.refresh_from_db()
    assert (each.running_gpus, each.longest_ms, each.revision) == (64, 5_400_000, 2)
    assert not Limit.objects.filter(pk=rival.pk).exists()
    entries = AuditEntry.objects.filter(object_type="limit", why="plan 27").order_by("id")
    assert [(entry.actor, entry.action) for entry in entries] == [
        (scene.admin, "update"), (scene.admin, "remove"),
    ]  # fmt: skip
    assert (entries[0].before["running_gpus"], entries[0].after["running_gpus"]) == (1064, 64)
    history = words(ada.get(PAGE))
    assert "acme, each person: GPUs running 1,064 → 64" in history
    assert "plan 27" in history
    assert "rival" not in words(browser(scene.mia).get(PAGE))


def test_two_admins_at_once_lose_nothing_of_what_was_typed(
    scene: Scene, bounded: dict[str, Limit]
) -> None:
    ada, each = browser(scene.admin), bounded["each"]
    body = sent(each, running_gpus="64")
    put(scene, "acme", Whose("user"), running_gpus=800)
    stale = save(ada, body)
    assert stale.status_code == 412
    page = stale.content.decode()
    assert "somebody else was faster" in words(stale)
    assert values(page, each)[0] == "64"
    assert "now 800" in words(stale)
    assert Limit.objects.get(pk=each.pk).running_gpus == 800
    each.refresh_from_db()
    assert save(ada, sent(each, running_gpus="64")).status_code == 200
    assert Limit.objects.get(pk=each.pk).running_gpus == 64
    remove_limit(actor=None, tenant=each.tenant, whose=Whose("user"), now=scene.now)
    gone = save(ada, sent(each, running_gpus="32"))
    assert gone.status_code == 412
    assert "was taken away meanwhile" in words(gone)
    assert not Limit.objects.filter(tenant=each.tenant).exists()


@pytest.mark.parametrize(
    ("row", "field", "told"),
    [
        (new("acme", running_gpus="0"), "running_gpus", "from 1 to 1000000"),
        (new("acme", running_gpus="-5"), "running_gpus", "from 1 to 1000000"),
        (new("acme", running_jobs="1e3"), "running_jobs", "from 1 to 1000000"),
        (new("acme", waiting_jobs="9" * 30), "waiting_jobs", "from 1 to 1000000"),
        (new("acme", longest_ms="soon"), "longest_ms", "Give a time such as 72:00:00"),
        (new("acme", longest_ms="90"), "longest_ms", "Give a time such as 72:00:00"),
        (new("acme", longest_ms="=1+1"), "longest_ms", "Give a time such as 72:00:00"),
        (new("acme", longest_ms="400-00:00:00"), "longest_ms", "Give a time such as 72:00:00"),
        (new("acme"), "running_gpus", "Bound something"),
        (new("mars", running_jobs="1"), "tenant", "There is no such tenant"),
        (new("", running_jobs="1"), "tenant", "Name the tenant."),
        (new("acme", "user", "nobody", running_jobs="1"), "of", "There is no such person."),
        (new("acme", "user", "", running_jobs="1"), "of", "There is no such person."),
        (new("acme", "user", "a\0b", running_jobs="1"), "of", "There is no such person."),
        (new("acme", "label", "kind", running_jobs="1"), "of", "Give name=text."),
        (new("acme", "label", "a b=x", running_jobs="1"), "of", "label's name"),
        (new("acme", "each", "mia", running_jobs="1"), "of", "Leave it empty"),
        (new("acme", "tenant", "a=b", running_jobs="1"), "of", "Leave it empty"),
        (new("acme", "group", running_jobs="1"), "of", "Give one of tenant, user, label."),
        (new("acme", "each", running_jobs="1"), "tenant", "has a limit for each person already"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_at_its_place_and_nothing_changes(
    scene: Scene, bounded: dict[str, Limit], row: dict[str, object], field: str, told: str
) -> None:
    ids = {"of": "limit-whose", "tenant": "limit-tenant", "running_gpus": "limit-gpus"}
    ids |= {
        "running_jobs": "limit-jobs",
        "waiting_jobs": "limit-waiting",
        "longest_ms": "limit-time",
    }
    for act in ("preview", "save"):
        body = {**sent(bounded["rival"], running_jobs="5"), **row}
        answer = browser(scene.admin).post(PAGE, {**body, "act": act, "why": "x"})
        assert answer.status_code == 422, act
        page = answer.content.decode()
        (wrong,) = re.findall(rf'<p class="wrong" id="wrong-{ids[field]}-1">([^<]*)', page)
        assert told in wrong.replace("&#x27;", "'")
        assert values(page, bounded["rival"])[1] == "5"
    assert Limit.objects.get(pk=bounded["rival"].pk).running_jobs == 313
    assert Limit.objects.count() == 4


def test_limits_of_each_kind_are_added(scene: Scene) -> None:
    ada = browser(scene.admin)
    for row in (
        new("acme", "tenant", running_jobs="8"),
        new("acme/vision", "each", running_gpus="16"),
        new("acme", "user", "mia", waiting_jobs="5"),
        new("acme", "label", "kind=a=b", longest_ms="3-00:00:00"),
    ):
        assert "Saved: 1 limit changed." in words(save(ada, row))
    rows = Limit.objects.order_by("id").values_list(
        "tenant__path", "scope", "user", "label", "text", *NAMES
    )
    assert list(rows) == [
        ("acme", "tenant", None, "", "", None, 8, None, None),
        ("acme/vision", "user", None, "", "", 16, None, None, None),
        ("acme", "user", scene.mia.pk, "", "", None, None, 5, None),
        ("acme", "label", None, "kind", "a=b", None, None, None, 72 * HOUR_MS),
    ]  # fmt: skip
    nothing = ada.post(PAGE, sent(Limit.objects.all()[0]), follow=True)
    assert "Nothing was changed in the table." in words(nothing)
    last = Limit.objects.get(scope="label")
    same = ada.post(PAGE, sent(last, longest_ms="72:00:00"), follow=True)
    assert "That is what is set already." in words(same)
    assert AuditEntry.objects.filter(object_type="limit").count() == 4


@pytest.mark.usefixtures("quotas")
def test_an_owner_changes_what_is_below_only(scene: Scene, bounded: dict[str, Limit]) -> None:
    mia = browser(scene.mia)
    page = mia.get(PAGE).content.decode()
    assert f"was:{bounded['mia'].pk}" in page
    assert f"was:{bounded['each'].pk}" not in page  # of acme itself: for who stands above
    body = {**sent(bounded["mia"], waiting_jobs="3"), **sent(bounded["rival"], running_jobs="1")}
    lost = save(mia, body)  # what is not hers is as if it were not there
    assert lost.status_code == 412
    done = save(mia, sent(bounded["mia"], waiting_jobs="3"))
    assert "Saved: 1 limit changed." in words(done)
    for path in ("acme", "rival", "rival/x"):
        refused = save(mia, new(path, running_jobs="1"))
        assert refused.status_code == 422
        assert "not yours to set" in words(refused)
    assert "Saved" in words(save(mia, new("acme/speech", "each", running_jobs="2")))
    assert set(Limit.objects.values_list("tenant__path", "running_jobs", "waiting_jobs")) == {
        ("acme", None, None), ("acme/vision", None, 3), ("acme/vision", None, None),
        ("rival", 313, None), ("acme/speech", 2, None),
    }  # fmt: skip


def test_queries_do_not_grow_with_limits(scene: Scene) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert ada.get(PAGE).status_code == 200
        return len(seen)

    ada = browser(scene.admin)
    put(scene, "acme", Whose("label", label="n", text="0"), running_jobs=1)
    before = queries()
    for number in range(1, 130):
        put(scene, "acme", Whose("label", label="n", text=str(number)), running_jobs=1)
    assert queries() == before <= 14
    page = ada.get(PAGE)
    assert page.content.count(b"was:") == 120
    assert "10 more are not shown" in words(page)
    limit = Limit.objects.order_by("text")[0]
    assert "Saved" in words(save(ada, sent(limit, running_jobs="2")))


@given(st.integers(1, LONGEST_MS // 1000))
def test_a_time_limit_is_read_as_it_is_shown(seconds: int) -> None:
    assert read_duration_ms(clock_text(seconds * 1000)) == seconds * 1000
