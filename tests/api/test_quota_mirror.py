"""Quotas as limits of a cluster's accounts over REST: wanted, there, drift; set only if asked."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from clusters.models import Cluster
from clusters.services.configure import update_cluster
from kit.crypto import encrypt
from quotas.services.rows import set_quota
from tenancy.models import AuditEntry, Tenant
from tests import make
from tests.api.world import World, problem
from tests.world import Simulated, like_new, simulated

MIRROR = "/clusters/aurora/quota-mirror"
H100 = "gpu:h100"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Simulated]]:
    """Accounts vis and spe of their own beside ml, where people are charged by default."""
    with simulated(
        tmp_path_factory.mktemp("simulated"),
        aurora={
            "nodes": 8,
            "gpu_type": "h100",
            "accounts": ["ml", "vis", "spe"],
            "users": [{"name": "bob", "uid": 3001, "accounts": ["ml", "vis"]}],
        },
    ) as made:
        yield made


@pytest.fixture
def there(world: World, fleet: dict[str, Simulated], settings: Any) -> Simulated:
    """Aurora is that cluster: vision is owed 24 of 40 and may borrow 8; speech 8; rivals none."""
    member = like_new(fleet)["aurora"]
    secret = encrypt(member.key, settings.ENVIRONMENT.encryption_keys)
    Cluster.objects.update(endpoint=member.endpoint, secret=secret)
    named = {"charge.acme/vision": "vis", "charge.acme/speech": "spe", "timeout_s": "3"}
    configure(**named)
    speech = make.tenant("acme/speech")
    acme = Tenant.objects.get(path="acme")
    for tenant, owed, limit in ((acme, 40, 16), (world.team, 24, 8), (speech, 8, 0)):
        set_quota(
            actor=None,
            tenant=tenant,
            flavor=make_flavor(),
            guaranteed=owed,
            borrowing_limit=limit,
            now=timezone.now(),
        )
    return member


def make_flavor() -> Any:
    return Cluster.objects.get().flavors.get().flavor


def configure(**options: str) -> None:
    update_cluster(
        actor=None,
        cluster=Cluster.objects.get(),
        changes={"options": options},
        expected_etag=None,
        now=timezone.now(),
    )


def limits(shown: Any) -> dict[str, tuple[int | None, int | None, str]]:
    assert shown.status_code == 200, shown.content
    return {
        f"{row['account']} {row['resource']}": (row["there"], row["wanted"], row["drift"])
        for row in shown.json()["limits"]
    }


def associations(there: Simulated) -> dict[str, dict[str, Any]]:
    rows = there.slurm("GET", "slurmdb/v0.0.38/associations")["associations"]
    return {f"{row['account']} {row['user']}": row for row in rows}


@pytest.mark.usefixtures("there")
def test_what_is_wanted_stands_beside_what_is_there(world: World) -> None:
    shown = world.ada.get(MIRROR)
    # 24 of its own, the 8 that acme keeps, 8 as spot; 8 of its own and acme's 8.
    assert limits(shown) == {
        f"spe {H100}": (None, 16, "missing"),
        f"vis {H100}": (None, 40, "missing"),
    }
    body = shown.json()
    assert body["can_apply"] is True
    assert body["obstacle"] is None
    assert body["unnamed_tenants"] == ["acme"]
    assert body["unknown_options"] == []
    assert body["limits"][1]["tenants"] == ["acme/vision"]
    assert {one["command"] for one in body["commands"]} == {
        "sacctmgr -i modify account where name=spe cluster=aurora set GrpTRES=gres/gpu:h100=16",
        "sacctmgr -i modify account where name=vis cluster=aurora set GrpTRES=gres/gpu:h100=40",
    }


def test_a_dry_run_sets_nothing_and_leaves_no_entry(world: World, there: Simulated) -> None:
    before, entries = associations(there), AuditEntry.objects.count()
    shown = world.ada.post(MIRROR, {"dry_run": True, "reason": "a look"})
    assert shown.status_code == 200
    assert [(one["account"], one["before"], one["after"], one["outcome"])
            for one in shown.json()["changes"]] == [
        ("spe", None, 16, "would_set"),
        ("vis", None, 40, "would_set"),
    ]  # fmt: skip
    assert associations(there) == before
    assert AuditEntry.objects.count() == entries


def test_limits_are_set_once_and_nothing_else_is_touched(world: World, there: Simulated) -> None:
    before = associations(there)
    done = world.ada.post(MIRROR, {"reason": "plan 27"})
    assert done.status_code == 200, done.content
    assert [one["outcome"] for one in done.json()["changes"]] == ["set", "set"]
    assert {row["drift"] for row in done.json()["limits"]} == {"none"}
    after = associations(there)
    for name, row in before.items():
        gpus = {"vis None": 40, "spe None": 16}.get(name)
        if gpus is not None:
            row["max"]["tres"]["total"] = [
                {"type": "gres", "name": H100, "id": 1002, "count": gpus}
            ]
        assert after[name] == row
    first, last = AuditEntry.objects.filter(action__startswith="mirror").order_by("id")
    assert (first.actor, first.action, first.object_id, first.why) == (
        world.ada.user,
        "mirror_quotas",
        "aurora",
        "plan 27",
    )
    assert first.before == {"vis": {H100: None}, "spe": {H100: None}}
    assert first.after == {"vis": {H100: 40}, "spe": {H100: 16}}
    assert (last.action, last.after) == ("mirrored_quotas", {"vis": "set", "spe": "set"})

    again = world.ada.post(MIRROR, {"reason": "plan 27"})
    assert again.json()["changes"] == []
    assert AuditEntry.objects.filter(action__startswith="mirror").count() == 2


def test_drift_after_an_edit_says_that_it_holds_back(world: World, there: Simulated) -> None:
    world.ada.post(MIRROR, {"reason": "plan 27"})
    set_quota(
        actor=None,
        tenant=world.team,
        flavor=make_flavor(),
        guaranteed=24,
        borrowing_limit=12,
        now=timezone.now(),
    )
    shown = world.ada.get(MIRROR)
    assert limits(shown)[f"vis {H100}"] == (40, 44, "differs")
    assert [row["account"] for row in shown.json()["limits"] if row["holds_back"]] == ["vis"]
    done = world.ada.post(MIRROR, {"reason": "more for vision"}).json()
    assert [(one["before"], one["after"], one["outcome"]) for one in done["changes"]] == [
        (40, 44, "set")
    ]
    assert "vis" in associations(there)["vis None"]["account"]


@pytest.mark.usefixtures("there")
def test_what_runs_is_never_held_back_and_tenants_of_one_account_add_up(world: World) -> None:
    configure(**{"charge": "ml", "charge.acme/vision": "vis"})
    world.bind(world.job())  # 32 GPUs, over what is left when the quota is cut
    set_quota(
        actor=None,
        tenant=world.team,
        flavor=make_flavor(),
        guaranteed=0,
        borrowing_limit=0,
        now=timezone.now(),
    )
    shown = limits(world.ada.get(MIRROR))
    assert shown[f"vis {H100}"] == (None, 32, "missing")
    assert shown[f"ml {H100}"] == (None, 40 + 16, "missing")  # acme, speech and rivals


@pytest.mark.usefixtures("there")
def test_options_that_name_nothing_are_told(world: World) -> None:
    configure(**{"charge.acme/vision": "nowhere", "charge.gone": "vis"})
    shown = world.ada.get(MIRROR)
    assert limits(shown)[f"nowhere {H100}"] == (None, 40, "no_account")
    assert shown.json()["unknown_options"] == ["charge.gone"]
    assert shown.json()["can_apply"] is False


@pytest.mark.usefixtures("there")
def test_a_connection_without_the_right_shows_and_does_not_set(world: World) -> None:
    Cluster.objects.update(account="bob")
    shown = world.ada.get(MIRROR).json()
    assert shown["can_apply"] is False
    assert shown["obstacle"]["code"] == "no_right"
    assert "AdminLevel=Operator" in shown["obstacle"]["fix"]
    assert {one["outcome"] for one in shown["changes"]} == {"by_hand"}
    refused = problem(world.ada.post(MIRROR, {"reason": "plan 27"}))
    assert (refused["status"], refused["code"]) == (409, "limits_not_set")
    assert not AuditEntry.objects.filter(action__startswith="mirror").exists()


@pytest.mark.parametrize(
    ("deed", "status", "code"),
    [
        ("silent", 502, "limits_silent"),
        ("no accounting", 409, "limits_not_read"),
        ("no key", 409, "limits_not_read"),
        ("wrong key", 502, "limits_silent"),
        ("never seen", 409, "limits_not_read"),
    ],
)
@pytest.mark.usefixtures("there")
def test_what_cannot_be_read_is_a_problem_that_says_why(
    world: World, settings: Any, deed: str, status: int, code: str
) -> None:
    cluster = Cluster.objects.get()
    if deed == "silent":
        Cluster.objects.update(endpoint="http://127.0.0.1:9")
    elif deed == "no accounting":
        configure(accounting="off")
    elif deed == "no key":
        Cluster.objects.update(secret=b"")
    elif deed == "wrong key":
        other = encrypt(b"another key, of thirty-two bytes", settings.ENVIRONMENT.encryption_keys)
        Cluster.objects.update(secret=other)
    else:
        cluster.nodes.all().delete()
    for answer in (world.ada.get(MIRROR), world.ada.post(MIRROR, {"reason": "plan 27"})):
        refused = problem(answer)
        assert (refused["status"], refused["code"]) == (status, code)
        assert "aurora" in refused["detail"]
    assert not AuditEntry.objects.filter(action__startswith="mirror").exists()


@pytest.mark.usefixtures("there")
def test_bad_bodies_and_unknown_clusters(world: World) -> None:
    for body, pointer in (
        ({}, "/reason"),
        ({"reason": "  "}, "/reason"),
        ({"reason": 7}, "/reason"),
        ({"reason": "x" * 1001}, "/reason"),
        ({"reason": "a\0b"}, "/reason"),
        ({"reason": "x", "dry_run": "yes"}, "/dry_run"),
        ({"reason": "x", "delete": True}, "/delete"),
    ):
        refused = problem(world.ada.post(MIRROR, body))
        assert refused["status"] == 422, body
        assert [one["pointer"] for one in refused["errors"]] == [pointer]
    for method in ("GET", "POST"):
        path = "/clusters/nowhere/quota-mirror"
        assert world.ada.call(method, path, {"reason": "x"}).status_code == 404


@pytest.mark.usefixtures("there")
def test_admins_only(world: World) -> None:
    for caller in (world.alice, world.bob, world.charlie):
        assert caller.get(MIRROR).status_code == 403
        assert caller.post(MIRROR, {"reason": "mine"}).status_code == 403
    assert world.nobody.get(MIRROR).status_code == 401


def test_an_answer_lost_on_the_way_is_read_back(world: World, there: Simulated) -> None:
    there.control("faults/add", kind="drop_after", method="POST", path="associations")
    done = world.ada.post(MIRROR, {"reason": "plan 27"})
    assert done.status_code == 200, done.content
    assert {row["drift"] for row in done.json()["limits"]} == {"none"}
