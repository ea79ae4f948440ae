"""The pages of quotas: what they show to whom, what they change, and what they refuse."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from clusters.models import Flavor
from quotas.models import Quota, QuotaRequest
from quotas.services.requests import Wish, ask
from quotas.services.rows import set_quota
from tenancy.models import AuditEntry, Role, Tenant, User
from tenancy.services.access import create_tenant, set_member
from tests.pages.scene import Scene

H100 = "h100-sxm-80"
OWED = {"acme": 128, "acme/vision": 64, "acme/speech": 32, "rival": 96}


@pytest.fixture
def quotas(scene: Scene) -> dict[str, Quota]:
    """The scene with quotas; Mia owns acme besides."""
    set_member(
        actor=None, tenant=Tenant.objects.get(path="acme"), user=scene.mia, role=Role.OWNER,
        now=scene.now,
    )  # fmt: skip
    return {path: put(scene, path, gpus) for path, gpus in OWED.items()}


def put(scene: Scene, path: str, gpus: int, **more: Any) -> Quota:
    return set_quota(
        actor=more.pop("actor", None), tenant=Tenant.objects.get(path=path),
        flavor=Flavor.objects.get(name=H100), guaranteed=gpus, now=scene.now, **more,
    )  # fmt: skip


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def sent(quota: Quota, **typed: object) -> dict[str, object]:
    """A row as the form of the page sends it, with what was typed."""
    key, weight = quota.pk, quota.weight
    fields = {"guaranteed": quota.guaranteed, "borrowing_limit": "", "lending_limit": ""}
    fields |= {"weight": weight, **typed}
    return {
        **{f"{name}:{key}": value for name, value in fields.items()},
        f"was:{key}": f"{quota.guaranteed}|||{weight}",
        f"revision:{key}": quota.revision,
    }


def words(response: Any) -> str:
    """The text of a page, white space made one."""
    text = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", response.content.decode(), flags=re.S)
    return " ".join(unescape(text).split())


def guaranteed(path: str) -> int:
    return Quota.objects.get(tenant__path=path).guaranteed


@pytest.mark.usefixtures("quotas")
def test_everybody_sees_their_own_tree_and_sums_of_all(scene: Scene) -> None:
    page = words(browser(scene.admin).get("/quotas"))
    assert "256 GPUs in the clusters, 224 guaranteed, 32 promised to nobody" in page
    assert "acme/vision" in page
    assert "rival" in page
    mia = words(browser(scene.mia).get("/quotas"))
    assert "acme/speech" in mia
    assert "rival" not in mia
    assert "rival" not in browser(scene.mia).get("/quotas/export?format=csv").content.decode()
    stranger = words(browser(scene.stranger).get("/quotas"))
    assert "acme" not in stranger
    assert "What would change" not in stranger


def test_a_change_is_shown_before_it_is_saved_with_a_reason(
    scene: Scene, quotas: dict[str, Quota]
) -> None:
    ada = browser(scene.admin)
    row = sent(quotas["acme/vision"], guaranteed=96, weight=2)
    shown = ada.post("/quotas", {**row, "act": "preview"})
    assert shown.status_code == 200
    assert "acme/vision, h100-sxm-80 : guaranteed 64 → 96, weight 1 → 2" in words(shown)
    assert "nothing is saved yet" in words(shown)
    assert guaranteed("acme/vision") == 64
    refused = ada.post("/quotas", {**row, "act": "save", "why": " "})
    assert refused.status_code == 422
    assert "Say why" in words(refused)
    assert 'value="96"' in refused.content.decode()
    saved = ada.post("/quotas", {**row, "act": "save", "why": "plan 27"}, follow=True)
    assert "Saved: 1 row changed." in words(saved)
    entry = AuditEntry.objects.filter(object_type="quota").latest("id")
    assert (entry.actor, entry.action, entry.why) == (scene.admin, "update", "plan 27")
    assert (entry.before["guaranteed"], entry.after["guaranteed"]) == (64, 96)
    assert "plan 27" in words(saved)
    assert guaranteed("acme/vision") == 96


def test_two_admins_at_once_lose_nothing_of_what_was_typed(
    scene: Scene, quotas: dict[str, Quota]
) -> None:
    old = quotas["acme/vision"]
    put(scene, "acme/vision", 48)
    response = browser(scene.admin).post(
        "/quotas", {**sent(old, guaranteed=80), "act": "save", "why": "plan 27"}
    )
    assert response.status_code == 412
    page = response.content.decode()
    assert "somebody else was faster" in page
    assert 'value="80"' in page
    assert "now 48" in page
    assert 'value="plan 27"' in page
    assert guaranteed("acme/vision") == 48
    now = Quota.objects.get(pk=old.pk)
    assert f'name="revision:{now.pk}" value="{now.revision}"' in page
    again = {**sent(now, guaranteed=80), "act": "save", "why": "plan 27"}
    assert browser(scene.admin).post("/quotas", again).status_code == 302
    assert guaranteed("acme/vision") == 80


def test_what_another_changed_beside_my_edit_is_no_edit_of_mine(
    scene: Scene, quotas: dict[str, Quota]
) -> None:
    body = {**sent(quotas["acme/vision"]), **sent(quotas["acme/speech"], guaranteed=16)}
    put(scene, "acme/vision", 48)
    response = browser(scene.admin).post("/quotas", {**body, "act": "save", "why": "less"})
    assert response.status_code == 302
    assert (guaranteed("acme/vision"), guaranteed("acme/speech")) == (48, 16)


@pytest.mark.parametrize(
    ("typed", "status", "told"),
    [
        ({"guaranteed": "8T"}, 422, "no whole number of GPUs"),
        ({"guaranteed": "=2+3"}, 422, "no whole number of GPUs"),
        ({"guaranteed": "-1"}, 422, "no whole number of GPUs"),
        ({"guaranteed": ""}, 422, "Give guaranteed."),
        ({"guaranteed": "9" * 12}, 422, "from 0 to 1000000"),
        ({"weight": "0"}, 422, "a weight from 1 to 1000"),
        ({"lending_limit": "65"}, 422, "Lend at most the 64 GPUs"),
        ({"guaranteed": "97"}, 409, "acme is guaranteed 128 h100-sxm-80 GPUs, and is to owe 129"),
    ],
)
@pytest.mark.parametrize("act", ["preview", "save"])
def test_what_cannot_be_is_said_at_its_place_and_nothing_changes(
    scene: Scene, quotas: dict[str, Quota], typed: dict[str, str], status: int, told: str, act: str
) -> None:
    body = {**sent(quotas["acme/vision"], **typed), "act": act, "why": "x"}
    response = browser(scene.admin).post("/quotas", body)
    assert (response.status_code, told in words(response)) == (status, True)
    assert guaranteed("acme/vision") == 64
    for name, value in typed.items():
        assert f'name="{name}:{quotas["acme/vision"].pk}" value="{value}"' in (
            response.content.decode()
        )


def test_a_row_is_added_and_taken_away(scene: Scene, quotas: dict[str, Quota]) -> None:
    ada = browser(scene.admin)
    new = {"tenant:new": "acme", "flavor:new": "a100-sxm-80", "guaranteed:new": "500"}
    shown = ada.post("/quotas", {**new, "act": "preview"})
    assert "acme, a100-sxm-80 : new: guaranteed 500, weight 1" in words(shown)
    assert "Over-committed: 500 a100-sxm-80 GPUs are guaranteed, 128 are there." in words(shown)
    saved = ada.post("/quotas", {**new, "act": "save", "why": "more to come"}, follow=True)
    assert "372 over-committed" in words(saved)
    gone = {**sent(quotas["acme/speech"]), f"gone:{quotas['acme/speech'].pk}": "on"}
    assert ada.post("/quotas", {**gone, "act": "save", "why": "over"}).status_code == 302
    assert not Quota.objects.filter(tenant__path="acme/speech").exists()
    wrong = ada.post("/quotas", {"tenant:new": "no/body", "flavor:new": H100, "act": "preview"})
    assert wrong.status_code == 422


def test_an_owner_changes_what_is_below_within_the_share(
    scene: Scene, quotas: dict[str, Quota]
) -> None:
    mia = browser(scene.mia)
    body = {**sent(quotas["acme/vision"], guaranteed=96), "act": "save", "why": "shift"}
    assert mia.post("/quotas", body).status_code == 302
    assert guaranteed("acme/vision") == 96
    over = {**sent(quotas["acme/speech"], guaranteed=33), "act": "save", "why": "more"}
    assert mia.post("/quotas", over).status_code == 409
    for path in ("acme", "rival"):  # not hers to set: the form's rows are not even looked at
        body = {**sent(quotas[path], guaranteed=512), "act": "save", "why": "all mine"}
        mia.post("/quotas", body)
        assert guaranteed(path) == OWED[path]
    new = {"tenant:new": "rival", "flavor:new": "l40s-48", "guaranteed:new": "8", "why": "x"}
    assert mia.post("/quotas", {**new, "act": "save"}).status_code == 404
    top = {**new, "tenant:new": "acme/vision"}  # acme has none to share out
    assert mia.post("/quotas", {**top, "act": "save"}).status_code == 403
    assert not Quota.objects.filter(flavor="l40s-48").exists()


def test_undo_is_a_new_change_by_the_same_rules(scene: Scene, quotas: dict[str, Quota]) -> None:
    ada = browser(scene.admin)
    both = {
        **sent(quotas["acme/vision"], guaranteed=32),
        **sent(quotas["acme/speech"], guaranteed=64),
    }
    ada.post("/quotas", {**both, "act": "save", "why": "swap"})
    entry = AuditEntry.objects.filter(object_type="quota").latest("id")
    assert "Say why" in words(ada.post(f"/quotas/undo/{entry.pk}", {}, follow=True))
    done = ada.post(f"/quotas/undo/{entry.pk}", {"why": "not so"}, follow=True)
    assert "Saved: 2 rows changed." in words(done)
    assert (guaranteed("acme/vision"), guaranteed("acme/speech")) == (64, 32)
    assert AuditEntry.objects.filter(object_type="quota", why="not so").count() == 2
    again = ada.post(f"/quotas/undo/{entry.pk}", {"why": "once more"}, follow=True)
    assert "was changed since" in words(again)
    assert ada.post("/quotas/undo/999999", {"why": "x"}).status_code == 404
    rival = AuditEntry.objects.filter(object_id__startswith="rival ").latest("id")
    assert browser(scene.mia).post(f"/quotas/undo/{rival.pk}", {"why": "x"}).status_code == 404


@pytest.mark.usefixtures("quotas")
def test_an_admin_moves_a_tenant(scene: Scene) -> None:
    ada, to = browser(scene.admin), "/tenants/move"
    body = {"tenant": "acme/vision", "parent": "rival", "why": "bought"}
    for wrong, said in (
        ({"why": " "}, "Say why"),
        ({"tenant": "nowhere"}, "no such tenant"),
        ({"parent": "acme/vision"}, "itself or below it"),
    ):
        page = words(ada.post(to, {**body, **wrong}, follow=True))
        assert "Nothing was moved." in page
        assert said in page
    assert "acme/vision is rival/vision now." in words(ada.post(to, body, follow=True))
    assert Quota.objects.get(tenant__path="rival/vision").guaranteed == 64
    back = ada.post(to, {"tenant": "acme", "parent": "rival", "why": "all of it"}, follow=True)
    assert "Raise the first or lower the others" in words(back)
    assert ada.post(to, {**body, "tenant": "rival/vision", "parent": ""}).status_code == 302
    assert Tenant.objects.filter(path="vision").exists()
    mia = browser(scene.mia)
    assert mia.post(to, body).status_code == 403
    assert mia.get(to).status_code == 405
    assert "Move a tenant" not in words(mia.get("/quotas"))


def test_the_table_is_narrowed_and_never_longer_than_a_form_may_be(
    scene: Scene, quotas: dict[str, Quota], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = browser(scene.admin)
    narrow = ada.get(f"/quotas?tenant=acme/vision&flavor={H100}").content.decode()
    assert f"guaranteed:{quotas['acme/vision'].pk}" in narrow
    assert f"guaranteed:{quotas['acme/speech'].pk}" not in narrow
    body = {**sent(quotas["acme/vision"], guaranteed=60), "act": "save", "why": "narrow"}
    response = ada.post("/quotas?tenant=acme/vision", body)
    assert response["Location"] == "/quotas?tenant=acme/vision"
    assert ada.get("/quotas?what=5").status_code == 404
    acme = quotas["acme"].tenant
    for number in range(130):
        tenant = create_tenant(actor=None, name=f"t{number}", parent=acme, now=scene.now)
        Quota.objects.create(tenant=tenant, flavor_id=H100)
    page = ada.get("/quotas")
    assert "14 more rows are not shown" in words(page)
    fields = re.findall(r'name="([a-z_]+:\d+)"', page.content.decode())
    body = dict.fromkeys(fields, "") | {"act": "preview"}
    assert ada.post("/quotas", body).status_code in (200, 422)


def test_an_undo_that_no_longer_fits_says_why(scene: Scene) -> None:
    put(scene, "acme", 128)
    put(scene, "acme/vision", 96)
    lowered = put(scene, "acme/vision", 32, actor=scene.admin, why="less", expected_revision=1)
    put(scene, "acme/speech", 96)
    entry = AuditEntry.objects.get(why="less")
    response = browser(scene.admin).post(f"/quotas/undo/{entry.pk}", {"why": "x"}, follow=True)
    assert "Not undone." in words(response)
    assert "acme/speech 96, acme/vision 96" in words(response)
    lowered.refresh_from_db()
    assert lowered.guaranteed == 32


@pytest.mark.usefixtures("quotas")
@pytest.mark.parametrize("form", ["csv", "yaml"])
def test_a_file_is_exported_looked_at_and_applied(scene: Scene, form: str) -> None:
    ada = browser(scene.admin)
    text = ada.get(f"/quotas/export?format={form}").content.decode()
    text = text.replace("64", "80")
    upload = SimpleUploadedFile(f"quotas.{form}", text.encode())
    shown = ada.post("/quotas", {"file": upload, "form": "yaml", "act": "preview"})
    assert "acme/vision, h100-sxm-80 : guaranteed 64 → 80" in words(shown)
    assert guaranteed("acme/vision") == 64
    body = {"text": text, "form": form, "act": "save"}
    assert "Say why." in words(ada.post("/quotas", {**body, "why": ""}))
    assert ada.post("/quotas", {**body, "why": "by file"}).status_code == 302
    assert guaranteed("acme/vision") == 80
    assert browser(scene.mia).post("/quotas", {**body, "why": "x"}).status_code == 403


@pytest.mark.usefixtures("quotas")
def test_a_wrong_file_is_refused_with_row_and_field(scene: Scene) -> None:
    text = f"tenant,flavor,guaranteed\nacme,{H100},64\nnobody,{H100},8T\n"
    upload = SimpleUploadedFile("quotas.csv", text.encode())
    response = browser(scene.admin).post(
        "/quotas", {"file": upload, "form": "yaml", "act": "preview"}
    )
    assert response.status_code == 422
    assert "Row 2, guaranteed: '8T' is no whole number of GPUs" in words(response)
    assert guaranteed("acme") == 128


@pytest.mark.usefixtures("quotas")
def test_more_is_asked_for_granted_and_ended_on_the_page(scene: Scene) -> None:
    mia, ada = browser(scene.mia), browser(scene.admin)
    until = (scene.now + timedelta(days=9)).date().isoformat()
    body = {"tenant": "acme/vision", "flavor": H100, "amount": "8", "until": until, "why": "paper"}
    wrong = mia.post("/quotas/requests", {**body, "amount": "-8", "until": "soon"})
    assert wrong.status_code == 422
    assert "Give a day such as" in words(wrong)
    assert mia.post("/quotas/requests", body).status_code == 302
    row = QuotaRequest.objects.get()
    address = f"/quotas/requests/{row.pk}"
    assert "paper" in words(ada.get("/quotas/requests?state=open"))
    assert "paper" not in words(browser(scene.rival).get("/quotas/requests"))
    assert browser(scene.rival).post(f"{address}/approve").status_code == 404
    stale = ada.post(f"{address}/approve", {"amount": "4", "revision": "7"}, follow=True)
    assert "Nothing was decided." in words(stale)
    given = {"amount": "4", "until": until, "comment": "half", "revision": "1"}
    assert "The request is granted." in words(ada.post(f"{address}/approve", given, follow=True))
    row.refresh_from_db()
    assert (row.state, row.granted_gpus, row.granted_until) == ("approved", 4, row.wanted_until)
    late = ada.post(f"{address}/reject", {"comment": "no"}, follow=True)
    assert "was approved by ada" in words(late)
    assert "is taken back" in words(mia.post(f"{address}/withdraw", {}, follow=True))
    assert "ended" in words(mia.get("/quotas/requests?state=ended"))


def test_a_submitter_does_not_ask_nor_decide(scene: Scene) -> None:
    vision, flavor = Tenant.objects.get(path="acme/vision"), Flavor.objects.get(name=H100)
    row = ask(
        actor=scene.admin, tenant=vision, flavor=flavor, wish=Wish(8, scene.now), why="x",
        now=scene.now,
    )  # fmt: skip
    mia = browser(scene.mia)
    assert "Ask for more" not in words(mia.get("/quotas/requests"))
    for action in ("approve", "reject", "withdraw"):
        assert mia.post(f"/quotas/requests/{row.pk}/{action}").status_code == 403
    assert mia.post(f"/quotas/requests/{row.pk}/burn").status_code == 404
    row.refresh_from_db()
    assert row.state == "open"


def test_the_number_of_queries_does_not_grow_with_tenants(
    scene: Scene, quotas: dict[str, Quota], django_assert_max_num_queries: Any
) -> None:
    ada = browser(scene.admin)
    with django_assert_max_num_queries(35) as before:
        ada.get("/quotas")
    acme = quotas["acme"].tenant
    for number in range(15):
        tenant = Tenant.objects.create(
            name=f"t{number}", path=f"acme/t{number}", parent=acme, lineage=[acme.pk]
        )
        Tenant.objects.filter(pk=tenant.pk).update(lineage=[acme.pk, tenant.pk])
        put(scene, f"acme/t{number}", 1)
    with django_assert_max_num_queries(len(before)):
        ada.get("/quotas")
