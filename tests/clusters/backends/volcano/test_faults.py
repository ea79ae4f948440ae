"""What may go wrong between Muster and a Volcano cluster: each fault, through the backend."""

import json
from dataclasses import replace
from typing import Any

import pytest

from clusters.core.backend import (
    BackendAmbiguousError,
    BackendRejectedError,
    BackendUnavailableError,
)
from clusters.core.observation import GangState
from simulator.config import Token
from tests.clusters.backends.volcano.test_backend import FENCE
from tests.clusters.backends.volcano.test_dead import Site
from tests.clusters.backends.volcano.test_simulated import gang
from tests.simulator.volcano.harness import COMMANDS, JOBS, PODS, QUEUES, lab_cluster, task
from tests.simulator.volcano.harness import gang as others

MUSTER = "system:serviceaccount:muster:muster"


@pytest.fixture
def site() -> Site:
    return Site()


def status(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return {"status": code, "text": json.dumps({**body, "message": message, "details": details})}


def test_an_api_server_that_was_restarted_is_read_anew(site: Site) -> None:
    backend = site.backend()
    backend.submit(gang(*site.nodes[:1]))
    backend.observe(0, [])
    site.lab.control("api/restart")  # every earlier version is too old now
    site.lab.wait(6)
    (seen,) = backend.observe(0, []).gangs
    assert seen.state is GangState.RUNNING


def test_a_webhook_that_times_out_and_then_answers(site: Site) -> None:
    words = 'failed calling webhook "mutatejob.volcano.sh": failed to call webhook: TLS handshake timeout'
    site.fault("reply_before", method="POST", path="/jobs", **status(500, "InternalError", words))
    one = gang(*site.nodes[:1])
    with pytest.raises(BackendAmbiguousError, match="failed calling webhook"):
        site.backend().submit(one, is_repeat=False)
    assert site.backend().submit(one).backend_id
    assert site.jobs() == [FENCE]


@pytest.mark.parametrize("verb", ["cancel", "drain", "signal", "reclassify"])
def test_a_conflict_or_too_many_calls_is_tried_again_later(site: Site, verb: str) -> None:
    site.backend().submit(gang(*site.nodes[:1]))
    assert site.state(6) is GangState.RUNNING
    deeds = {
        "cancel": lambda: site.backend().cancel(FENCE, "team"),
        "drain": lambda: site.backend().drain([site.nodes[0]], "fans"),
        "signal": lambda: site.backend().signal(FENCE, "team", "USR1"),
        "reclassify": lambda: site.backend().reclassify(FENCE, "team", "high"),
    }
    method = "POST" if verb == "cancel" else "PATCH"
    for fault in (
        {"kind": "reply_before", **status(409, "Conflict", "the object has been modified")},
        {"kind": "too_many", "ms": 3_000},
    ):
        site.fault(**fault, method=method)
        with pytest.raises(BackendUnavailableError):
            deeds[verb]()
    deeds[verb]()


def test_a_namespace_that_is_missing_or_goes_refuses_in_the_clusters_words(site: Site) -> None:
    with pytest.raises(BackendRejectedError, match='namespaces "nowhere" not found'):
        site.backend().submit(replace(gang(*site.nodes[:1]), account="nowhere"))
    words = "unable to create new content in namespace team because it is being terminated"
    causes = [{"reason": "NamespaceTerminating"}]
    site.fault("reply_before", method="POST", path="/jobs",
               **status(403, "Forbidden", words, causes=causes))  # fmt: skip
    with pytest.raises(BackendRejectedError, match="being terminated"):  # no right of ours lacks
        site.backend().submit(gang(*site.nodes[:1]))


def test_a_queue_that_was_closed_after_the_decision(site: Site) -> None:
    """The attempt ends as refused with a code of its own, and the job goes elsewhere."""
    site.lab.command("CloseQueue", "team-g", kind="Queue")
    site.lab.wait(1)
    state = site.lab.get(f"{QUEUES}/team-g")["status"]["state"]
    assert state in ("Closed", "Closing")
    with pytest.raises(BackendRejectedError, match="can only submit job to queue") as refused:
        site.backend().submit(gang(*site.nodes[:1]))
    assert refused.value.code == "queue_closed"
    assert site.jobs() == []
    with pytest.raises(BackendRejectedError) as missing:
        site.backend().submit(replace(gang(*site.nodes[:1]), queue="nope"))
    assert missing.value.code == "400"


def test_a_quota_is_a_refusal_and_a_right_that_lacks_is_not(site: Site) -> None:
    words = 'jobs.batch.volcano.sh "x" is forbidden: exceeded quota: gpus'
    site.fault("reply_before", method="POST", path="/jobs", **status(403, "Forbidden", words))
    with pytest.raises(BackendRejectedError, match="exceeded quota"):
        site.backend().submit(gang(*site.nodes[:1]))
    site.fault("reply_before", method="POST", path="/jobs", **status(403, "Forbidden", words))
    site.fault("drop_before", method="POST", path="selfsubjectaccessreviews")
    with pytest.raises(BackendUnavailableError):  # nobody can tell: later
        site.backend().submit(gang(*site.nodes[:1]))


def narrowed(*lacking: str) -> Site:
    """A place with an account that lacks verbs on jobs, and may see all."""
    rights = [["*", "*", "list"], ["*", "*", "watch"], ["authorization.k8s.io", "*", "*"]]
    for verb in ("create", "get", "patch"):
        if verb not in lacking:
            rights += [["*", "*", verb, "team"]]
    config = lab_cluster()
    assert config.volcano is not None
    less = Token("less", MUSTER, rights)
    volcano = replace(config.volcano, tokens=[*config.volcano.tokens, less])
    return Site(replace(config, volcano=volcano))


def test_rights_that_were_narrowed_while_it_ran_are_no_fault_of_the_job() -> None:
    site = narrowed("create")
    assert site.backend(b"less").observe(0, []).nodes
    with pytest.raises(BackendUnavailableError, match="cannot create resource") as told:
        site.backend(b"less").submit(gang(*site.nodes[:1]), is_repeat=False)
    assert told.value.code == "Forbidden"
    site.backend().submit(gang(*site.nodes[:1]))
    for deed in (
        lambda: narrowed("get").backend(b"less").cancel(FENCE, "team"),
        lambda: site.backend(b"less").cancel(FENCE, "team"),
        lambda: site.backend(b"less").drain([site.nodes[0]], "fans"),
    ):
        with pytest.raises(BackendUnavailableError):
            deed()


def test_a_token_that_expires_while_it_runs(site: Site) -> None:
    site.lab.control("tokens/grant", token="brief", user="admin", seconds=600)
    assert site.backend(b"brief").observe(0, []).nodes
    site.lab.wait(601)
    for deed in (
        lambda: site.backend(b"brief").observe(0, []),
        lambda: site.backend(b"brief").submit(gang(*site.nodes[:1]), is_repeat=False),
    ):
        with pytest.raises(BackendUnavailableError) as told:
            deed()
        assert told.value.code == "unauthorized"


def test_pods_deleted_by_hand_end_the_gang_whole(site: Site) -> None:
    site.backend().submit(replace(gang(*site.nodes[:2]), grace_s=5))
    assert site.state(6) is GangState.RUNNING
    site.lab.client.delete(f"{PODS}/{FENCE}-r1-0")
    for _ in range(10):
        if site.state(3).is_final:
            break
    (seen,) = site.backend().observe(0, [FENCE]).gangs
    assert seen.state is GangState.CANCELLED  # who deletes a pod, cancels there
    assert site.state_of_all(1) == []


def test_a_job_deleted_by_hand_is_absent_and_never_made_anew(site: Site) -> None:
    made = site.backend().submit(gang(*site.nodes[:2]))
    assert site.state(6) is GangState.RUNNING
    site.lab.client.delete(f"{JOBS}/{FENCE}")
    site.lab.wait(200)
    seen = site.backend().observe(0, [FENCE])
    assert (seen.gangs, seen.accounting_answered) == ((), True)
    assert site.backend().submit(gang(*site.nodes[:2]), known_as=made.backend_id) == made
    site.backend().cancel(FENCE, "team")
    assert site.jobs() == []


def test_somebody_elses_work_is_seen_and_left_alone(site: Site) -> None:
    site.lab.post(JOBS, others("theirs", task(replicas=2)))
    site.lab.wait(6)
    site.backend().cancel("theirs", "team")
    seen = site.backend().observe(0, ["theirs"])
    assert (seen.gangs, sum(seen.foreign.gpus.values())) == ((), 16)
    assert site.lab.get(COMMANDS)["items"] == []


@pytest.mark.parametrize("group", ["batch.volcano.sh", "scheduling.volcano.sh"])
def test_kinds_that_are_not_defined_are_no_fault_of_a_job(site: Site, group: str) -> None:
    site.said[f"/apis/{group}"] = (404, "404 page not found\n")
    with pytest.raises(BackendUnavailableError) as told:
        site.backend().observe(0, [])
    assert told.value.code == "not_served"
    if group == "batch.volcano.sh":
        with pytest.raises(BackendUnavailableError):
            site.backend().submit(gang(*site.nodes[:1]))
        with pytest.raises(BackendUnavailableError):
            site.backend().cancel(FENCE, "team")
    report = site.backend().probe(0)
    assert not report.capabilities["reachable"]


def test_a_definition_of_another_version_is_found_by_the_probe(site: Site) -> None:
    other = {"kind": "APIGroup", "name": "bus.volcano.sh", "versions": [{"version": "v1"}]}
    site.said["/apis/bus.volcano.sh"] = (200, json.dumps(other))  # it is not listed, only written
    (told,) = [one for one in site.backend().probe(0).findings if one.capability == "definitions"]
    assert (told.is_on, told.detail) == (False, "not defined: bus.volcano.sh/v1alpha1")


def test_the_end_of_what_each_rank_wrote(site: Site) -> None:
    site.backend().submit(gang(*site.nodes[:2]))
    assert site.state(6) is GangState.RUNNING
    for rank in (1, 0):
        site.said[f"r{rank}-0/log"] = (200, f"rank {rank} says")
    assert site.backend().logs(FENCE) == (
        f"==> {FENCE}-r0-0 <==\nrank 0 says\n==> {FENCE}-r1-0 <==\nrank 1 says"
    )
    assert site.backend().logs("mst-none-a1") == ""
