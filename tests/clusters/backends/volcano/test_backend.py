"""The backend against the simulated API server, with its faults."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.warm import forget
from clusters.core.backend import (
    NOT_RUNNING,
    BackendAmbiguousError,
    BackendRejectedError,
    BackendUnavailableError,
    Connection,
    Finding,
)
from clusters.core.observation import GangState, NodeState
from simulator.config import Cluster, Token
from simulator.inprocess import InProcess
from tests.clusters.backends.volcano.test_simulated import gang
from tests.simulator.volcano.harness import JOBS, PODS, Lab, lab_cluster

FENCE = "mst-x-a1"


class Site:
    def __init__(self, config: Cluster | None = None) -> None:
        self.lab = Lab(config)
        self.nodes = tuple(sorted(one.name for one in self.backend().observe(0, []).nodes))

    def backend(self, token: bytes = b"root-token", **options: str) -> VolcanoBackend:
        connection = Connection(
            "volc", "http://lab", token, "", {"namespaces": "team, other", **options}
        )
        client = KubernetesClient(connection, transport=InProcess(self.lab.cluster))
        return VolcanoBackend(client)

    def fault(self, kind: str, **more: Any) -> None:
        self.lab.control("faults/add", kind=kind, **more)

    def jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in self.lab.get(JOBS)["items"]]

    def state_of_all(self, seconds: float) -> list[str]:
        """The phases of all pods after so many seconds."""
        self.lab.wait(seconds)
        return [pod["status"]["phase"] for pod in self.lab.get(PODS)["items"]]

    def state(self, seconds: float = 0) -> GangState:
        self.lab.wait(seconds)
        (seen,) = self.backend().observe(0, [FENCE]).gangs
        return seen.state


@pytest.fixture
def site() -> Iterator[Site]:
    forget()
    yield Site()
    forget()


def test_a_submit_makes_one_job_however_often_it_is_asked(site: Site) -> None:
    one = gang(*site.nodes[:2])
    made = site.backend().submit(one, is_repeat=False)
    assert site.backend().submit(one) == site.backend().submit(one, is_repeat=False) == made
    assert site.backend().submit(one, known_as=made.backend_id) == made
    assert site.jobs() == [FENCE]
    assert site.state(6) is GangState.RUNNING


@pytest.mark.parametrize(
    ("kind", "skip"), [("drop_before", 0), ("drop_after", 0), ("drop_before", 1), ("drop_after", 1)]
)
def test_a_lost_submit_is_looked_up_and_not_repeated(site: Site, kind: str, skip: int) -> None:
    """The dry run or the create is lost, on the way there or back."""
    one = gang(*site.nodes[:2])
    site.fault(kind, method="POST", path="/jobs", skip=skip)
    with pytest.raises(BackendAmbiguousError):
        site.backend().submit(one, is_repeat=False)
    assert site.backend().submit(one).backend_id
    assert site.jobs() == [FENCE]


def test_what_was_accepted_once_is_never_made_anew(site: Site) -> None:
    one = gang(*site.nodes[:1])
    made = site.backend().submit(one)
    site.lab.client.delete(f"{JOBS}/{FENCE}")
    assert site.backend().submit(one, known_as=made.backend_id) == made
    assert site.jobs() == []


def test_somebody_elses_job_of_the_name_is_left_alone(site: Site) -> None:
    one = gang(*site.nodes[:1])
    theirs = site.backend(mark="another").submit(one)
    for is_repeat in (True, False):
        with pytest.raises(BackendRejectedError) as refused:
            site.backend().submit(one, is_repeat=is_repeat)
        assert refused.value.code == "not_ours"
    site.backend().cancel(FENCE, "team")
    seen = site.backend().observe(0, [])
    assert ([one.backend_id for one in seen.namesakes], seen.gangs) == ([theirs.backend_id], ())


def test_refused_in_the_clusters_own_words_and_nothing_is_made(site: Site) -> None:
    with pytest.raises(BackendRejectedError, match="unable to find job queue"):
        site.backend().submit(replace(gang(*site.nodes[:1]), queue="nope"))
    assert site.jobs() == []


def test_a_cancel_ends_it_and_asking_again_does_no_harm(site: Site) -> None:
    site.backend().cancel(FENCE, "team")  # absent
    made = site.backend().submit(gang(*site.nodes[:2]))
    assert site.state(6) is GangState.RUNNING
    site.backend().cancel(FENCE, "team")
    site.backend().cancel(FENCE, "team")
    assert site.state(1) is GangState.ENDING
    for _ in range(60):
        if site.state(3).is_final:
            break
    (seen,) = site.backend().observe(0, [FENCE]).gangs
    assert (seen.state, seen.backend_id) == (GangState.CANCELLED, made.backend_id)
    assert [run.end_ms is not None for run in seen.runs] == [True]
    site.backend().cancel(FENCE, "team")  # over


def test_a_cancel_right_after_the_submit(site: Site) -> None:
    site.backend().submit(gang(*site.nodes[:2]))
    site.backend().cancel(FENCE, "team")
    for _ in range(60):
        if site.state(3).is_final:
            break
    assert site.state() is GangState.CANCELLED


def test_nodes_are_cordoned_and_given_back(site: Site) -> None:
    first, second = site.nodes[:2]

    def states() -> dict[str, NodeState]:
        return {one.name: one.state for one in site.backend().observe(0, []).nodes}

    site.backend().drain([first, second], "fans")
    assert (states()[first], states()[second]) == (NodeState.DRAINING, NodeState.DRAINING)
    site.backend().undrain([first])
    assert (states()[first], states()[second]) == (NodeState.UP, NodeState.DRAINING)


def test_a_job_gets_another_priority_class(site: Site) -> None:
    site.backend().submit(gang(*site.nodes[:1]))
    site.backend().reclassify(FENCE, "team", "high")
    assert site.lab.job(FENCE)["spec"]["priorityClassName"] == "high"
    site.backend().reclassify("mst-none-a1", "team", "high")


def test_a_bad_token_is_the_clusters_setting_that_is_wrong(site: Site) -> None:
    with pytest.raises(BackendUnavailableError) as refused:
        site.backend(b"wrong").observe(0, [])
    assert refused.value.code == "unauthorized"


@pytest.mark.parametrize("kind", ["drop_before", "drop_after"])
def test_a_lost_reading_is_no_doubt(site: Site, kind: str) -> None:
    site.fault(kind, method="GET", path="/pods")
    with pytest.raises(BackendUnavailableError):
        site.backend().observe(0, [])
    assert site.backend().observe(0, []).nodes


def test_a_server_that_cannot_be_reached(site: Site) -> None:
    site.lab.control("wire/refuse", ms=1_000)
    with pytest.raises(BackendUnavailableError) as refused:
        site.backend().submit(gang(*site.nodes[:1]), is_repeat=False)
    assert refused.value.code == "unreachable"


def test_a_list_comes_in_pages_of_one_version(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = site.backend().observe(0, []).nodes
    monkeypatch.setattr("clusters.backends.volcano.client.PAGE", 5)
    assert site.backend().observe(0, []).nodes == whole
    assert len(whole) == 16


def test_pages_that_expired_are_begun_anew(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusters.backends.volcano.client.PAGE", 5)
    gone = {"kind": "Status", "reason": "Expired", "message": "too old", "code": 410}
    site.fault(
        "reply_before", method="GET", path="/nodes", skip=1, status=410, text=json.dumps(gone)
    )
    assert len(site.backend().observe(0, []).nodes) == 16
    site.fault("reply_before", method="GET", path="/nodes", skip=1, times=None, status=410,
               text=json.dumps(gone))  # fmt: skip
    with pytest.raises(BackendUnavailableError) as refused:
        site.backend().observe(0, [])
    assert refused.value.code == "Expired"


@pytest.mark.parametrize(
    ("status", "kind"), [(500, BackendAmbiguousError), (429, BackendUnavailableError)]
)
def test_a_refusal_without_a_word_that_could_be_read(
    site: Site, status: int, kind: type[Exception]
) -> None:
    site.fault("reply_before", method="POST", path="/jobs", status=status, text="<html>")
    with pytest.raises(kind):
        site.backend().submit(gang(*site.nodes[:1]), is_repeat=False)
    assert site.jobs() == []


def test_an_answer_cut_short_may_have_happened(site: Site) -> None:
    site.fault("truncate", method="POST", path="/jobs", skip=1)
    one = gang(*site.nodes[:1])
    with pytest.raises(BackendAmbiguousError):
        site.backend().submit(one, is_repeat=False)
    assert site.backend().submit(one).backend_id
    assert site.jobs() == [FENCE]


def test_how_long_to_wait_is_what_the_server_says(site: Site) -> None:
    site.fault("too_many", method="GET", path="/nodes", ms=7_000)
    with pytest.raises(BackendUnavailableError) as refused:
        site.backend().observe(0, [])
    assert refused.value.retry_after_s == 7


@pytest.mark.parametrize("kind", ["half_json", "empty_answer", "bad_gateway", "reset_after"])
def test_any_answer_that_is_none_leaves_a_doubt_that_looking_ends(site: Site, kind: str) -> None:
    one = gang(*site.nodes[:1])
    site.fault(kind, method="POST", path="/jobs", skip=1)
    with pytest.raises(BackendAmbiguousError):
        site.backend().submit(one, is_repeat=False)
    assert site.backend().submit(one).backend_id
    assert site.jobs() == [FENCE]


def annotations(site: Site) -> dict[str, str]:
    """Of each pod, the signal that it bears."""
    return {
        pod["metadata"]["name"]: (pod["metadata"].get("annotations") or {}).get("muster/signal", "")
        for pod in site.lab.get(PODS)["items"]
    }


def test_a_signal_is_written_on_every_pod_that_runs_and_each_is_another(site: Site) -> None:
    with pytest.raises(BackendRejectedError) as refused:
        site.backend().signal(FENCE, "team", "USR1")  # absent
    assert refused.value.code == NOT_RUNNING
    site.backend().submit(gang(*site.nodes[:2]))
    with pytest.raises(BackendRejectedError, match="does not run"):
        site.backend().signal(FENCE, "team", "USR1")
    assert site.state(6) is GangState.RUNNING
    site.backend().signal(FENCE, "team", "USR1")
    pods = {f"{FENCE}-r0-0", f"{FENCE}-r1-0"}
    assert annotations(site) == dict.fromkeys(pods, "USR1 1")
    site.backend().signal(FENCE, "team", "TERM")
    assert annotations(site) == dict.fromkeys(pods, "TERM 2")
    site.backend().cancel(FENCE, "team")
    site.lab.wait(1)
    with pytest.raises(BackendRejectedError):  # its pods leave
        site.backend().signal(FENCE, "team", "USR1")


def test_a_signal_reaches_no_pod_of_anybody_else(site: Site) -> None:
    site.backend(mark="another").submit(gang(*site.nodes[:1]))
    assert site.state_of_all(6)
    with pytest.raises(BackendRejectedError):
        site.backend().signal(FENCE, "team", "USR1")
    assert set(annotations(site).values()) == {""}


@pytest.mark.parametrize(
    ("told", "step"), [("1200", 1200), ("0", 0), ("-1", None), ("12e3", None), ("9" * 17, None)]
)
def test_a_pod_says_what_it_has_saved(site: Site, told: str, step: int | None) -> None:
    site.backend().submit(gang(*site.nodes[:2]))
    assert site.state(6) is GangState.RUNNING
    body = {"metadata": {"annotations": {"muster/checkpoint": told}}}
    assert site.lab.merge(f"{PODS}/{FENCE}-r1-0", body).status_code == 200
    (seen,) = site.backend().observe(0, [FENCE]).gangs
    assert seen.checkpoint_step == step


def findings(site: Site, token: bytes = b"root-token", **options: str) -> dict[str, Finding]:
    report = site.backend(token, **options).probe(0)
    return {one.capability: one for one in report.findings}


def test_a_probe_of_a_cluster_that_has_all(site: Site) -> None:
    report = site.backend().probe(0)
    assert (report.version[:2], report.api) == ("v1", "batch.volcano.sh/v1alpha1")
    off = {one.capability for one in report.findings if not one.is_on}
    assert off == set()
    assert all(one.fix for one in report.findings if not one.is_on)
    assert report.capabilities["devices"]


def test_a_probe_tells_each_right_that_is_missing_and_where() -> None:
    """The account of deploy/member/volcano in one namespace, with one verb forgotten."""
    rights = [
        ["batch.volcano.sh", "jobs", verb, "team"]
        for verb in ("create", "get", "list", "watch", "patch")
    ]
    rights += [["bus.volcano.sh", "commands", "create", "team"]]
    for verb in ("list", "watch"):
        rights += [["scheduling.volcano.sh", "podgroups", verb, "team"]]
        rights += [["", kind, verb] for kind in ("nodes", "pods")]
        rights += [["scheduling.volcano.sh", "queues", verb]]
        rights += [["topology.volcano.sh", "hypernodes", verb]]
    config = lab_cluster()
    assert config.volcano is not None
    less = Token("less", "system:serviceaccount:muster:muster", rights)
    volcano = replace(config.volcano, tokens=[*config.volcano.tokens, less])
    site = Site(replace(config, volcano=volcano))
    found = findings(site, b"less", namespaces="team")
    assert (found["rights"].is_on, found["rights"].detail) == (
        False,
        "it may not delete jobs in team",
    )
    assert not found["drain"].is_on
    assert (found["limits"].is_on, "queues.yaml" in found["limits"].fix) == (False, True)
    # its jobs in the other namespace cannot even be listed
    (told,) = findings(site, b"less").values()
    assert (told.is_on, "deploy/member/volcano" in told.fix) == (False, True)


def test_a_probe_that_gets_nowhere_says_why(site: Site) -> None:
    (told,) = findings(site, b"wrong").values()
    assert (told.is_on, "token" in told.fix) == (False, True)


def test_a_probe_without_namespaces(site: Site) -> None:
    assert not findings(site, namespaces="")["namespaces"].is_on
