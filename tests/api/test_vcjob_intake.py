"""`POST /jobs/intake/vcjob`: a Volcano Job as the body, and what becomes of it."""

from typing import Any
from urllib.parse import urlencode

import pytest

from clusters.models import ClusterAccount
from clusters.services.configure import set_account, set_cluster_flavor
from federation.models import Job
from quotas.models import Quota
from tenancy.models import Event, Role
from tenancy.services.access import set_member
from tests import make
from tests.api.world import OTHER, TEAM, Caller, World, caller, problem, spots
from tests.make import NOW

FILE = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: first
spec:
  queue: vision
  plugins: {svc: [], env: []}
  tasks:
    - name: worker
      replicas: 4
      template:
        spec:
          activeDeadlineSeconds: 3600
          containers:
            - name: train
              image: registry.example/train:1.0
              command: [torchrun, train.py]
              resources:
                limits: {nvidia.com/gpu: 8}
"""


def send(
    who: Caller, file: str | bytes = FILE, media: str = "application/yaml", **more: Any
) -> Any:
    """A file sent; `key` is an Idempotency-Key, the rest query parameters."""
    headers = {"idempotency_key": more.pop("key")} if "key" in more else {}
    raw = file if isinstance(file, bytes) else file.encode()
    path = f"/jobs/intake/vcjob?{urlencode(more, doseq=True)}"
    return who.call("POST", path, raw=raw, content_type=media, **headers)


@pytest.fixture
def quota(world: World) -> Quota:
    """Quota for a model that a Volcano cluster has."""
    far = make.cluster("borealis", backend="volcano")
    row = Quota.objects.create(tenant=world.team, flavor_id="h100-sxm-80", guaranteed=64)
    device = "nvidia.com/gpu:H100"
    set_cluster_flavor(actor=None, cluster=far, flavor=row.flavor, device=device, now=NOW)
    set_account(actor=None, cluster=far, user=world.bob.user, account="team-bob", now=NOW)
    return row


def nothing_stored() -> bool:
    return not Job.objects.exists() and not Event.objects.filter(kind="job.queued").exists()


def test_a_file_is_queued_as_a_job(world: World, quota: Quota) -> None:
    answer = send(world.bob, tenant=TEAM)
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert answer["Location"] == f"/api/v1/jobs/{body['id']}"
    assert (body["state"], body["name"], body["tenant"]) == ("queued", "first", TEAM)
    assert (body["gang"]["nodes"], body["gang"]["gpus_per_node"]) == (4, 8)
    assert body["run"] == {
        "image": "registry.example/train:1.0",
        "command": ["torchrun", "train.py"],
    }
    intake = body.pop("intake")
    assert [(d["line"], d["option"]) for d in intake["dropped"]] == [(6, "spec.queue")]
    assert world.vera.get(f"/jobs/{body['id']}").json() == body


def test_a_dry_run_shows_the_job_and_writes_nothing(world: World, quota: Quota) -> None:
    answer = send(world.bob, tenant=TEAM, dry_run="true", key="k1")
    assert answer.status_code == 200, answer.content
    assert set(answer.json()) == {"job", "warnings", "dropped"}
    assert "Location" not in answer
    assert nothing_stored()
    assert world.bob.post("/jobs", answer.json()["job"]).status_code == 201
    assert send(world.bob, tenant=TEAM, dry_run="false", key="k1").status_code == 201


def test_a_bad_file_is_refused_whole_with_every_line(world: World, quota: Quota) -> None:
    file = FILE.replace("queue:", "que:").replace("replicas: 4", "replicas: 0")
    answer = send(world.bob, file, tenant=TEAM)
    assert (answer.status_code, problem(answer)["code"]) == (422, "invalid_content")
    assert spots(answer) == [("/lines/6", "unknown_field"), ("/lines/10", "required")]
    assert nothing_stored()


def test_what_is_wrong_with_the_job_is_told_at_its_line(world: World, quota: Quota) -> None:
    file = FILE.replace("image: registry.example/train:1.0", "image: -odd")
    assert spots(send(world.bob, file, tenant=TEAM)) == [("/lines/16", "invalid_format")]
    far = ClusterAccount.objects.get(user=world.bob.user, cluster__name="borealis")
    far.delete()
    assert ("/lines/19", "backend_cannot_run") in spots(send(world.bob, tenant=TEAM))
    assert nothing_stored()


def test_the_only_tenant_is_the_tenant(world: World, quota: Quota) -> None:
    assert send(world.bob).json()["tenant"] == TEAM
    twin = make.tenant("rivals/vision")
    set_member(actor=None, tenant=twin, user=world.bob.user, role=Role.SUBMITTER, now=NOW)
    answer = send(world.bob)
    assert spots(answer) == [("?tenant", "no_tenant")]
    assert "acme/vision, rivals/vision" in problem(answer)["errors"][0]["detail"]


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_anothers_tenant_is_told_like_none(world: World, dry_run: str) -> None:
    hidden = problem(send(world.bob, tenant=OTHER, dry_run=dry_run))
    missing = problem(send(world.bob, tenant="rivals/none", dry_run=dry_run))
    assert str(hidden).replace(OTHER, "rivals/none") == str(missing)
    assert "?tenant" in {one["pointer"] for one in hidden["errors"]}
    assert ("?tenant", "unknown_tenant") in spots(send(world.bob, tenant="a\0b"))


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_a_viewer_may_not_submit(world: World, quota: Quota, dry_run: str) -> None:
    answer = send(world.vera, tenant=TEAM, dry_run=dry_run)
    assert (answer.status_code, problem(answer)["code"]) == (403, "permission_denied")
    assert nothing_stored()


def test_a_token_that_may_only_read_may_not(world: World, quota: Quota) -> None:
    answer = send(caller(world.bob.user, ("read",)), tenant=TEAM, dry_run="true")
    assert answer.status_code == 403


def test_nobody_is_asked_who_they_are(world: World) -> None:
    assert send(world.nobody, tenant=TEAM).status_code == 401


def test_a_gpu_that_no_cluster_has_is_told(world: World, quota: Quota) -> None:
    answer = send(world.bob, FILE.replace("nvidia.com/gpu", "amd.com/gpu"), tenant=TEAM)
    assert spots(answer) == [("/lines/19", "unknown_gpu")]
    assert "nvidia.com/gpu" in problem(answer)["errors"][0]["detail"]


def test_a_named_flavor_has_to_be_such_a_gpu(world: World, quota: Quota) -> None:
    assert send(world.bob, tenant=TEAM, flavor="h100-sxm-80").status_code == 201
    answer = send(world.bob, tenant=TEAM, flavor="mi300x")
    assert spots(answer) == [("/lines/19", "flavor_not_accepted")]


def test_the_same_key_gives_the_first_answer_again(world: World, quota: Quota) -> None:
    first = send(world.bob, tenant=TEAM, key="k1")
    again = send(world.bob, tenant=TEAM, key="k1")
    assert again["Idempotency-Replayed"] == "true"
    assert (again.status_code, again.json()) == (201, first.json())
    assert again["Location"] == first["Location"]
    other = send(world.bob, FILE + "# more\n", tenant=TEAM, key="k1")
    assert (other.status_code, problem(other)["code"]) == (409, "idempotency_key_reused")
    assert Job.objects.count() == 1


def test_a_file_is_yaml_json_text_or_bytes(world: World, quota: Quota) -> None:
    for media in (
        "application/yaml; charset=utf-8",
        "application/x-yaml",
        "text/yaml",
        "text/plain",
        "application/octet-stream",
        "application/json",
    ):
        assert send(world.bob, media=media, tenant=TEAM).status_code == 201
    for media in ("application/x-www-form-urlencoded", "multipart/form-data", "application/xml"):
        answer = send(world.bob, media=media, tenant=TEAM)
        assert (answer.status_code, problem(answer)["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("raw", "status", "spot"),
    [
        (b"", 422, ("/lines/1", "empty")),
        (b"a: b\n\xff\n", 422, ("/lines/2", "not_utf8")),
        (b"a: [\n" * 100, 422, ("/lines/33", "too_large")),
        (b"# x\n" * (1 << 19), 422, ("/lines/1", "too_long")),
        (b"a: \0\n", 422, ("/lines/1", "control_character")),
    ],
    ids=["empty", "bytes", "depth", "2 MB", "NUL"],
)
def test_bytes_that_are_no_job(
    world: World, quota: Quota, raw: bytes, status: int, spot: tuple[str, str]
) -> None:
    answer = send(world.bob, raw, tenant=TEAM)
    assert (answer.status_code, spots(answer)[0]) == (status, spot)


def test_more_than_four_megabytes_are_not_read(world: World, quota: Quota) -> None:
    answer = send(world.bob, b"# x\n" * (2 << 20), tenant=TEAM)
    assert answer.status_code == 413


@pytest.mark.parametrize("query", ["dry_run=maybe", "colour=red", "dry_run=true&dry_run=false"])
def test_a_bad_query_is_told(world: World, quota: Quota, query: str) -> None:
    path = f"/jobs/intake/vcjob?tenant={TEAM}&{query}"
    answer = world.bob.call("POST", path, raw=FILE.encode(), content_type="application/yaml")
    assert answer.status_code in (400, 422), answer.content
    assert nothing_stored()
