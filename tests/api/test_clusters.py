"""Clusters over REST: joined, configured, mapped, given new keys; all that is wrong told at once."""

import base64
import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Lease
from clusters.selectors.connection import connection_of
from clusters.services.fleet import set_state
from tenancy.models import AuditEntry, Event
from tests import make
from tests.api.world import World, problem, spots
from tests.clusters.members import Member, installed
from tests.world import Simulated, simulated


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    """A cluster that could join: eight nodes of eight H100."""
    with simulated(
        tmp_path_factory.mktemp("simulated"), borealis={"nodes": 8, "gpu_type": "h100"}
    ) as made:
        yield made["borealis"]


def text_of(key: bytes) -> str:
    return base64.b64encode(key).decode()


def body(there: Simulated, **changes: Any) -> dict[str, Any]:
    return {
        "name": "borealis",
        "title": "Borealis",
        "backend": "slurm",
        "endpoint": there.endpoint,
        "secret": text_of(there.key),
        "options": {"charge": "ml", "timeout_s": "5"},
        "stores": ["lustre-b"],
        "flavors": [{"flavor": "h100-sxm-80", "device": "h100", "queue": "batch"}],
        "accounts": [{"user": "bob", "account": "mia", "home": "/home/mia"}],
        **changes,
    }


def test_a_cluster_is_probed_and_then_joins_with_all_it_needs(
    world: World, there: Simulated
) -> None:
    before = AuditEntry.objects.count()
    looked = world.ada.post("/clusters/probe", body(there))
    assert looked.status_code == 200, looked.content
    found = {row["capability"]: row for row in looked.json()["findings"]}
    assert looked.json()["is_ready"] is True
    assert found["reachable"]["is_on"]
    assert not found["reclassify"]["is_on"]
    assert found["reclassify"]["fix"]
    assert AuditEntry.objects.count() == before
    assert not Cluster.objects.filter(name="borealis").exists()

    made = world.ada.post("/clusters", body(there))
    assert made.status_code == 201, made.content
    shown = made.json()
    assert (shown["state"], shown["title"], shown["endpoint"]) == (
        "active",
        "Borealis",
        there.endpoint,
    )
    assert shown["capabilities"]["accounting"] is True
    cluster = Cluster.objects.get(name="borealis")
    assert connection_of(cluster).secret == there.key
    named = ClusterFlavor.objects.get(cluster=cluster)
    assert (named.flavor_id, named.device, named.queue) == ("h100-sxm-80", "h100", "batch")
    assert ClusterAccount.objects.get(cluster=cluster).account == "mia"
    actions = AuditEntry.objects.filter(object_id="borealis").order_by("id")
    assert [entry.action for entry in actions] == ["create", "set_flavor", "set_account", "probe"]
    again = world.ada.post("/clusters", body(there))
    assert (again.status_code, spots(again)) == (409, [("/name", "conflict")])


def test_joining_twice_with_one_key_is_joining_once(world: World, there: Simulated) -> None:
    first = world.ada.post("/clusters", body(there), idempotency_key="k1")
    member = Member(lambda _: None)
    with installed(borealis=member):
        second = world.ada.post("/clusters", body(there), idempotency_key="k1")
        other = world.ada.post("/clusters", body(there, title="B"), idempotency_key="k1")
    assert member.asked == []  # nobody is probed for an answer that is there
    assert (other.status_code, problem(other)["code"]) == (409, "idempotency_key_reused")
    assert first.status_code == second.status_code == 201
    assert second["Idempotency-Replayed"] == "true"
    assert first.json() == second.json()
    assert Cluster.objects.filter(name="borealis").count() == 1


def test_everything_wrong_is_told_at_once(world: World) -> None:
    answer = world.ada.post(
        "/clusters",
        {
            "name": "probe",
            "backend": "lsf",
            "endpoint": "file:///etc/passwd",
            "secret": "not base64!",
            "account": "two words",
            "options": {"colour": "red"},
            "calls_at_once": 0,
            "calls_per_s": "fast",
            "flavors": [
                {"flavor": "no-such", "device": "two words"},
                {"flavor": "mi300x", "device": "mi300x", "color": "x"},
                7,
            ],
            "accounts": [
                {"user": "nobody-known", "account": "mia"},
                {"user": "bob", "account": "root"},
                {"user": "bob"},
            ],
            "force": "yes",
        },
    )
    assert answer.status_code == 422
    told = {pointer for pointer, _ in spots(answer)}
    assert told == {
        "/name", "/backend", "/endpoint", "/secret", "/account", "/options/colour",
        "/calls_at_once", "/calls_per_s", "/flavors/0/device", "/flavors/1/color", "/flavors/2",
        "/accounts/1/account", "/accounts/2/account", "/accounts/0/user", "/force",
    }  # fmt: skip
    assert spots(world.ada.post("/clusters", {"name": "x"}))[0][1] == "missing"
    assert spots(world.ada.post("/clusters", {"nome": "x"})) == [("/nome", "unknown_field")]
    assert Cluster.objects.count() == 1


def test_what_is_not_ready_is_refused_with_the_findings_unless_forced(
    world: World, there: Simulated
) -> None:
    rows = [
        {"flavor": "h100-sxm-80", "device": "h200"},
        {"flavor": "mi300x", "device": "h100", "queue": "nowhere"},
    ]
    refused = world.ada.post("/clusters", body(there, flavors=rows))
    assert (refused.status_code, problem(refused)["code"]) == (409, "cluster_not_ready")
    errors = problem(refused)["errors"]
    assert [error["pointer"] for error in errors] == ["/flavors/0/device", "/flavors/1/queue"]
    assert "h100" in errors[0]["detail"]
    assert "batch" in errors[1]["detail"]

    away = body(there, endpoint="http://127.0.0.1:9")
    refused = world.ada.post("/clusters", away)
    assert (refused.status_code, spots(refused)) == (409, [("", "reachable")])
    assert "Fix: start slurmrestd" in problem(refused)["errors"][0]["detail"]
    assert not Cluster.objects.filter(name="borealis").exists()

    forced = world.ada.post("/clusters", {**away, "force": True})
    assert forced.status_code == 201
    assert forced.json()["capabilities"] == {}
    assert forced.json()["probe"]["findings"][0]["is_on"] is False


def test_a_configuration_is_changed_by_those_who_read_it_last(world: World) -> None:
    etag = world.ada.get("/clusters/aurora")["ETag"]
    changed = world.ada.patch(
        "/clusters/aurora", {"title": "Aurora", "options": {"charge": "ml"}}, if_match=etag
    )
    assert changed.status_code == 200, changed.content
    assert (changed.json()["title"], changed.json()["options"]) == ("Aurora", {"charge": "ml"})
    assert changed["ETag"] != etag
    stale = world.ada.patch("/clusters/aurora", {"title": "Other"}, if_match=etag)
    assert (stale.status_code, problem(stale)["code"]) == (412, "stale_write")
    merged = world.ada.patch(
        "/clusters/aurora", {"options": {"charge": None, "timeout_s": "9"}, "calls_per_s": 20}
    )
    assert (merged.json()["options"], merged.json()["calls_per_s"]) == ({"timeout_s": "9"}, 20)
    wrong = world.ada.patch(
        "/clusters/aurora", {"secret": "x", "name": "b", "state": "active", "accounts": []}
    )
    assert {pointer for pointer, _ in spots(wrong)} == {"/secret", "/name", "/state", "/accounts"}
    assert "rotate" in wrong.content.decode()
    assert spots(world.ada.patch("/clusters/aurora", {"endpoint": "x"})) == [
        ("/endpoint", "invalid_endpoint")
    ]


def test_flavors_and_people_of_a_cluster_are_set_and_taken_away(world: World) -> None:
    made = world.ada.post("/flavors", {"name": "b200", "vendor": "nvidia", "memory_gb": 192})
    assert (made.status_code, made.json()["clusters"]) == (201, [])
    assert spots(world.ada.post("/flavors", {"memory_gb": -1})) == [
        ("/name", "invalid_name"),
        ("/memory_gb", "invalid_number"),
    ]
    put = world.ada.call("PUT", "/clusters/aurora/flavors/b200", {"device": "b200"})
    assert put.json() == {"flavor": "b200", "device": "b200", "queue": ""}
    assert spots(world.ada.call("PUT", "/clusters/aurora/flavors/mi300x", {"device": "b200"})) == [
        ("/device", "conflict")
    ]
    assert world.ada.call("PUT", "/clusters/aurora/flavors/no-such", {}).status_code == 404
    assert world.ada.call("DELETE", "/clusters/aurora/flavors/b200").status_code == 204
    assert world.ada.call("DELETE", "/clusters/aurora/flavors/b200").status_code == 404

    vera = "/clusters/aurora/accounts/vera"
    put = world.ada.call("PUT", vera, {"account": "vera", "home": "/home/vera"})
    account = {"user": "vera", "account": "vera", "home": "/home/vera", "run_as": ""}
    assert put.json() == account
    assert spots(world.ada.call("PUT", vera, {"account": "root"})) == [
        ("/account", "invalid_account")
    ]
    assert spots(world.ada.call("PUT", vera, {"account": "vera", "run_as": "2001"})) == [
        ("/run_as", "invalid_run_as")
    ]
    listed = world.ada.get("/clusters/aurora/accounts?limit=2").json()
    assert [row["user"] for row in listed["items"]] == ["bob", "charlie"]
    assert [row["user"] for row in world.ada.get(listed["next"]).json()["items"]] == ["vera"]
    assert world.ada.call("DELETE", vera).status_code == 204
    assert world.ada.call("DELETE", vera).status_code == 404
    assert (
        world.ada.call("PUT", "/clusters/aurora/accounts/no", {"account": "x"}).status_code == 404
    )


def test_new_credentials_are_tried_before_the_old_ones_go(world: World, there: Simulated) -> None:
    world.ada.post("/clusters", body(there))
    cluster = Cluster.objects.get(name="borealis")
    now = timezone.now()
    for kind in Lease.Kind:
        Lease.objects.create(
            cluster=cluster, kind=kind, expires_at=now + timedelta(seconds=50), failures=9
        )
    wrong = world.ada.post("/clusters/borealis/rotate", {"secret": text_of(b"another key" * 3)})
    assert (wrong.status_code, problem(wrong)["code"]) == (502, "probe_failed")
    assert "the old one stays" in problem(wrong)["detail"]
    assert connection_of(Cluster.objects.get(name="borealis")).secret == there.key
    assert Lease.objects.filter(failures=9).count() == 2

    right = world.ada.post("/clusters/borealis/rotate", {"secret": text_of(there.key)})
    assert right.status_code == 200, right.content
    assert Lease.objects.filter(failures=0, expires_at__lte=timezone.now()).count() == 2
    entry = AuditEntry.objects.get(action="set_secret", object_id="borealis")
    assert (entry.before, entry.after, entry.actor) == (None, None, world.ada.user)
    blind = {"secret": text_of(b"another key" * 3), "force": True}
    assert world.ada.post("/clusters/borealis/rotate", blind).status_code == 200
    assert connection_of(Cluster.objects.get(name="borealis")).secret == b"another key" * 3
    assert spots(world.ada.post("/clusters/borealis/rotate", {})) == [("/secret", "invalid_secret")]


class _Heard(logging.Handler):
    """Every log record as text, with its arguments and its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{self.format(record)} {record.args!r} {record.__dict__!r}")


@given(st.binary(min_size=12, max_size=64), st.booleans())
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_answer_log_event_or_audit_entry_ever_holds_a_secret(
    world: World, there: Simulated, key: bytes, force: bool
) -> None:
    heard, root = _Heard(), logging.getLogger()
    level = root.level
    root.addHandler(heard)
    root.setLevel(logging.DEBUG)
    wrong = {"secret": text_of(key), "force": force}
    try:
        answers = [
            world.ada.post("/clusters/probe", body(there, **wrong)),
            world.ada.post("/clusters", body(there, **wrong)),
            world.ada.post("/clusters", body(there, secret=text_of(key), endpoint="x", nome=1)),
            world.ada.post("/clusters/aurora/rotate", wrong),
            world.ada.post("/clusters/borealis/rotate", wrong),
            world.ada.patch("/clusters/aurora", {"secret": text_of(key)}),
            world.ada.post("/clusters/aurora/rotate", {"secret": text_of(key) + "!"}),
            world.ada.get("/clusters/aurora"),
            world.ada.get("/clusters"),
        ]
    finally:
        root.removeHandler(heard)
        root.setLevel(level)
    assert all(answer.status_code < 503 for answer in answers)
    texts = [answer.content.decode() for answer in answers] + heard.texts
    texts += [json.dumps([e.before, e.after, e.why]) for e in AuditEntry.objects.all()]
    texts += [json.dumps([e.kind, e.cause, e.data]) for e in Event.objects.all()]
    spoken = "\n".join(texts)
    for form in {text_of(key), key.hex(), repr(key), str(key)[2:-1], text_of(there.key)}:
        assert form not in spoken, form
    Cluster.objects.filter(name="borealis").delete()


def test_a_cluster_is_cut_off_opened_and_leaves(world: World) -> None:
    cut = world.ada.post("/clusters/aurora/cut-off", {"why": "a fire"})
    assert cut.json()["state"] == "cut_off"
    assert AuditEntry.objects.get(action="cut_off").why == "a fire"
    assert world.ada.post("/clusters/aurora/undrain").json()["state"] == "active"
    assert world.alice.post("/clusters/aurora/cut-off").status_code == 403
    assert world.ada.call("DELETE", "/clusters/aurora", {"plan": "burn"}).status_code == 422
    no_why = world.ada.call("DELETE", "/clusters/aurora", {"plan": "cancel"})
    assert spots(no_why) == [("/why", "invalid_plan")]
    job = world.job()
    attempt = world.bind(job)
    busy = world.ada.call("DELETE", "/clusters/aurora")
    assert (busy.status_code, problem(busy)["code"]) == (409, "cluster_in_use")
    assert "1 attempt not over" in problem(busy)["detail"]
    assert attempt.fence in problem(busy)["errors"][0]["detail"]
    leaving = world.ada.call("DELETE", "/clusters/aurora", {"plan": "cancel", "why": "moves"})
    assert leaving.status_code == 202
    assert leaving.json()["leaving"] == {"plan": "cancel", "why": "moves"}
    job.refresh_from_db()
    assert job.state == "stopping"
    gone = world.ada.call("DELETE", "/clusters/aurora", {"plan": "forget", "why": "it is gone"})
    assert gone.status_code == 204, gone.content
    assert world.ada.get("/clusters/aurora").status_code == 404
    assert world.ada.get("/clusters").json()["items"] == []
    job.refresh_from_db()
    assert (job.state, job.held_by) == ("held", "owner")


def test_a_name_is_free_again_when_its_cluster_is_gone(world: World) -> None:
    old = world.cluster
    assert world.ada.call("DELETE", "/clusters/aurora").status_code == 204
    new = make.cluster("aurora")
    assert new.pk != old.pk
    left = Cluster.everything.get(pk=old.pk)
    assert (left.state, bytes(left.secret)) == ("gone", b"")
    assert left.left_at is not None
    assert Cluster.objects.get(name="aurora").pk == new.pk
    shown = world.ada.get("/flavors").json()["items"]
    assert all("aurora" not in flavor["clusters"] for flavor in shown)
    with pytest.raises(ValueError, match="gone"):
        set_state(actor=None, cluster=new, state=Cluster.State.GONE, now=timezone.now())


def test_on_kubernetes_people_have_namespaces_and_gpus_resources(
    world: World, there: Simulated
) -> None:
    world.ada.post("/clusters", body(there))
    world.ada.post("/flavors", {"name": "b200"})
    Cluster.objects.filter(name="borealis").update(backend="volcano")
    device = {"device": "nvidia.com/gpu:NVIDIA-H100-80GB-HBM3"}
    assert world.ada.call("PUT", "/clusters/borealis/flavors/b200", device).status_code == 200
    for bad in ("a b", "nvidia.com/gpu:", "/gpu", "x" * 254):
        answer = world.ada.call("PUT", "/clusters/borealis/flavors/b200", {"device": bad})
        assert spots(answer) == [("/device", "invalid_name")]
    vera = "/clusters/borealis/accounts/vera"
    put = world.ada.call("PUT", vera, {"account": "2nd-team", "run_as": "2001:3000"})
    assert put.json() == {"user": "vera", "account": "2nd-team", "home": "", "run_as": "2001:3000"}
    for account, code in (
        ("Team", "invalid_name"),
        ("team.a", "invalid_name"),
        ("default", "invalid_account"),
        ("kube-system", "invalid_account"),
    ):
        assert ("/account", code) in spots(world.ada.call("PUT", vera, {"account": account}))
    for numbers in ("0", "2001:0", "-1", "2001:", "root"):
        answer = world.ada.call("PUT", vera, {"account": "team", "run_as": numbers})
        assert spots(answer) == [("/run_as", "invalid_run_as")]
