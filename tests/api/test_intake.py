"""`POST /jobs/intake/sbatch`: a script as the body, and what becomes of it."""

from typing import Any
from urllib.parse import urlencode

import pytest

from accounting.services.prices import PriceScope, set_price
from clusters.services.configure import set_cluster_flavor
from federation.models import Job
from quotas.models import Quota, QuotaRequest
from tenancy.models import Event, Role
from tenancy.services.access import set_member
from tenancy.services.tree import update_tenant
from tests import make
from tests.api.world import OTHER, TEAM, Caller, World, caller, problem, spots
from tests.make import NOW

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=first
#SBATCH --nodes=4
#SBATCH --gres=gpu:h100:8
#SBATCH --ntasks-per-node=8
#SBATCH --partition=gpu
#SBATCH --time=01:00:00
srun torchrun --nproc-per-node=8 --rdzv-endpoint=$MASTER_ADDR:1 train.py
"""


def send(who: Caller, script: str | bytes = SCRIPT, media: str = "text/plain", **more: Any) -> Any:
    """A script sent; `key` is an Idempotency-Key, the rest query parameters."""
    headers = {"idempotency_key": more.pop("key")} if "key" in more else {}
    raw = script if isinstance(script, bytes) else script.encode()
    path = f"/jobs/intake/sbatch?{urlencode(more, doseq=True)}"
    return who.call("POST", path, raw=raw, content_type=media, **headers)


@pytest.fixture
def quota(world: World) -> Quota:
    return Quota.objects.create(tenant=world.team, flavor_id="h100-sxm-80", guaranteed=64)


def nothing_stored() -> bool:
    return not Job.objects.exists() and not Event.objects.filter(kind="job.queued").exists()


def test_a_script_is_queued_as_a_job(world: World, quota: Quota) -> None:
    answer = send(world.bob, tenant=TEAM)
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert answer["Location"] == f"/api/v1/jobs/{body['id']}"
    assert (body["state"], body["name"], body["tenant"]) == ("queued", "first", TEAM)
    assert (body["gang"]["nodes"], body["gang"]["gpus_per_node"]) == (4, 8)
    assert body["run"] == {"script": SCRIPT, "tasks_per_node": 8}
    intake = body.pop("intake")
    assert [(w["code"], w["line"], w["option"]) for w in intake["warnings"]] == [
        ("torchrun_per_task", 8, "--ntasks-per-node")
    ]
    assert [(d["line"], d["option"]) for d in intake["dropped"]] == [(6, "--partition")]
    assert world.vera.get(f"/jobs/{body['id']}").json() == body
    assert Event.objects.get(kind="job.queued").subject == body["id"]


def test_a_dry_run_shows_the_job_and_writes_nothing(world: World, quota: Quota) -> None:
    answer = send(world.bob, tenant=TEAM, dry_run="true", key="k1")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert set(body) == {"job", "warnings", "dropped"}
    assert "Location" not in answer
    assert nothing_stored()
    assert world.bob.post("/jobs", body["job"]).status_code == 201
    assert send(world.bob, tenant=TEAM, dry_run="false", key="k1").status_code == 201


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_what_can_never_run_is_told_at_its_line(world: World, quota: Quota, dry_run: str) -> None:
    script = SCRIPT.replace("--nodes=4", "--nodes=9")
    answer = send(world.bob, script, tenant=TEAM, dry_run=dry_run)
    assert (answer.status_code, spots(answer)) == (422, [("/lines/3", "gang_too_large")])
    assert nothing_stored()


def test_a_bad_script_is_refused_whole_with_every_line(world: World, quota: Quota) -> None:
    script = SCRIPT.replace("--nodes=4", "--nodes=4-8 --array=1-9").replace("--time", "--tme")
    answer = send(world.bob, script, tenant=TEAM)
    assert (answer.status_code, problem(answer)["code"]) == (422, "invalid_content")
    assert spots(answer) == [
        ("/lines/1", "no_time_limit"),
        ("/lines/3", "not_supported"),
        ("/lines/3", "not_supported"),
        ("/lines/7", "unknown_option"),
    ]
    assert nothing_stored()


@pytest.mark.parametrize(("account", "tenant"), [(TEAM, TEAM), ("vision", TEAM), ("Vision", TEAM)])
def test_an_account_names_the_tenant(world: World, quota: Quota, account: str, tenant: str) -> None:
    answer = send(world.bob, SCRIPT.replace("--partition=gpu", f"--account={account}"))
    assert (answer.status_code, answer.json().get("tenant")) == (201, tenant)


def test_a_parameter_wins_over_the_account(world: World, quota: Quota) -> None:
    script = SCRIPT.replace("--partition=gpu", "-A nowhere")
    answer = send(world.bob, script, tenant=TEAM)
    assert (answer.status_code, answer.json().get("tenant")) == (201, TEAM)
    assert [d["option"] for d in answer.json()["intake"]["dropped"]] == ["--account"]
    update_tenant(actor=None, tenant=world.team, changes={"is_open": False}, now=NOW)
    assert spots(send(world.bob, script, tenant=TEAM)) == [("?tenant", "tenant_closed")]


@pytest.mark.parametrize("account", ["nowhere", OTHER, "lab", "rivals"])
def test_an_account_of_others_is_as_unknown_as_none(
    world: World, quota: Quota, account: str
) -> None:
    answer = send(world.bob, SCRIPT.replace("--partition=gpu", f"--account={account}"))
    assert spots(answer) == [("/lines/6", "unknown_tenant")]
    detail = problem(answer)["errors"][0]["detail"]
    assert TEAM in detail
    assert OTHER not in detail.replace(repr(account), "")


def test_an_account_of_two_tenants_is_refused_with_both(world: World, quota: Quota) -> None:
    twin = make.tenant("rivals/vision")
    set_member(actor=None, tenant=twin, user=world.bob.user, role=Role.SUBMITTER, now=NOW)
    answer = send(world.bob, SCRIPT.replace("--partition=gpu", "--account=vision"))
    assert spots(answer) == [("/lines/6", "ambiguous_tenant")]
    assert "acme/vision, rivals/vision" in problem(answer)["errors"][0]["detail"]


def test_no_tenant_at_all_is_refused_with_what_there_is(world: World) -> None:
    answer = send(world.bob)
    assert spots(answer) == [("?tenant", "no_tenant")]
    assert TEAM in problem(answer)["errors"][0]["detail"]


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_anothers_tenant_is_told_like_none(world: World, dry_run: str) -> None:
    hidden = problem(send(world.bob, tenant=OTHER, dry_run=dry_run))
    missing = problem(send(world.bob, tenant="rivals/none", dry_run=dry_run))
    assert str(hidden).replace(OTHER, "rivals/none") == str(missing)
    assert hidden["errors"][0]["pointer"] == "?tenant"
    assert spots(send(world.bob, tenant="a\0b")) == [("?tenant", "unknown_tenant")]


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_a_viewer_may_not_submit(world: World, quota: Quota, dry_run: str) -> None:
    answer = send(world.vera, tenant=TEAM, dry_run=dry_run)
    assert (answer.status_code, problem(answer)["code"]) == (403, "permission_denied")
    assert nothing_stored()


def test_a_token_that_may_only_read_may_not(world: World, quota: Quota) -> None:
    answer = send(caller(world.bob.user, ("read",)), tenant=TEAM, dry_run="true")
    assert answer.status_code == 403


def test_a_closed_tenant_is_told_at_the_account(world: World, quota: Quota) -> None:
    update_tenant(actor=None, tenant=world.team, changes={"is_open": False}, now=NOW)
    answer = send(world.bob, SCRIPT.replace("--partition=gpu", "--account=vision"))
    assert spots(answer) == [("/lines/6", "tenant_closed")]
    assert spots(send(world.bob, tenant=TEAM)) == [("?tenant", "tenant_closed")]


UNTYPED = SCRIPT.replace("gpu:h100:8", "gpu:8")


def test_every_flavor_that_the_tenant_has_quota_for_is_acceptable(world: World) -> None:
    parent = world.team.parent
    assert parent is not None
    make.flavor("a100-sxm-80")
    make.flavor("b200")
    rows = (
        (world.team, "mi300x", 8, None),
        (parent, "h100-sxm-80", 64, None),
        (parent, "a100-sxm-80", 0, 16),
        (parent, "b200", 0, 0),
    )
    for tenant, flavor, guaranteed, borrowing in rows:
        Quota.objects.create(
            tenant=tenant, flavor_id=flavor, guaranteed=guaranteed, borrowing_limit=borrowing
        )
    Quota.objects.create(tenant=world.other, flavor_id="b200", guaranteed=8)
    answer = send(world.bob, UNTYPED, tenant=TEAM)
    assert answer.json()["flavors"] == ["h100-sxm-80", "mi300x", "a100-sxm-80"]


def test_a_grant_is_quota_too(world: World) -> None:
    QuotaRequest.objects.create(
        tenant=world.team,
        flavor_id="h100-sxm-80",
        gpus=32,
        wanted_from=NOW,
        why="a run",
        asked_by=world.alice.user,
        asked_at=NOW,
        state="approved",
        decided_at=NOW,
        granted_gpus=32,
        granted_from=NOW,
    )
    assert send(world.bob, UNTYPED, tenant=TEAM).json()["flavors"] == ["h100-sxm-80"]


def test_without_quota_nothing_is_acceptable(world: World) -> None:
    answer = send(world.bob, tenant=TEAM)
    assert spots(answer) == [("/lines/1", "no_flavor")]


def test_named_flavors_are_kept_in_order(world: World) -> None:
    named = ["mi300x", "h100-sxm-80"]
    answer = send(world.bob, UNTYPED, tenant=TEAM, flavor=named)
    assert answer.json()["flavors"] == named
    assert send(world.bob, tenant=TEAM, flavor=named).json()["flavors"] == ["h100-sxm-80"]
    assert spots(send(world.bob, tenant=TEAM, flavor="mi300x")) == [
        ("/lines/4", "flavor_not_accepted")
    ]
    assert spots(send(world.bob, UNTYPED, tenant=TEAM, flavor="tpu")) == [
        ("?flavor", "unknown_flavor")
    ]


def test_a_gpu_is_called_as_on_some_cluster(world: World, quota: Quota) -> None:
    far = make.cluster("borealis")
    flavor = quota.flavor
    set_cluster_flavor(actor=None, cluster=far, flavor=flavor, device="nvidia_h100_80gb", now=NOW)
    script = SCRIPT.replace("gpu:h100:8", "gpu:NVIDIA_H100_80GB:8")
    assert send(world.bob, script, tenant=TEAM).status_code == 201
    answer = send(world.bob, SCRIPT.replace("gpu:h100", "gpu:v100"), tenant=TEAM)
    assert spots(answer) == [("/lines/4", "unknown_gpu")]
    assert "nvidia_h100_80gb" in problem(answer)["errors"][0]["detail"]


def test_the_same_key_gives_the_first_answer_again(world: World, quota: Quota) -> None:
    first = send(world.bob, tenant=TEAM, key="k1")
    quota.delete()  # what it was made of need not be there any more
    again = send(world.bob, tenant=TEAM, key="k1")
    assert again["Idempotency-Replayed"] == "true"
    assert (again.status_code, again.json()) == (201, first.json())
    assert again["Location"] == first["Location"]
    assert Job.objects.count() == 1


@pytest.mark.parametrize("change", [{"script": SCRIPT + "\n"}, {"flavor": "h100-sxm-80"}])
def test_the_same_key_with_another_script_or_query_is_refused(
    world: World, quota: Quota, change: dict[str, str]
) -> None:
    send(world.bob, tenant=TEAM, key="k1")
    answer = send(world.bob, **{"tenant": TEAM, "key": "k1", **change})
    assert (answer.status_code, problem(answer)["code"]) == (409, "idempotency_key_reused")
    assert Job.objects.count() == 1


def test_a_script_is_plain_text_or_bytes(world: World, quota: Quota) -> None:
    for media in ("text/plain; charset=utf-8", "application/octet-stream"):
        assert send(world.bob, media=media, tenant=TEAM).status_code == 201
    for media in ("application/json", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = send(world.bob, media=media, tenant=TEAM)
        assert (answer.status_code, problem(answer)["code"]) == (415, "unsupported_media_type")
        assert "text/plain" in problem(answer)["detail"]


@pytest.mark.parametrize(
    ("raw", "status", "spot"),
    [
        (b"", 422, ("/lines/1", "empty")),
        (b"#!/bin/sh\n# gr\xfc\xdfe\n", 422, ("/lines/2", "not_utf8")),
        (SCRIPT.replace("\n", "\r\n").encode(), 422, ("/lines/1", "dos_line_breaks")),
        (SCRIPT.encode() + b"x" * (2 << 20), 422, ("/lines/1", "too_long")),
        (SCRIPT.encode() + b"x" * (5 << 20), 413, None),
    ],
    ids=["empty", "not UTF-8", "CRLF", "2 MB", "5 MB"],
)
def test_bytes_that_are_no_script(
    world: World, quota: Quota, raw: bytes, status: int, spot: tuple[str, str] | None
) -> None:
    answer = send(world.bob, raw, tenant=TEAM)
    assert answer.status_code == status
    assert spots(answer) == ([spot] if spot else [])
    assert nothing_stored()


def test_parameters_are_checked(world: World, quota: Quota) -> None:
    assert spots(send(world.bob, tenant=TEAM, dry_run="maybe")) == [
        ("?dry_run", "invalid_parameter")
    ]
    assert spots(send(world.bob, tenant=TEAM, colour="red")) == [("?colour", "invalid_parameter")]


def test_the_worst_case_is_told_as_for_any_job(world: World, quota: Quota) -> None:
    scope = PriceScope("h100-sxm-80", "guaranteed")
    set_price(
        actor=None,
        scope=scope,
        nano_per_gpu_hour=2 * 10**9,
        currency="USD",
        effective_from=NOW,
        now=NOW,
    )
    whole = send(world.bob, tenant=TEAM).json()
    assert whole["cost"] == world.bob.get(f"/jobs/{whole['id']}").json()["cost"]
