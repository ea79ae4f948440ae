"""The pages of simulations: for admins only, what people wrote is text, and what came of it is right."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from federation.models import Simulation
from federation.services.simulate import work_off
from federation.services.simulations import ask_for
from kit.display import NONE, span
from tests.pages.past import give_past, give_quotas
from tests.pages.scene import Scene
from tests.pages.test_pages import plain, text

TABLE = "quotas:\n- {tenant: %s, flavor: h100-sxm-80, guaranteed: %d}\n"


@pytest.fixture
def ada(scene: Scene) -> Client:
    give_quotas(scene)
    client = Client()
    client.force_login(scene.admin)
    return client


def made(scene: Scene, **changes: object) -> Simulation:
    window = {"start": scene.now - timedelta(weeks=2), "end": scene.now, "now": scene.now}
    return ask_for(actor=scene.admin, **{**window, **changes})  # type: ignore[arg-type]


def test_only_admins_see_or_do_anything(mia: Client, scene: Scene) -> None:
    give_quotas(scene)
    it = made(scene)
    for path in ("/simulations", f"/simulations/{it.pk}"):
        assert mia.get(path).status_code == 403
    for path in ("/simulations", f"/simulations/{it.pk}/cancel", f"/simulations/{it.pk}/delete"):
        assert mia.post(path).status_code == 403
    assert Simulation.objects.get().state == "queued"
    assert "Simulate a policy" not in text(mia, "/quotas")


def test_both_tables_begin_as_what_is_set_and_alike_they_are_one(ada: Client) -> None:
    page = text(ada, "/simulations")
    tables = re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    assert len(tables) == 2
    assert "guaranteed: 96" in tables[0]
    assert tables[0] == tables[1]
    sent = {"weeks": "8", "quotas": tables[0], "against": tables[1].replace("\n", "\r\n")}
    answer = ada.post("/simulations", sent)
    it = Simulation.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/simulations/{it.pk}")
    assert (it.against, it.until_at - it.from_at) == ("", timedelta(weeks=8))
    assert "Simulate a policy" in text(ada, "/quotas")


def test_what_is_wrong_stands_at_its_table_with_row_and_field(ada: Client) -> None:
    sent = {"quotas": TABLE % ("mars", 8), "against": "<b>no</b>", "weeks": "1 OR 1=1"}
    answer = ada.post("/simulations", sent)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "row 1, tenant: There is no tenant mars." in page
    assert "Give one key, `quotas`, with a list of rows." in page
    assert page.count('aria-invalid="true"') == 2
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert "<b>no" not in page
    assert not Simulation.objects.exists()
    above = TABLE % ("acme", 8) + "- {tenant: acme/vision, flavor: h100-sxm-80, guaranteed: 16}\n"
    answer = ada.post("/simulations", {"quotas": above})
    assert answer.status_code == 409
    assert "acme is guaranteed 8 h100-sxm-80 GPUs" in answer.content.decode()


def span_of(waits: dict[str, float] | None, point: str) -> str:
    return span(int(waits[point])) if waits else NONE


def test_two_policies_stand_side_by_side(ada: Client, scene: Scene) -> None:
    give_past(scene, 60)
    it = made(scene, against=TABLE % ("acme/vision", 256))
    work_off(clock=timezone.now)
    it.refresh_from_db()
    page = plain(text(ada, f"/simulations/{it.pk}"))
    one, two = (outcome["total"] for outcome in it.result["outcomes"])
    assert f"Jobs {one['jobs']} {two['jobs']} same" in page
    assert f"Never started {one['never']} {two['never']} +{two['never'] - one['never']}" in page
    assert two["never"] > one["never"]
    assert two["waits"] != one["waits"]
    for name in ("guaranteed", "spot"):
        for point in ("p50", "p90"):
            shown = [span_of(total["waits"].get(name), point) for total in (one, two)]
            assert f"Wait {point.upper()}, {name} {shown[0]} {shown[1]} " in page
    # Without a quota of its own nothing of speech starts.
    nothing = rf"{NONE} {NONE} 0\.00 0\.00 0 0\.00 0\.00"
    assert re.search(rf"acme/speech A 20 0 .* B 20 20 {nothing}", page)
    assert "B against A" in page


def test_what_people_wrote_is_text_and_nothing_is_inline(ada: Client, scene: Scene) -> None:
    it = made(scene, quotas=TABLE % ("acme", 8) + "# <script>alert(1)</script>\n")
    Simulation.objects.filter(pk=it.pk).update(
        state="failed", failure="<img src=x>", ended_at=scene.now
    )
    for path in ("/simulations", f"/simulations/{it.pk}"):
        answer = ada.get(path)
        page = answer.content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "&lt;img src=x&gt;" in page
        assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", page), path
        assert "default-src 'self'" in answer["Content-Security-Policy"]
    assert "&lt;script&gt;alert(1)" in text(ada, f"/simulations/{it.pk}")


def test_it_is_stopped_and_deleted_and_what_is_unknown_is_404(ada: Client, scene: Scene) -> None:
    it = made(scene)
    for _ in range(2):
        assert ada.post(f"/simulations/{it.pk}/cancel").status_code == 302
    assert "cancelled already" in text(ada, f"/simulations/{it.pk}")
    assert Simulation.objects.get().state == "cancelled"
    assert ada.post(f"/simulations/{it.pk}/promote").status_code == 404
    assert ada.get(f"/simulations/{it.pk}/delete").status_code == 405
    assert ada.post(f"/simulations/{it.pk}/delete").status_code == 302
    assert not Simulation.objects.exists()
    assert ada.get(f"/simulations/{it.pk}").status_code == 404
    assert ada.get("/simulations?page=2").status_code == 404


def test_queries_do_not_grow_with_the_list(ada: Client, scene: Scene) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            text(ada, "/simulations")
        return len(seen)

    made(scene)
    before = queries()
    for _ in range(8):
        made(scene)
    assert queries() == before <= 12
