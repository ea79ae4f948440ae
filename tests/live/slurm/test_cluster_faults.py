"""Daemons and nodes that die, keys that are wrong: silence changes nothing, nothing is lost."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from clusters.models import Cluster
from clusters.selectors.connection import configuration_etag
from clusters.services.configure import set_secret, update_cluster
from tests.live.slurm.books import agree, cost_nano, nano
from tests.live.slurm.federation import A100, FINAL, H100, Muster, utc_now
from tests.stack import eventually

pytestmark = pytest.mark.live
UNREACHABLE = "cluster_unreachable"


def silent(muster: Muster, name: str) -> str:
    """Waits until a cluster is shown as not answering; what is said of it."""
    eventually(lambda: not muster.cluster(name)["is_reachable"], what=f"{name} is silent")
    return str(muster.cluster(name)["failure"])


def waits_for_it(muster: Muster, job: str) -> None:
    """Waits until the job's reason is that its cluster does not answer."""
    eventually(
        lambda: [reason["code"] for reason in muster.job(job)["reasons"]] == [UNREACHABLE],
        what="the reason of what waits",
    )


@pytest.mark.parametrize("daemon", ["slurmctld", "slurmrestd"])
def test_no_job_changes_state_on_silence(muster: Muster, daemon: str) -> None:
    team, alpha = muster.team(f"without-{daemon}"), muster.labs["alpha"]
    running = muster.submit(muster.body(team, "sleep 25", nodes=4))
    muster.until(running, "running")
    waiting = muster.submit(muster.body(team, nodes=16))
    alpha.wait_until_saved()
    before = [(muster.job(job)["version"], muster.events(job)) for job in (running, waiting)]
    with alpha.without(daemon):
        ordered = muster.submit(muster.body(team, nodes=2))
        assert silent(muster, "alpha")
        waits_for_it(muster, waiting)
        after = [(muster.job(job)["version"], muster.events(job)) for job in (running, waiting)]
        assert after == before
        assert muster.job(ordered)["state"] in {"queued", "dispatching"}
    jobs = [running, waiting, ordered]
    for job in jobs:
        muster.until(job, "succeeded", within_s=90)
    stays = agree(muster, team, jobs)
    assert [len(stays[job]) for job in jobs] == [1, 1, 1]


def test_a_controller_that_comes_back_with_an_older_state(muster: Muster) -> None:
    """It has forgotten that the job was released and ran; so has its accounting, sooner or later.

    What Slurm makes of such a job depends on when its nodes report: it runs anew, is cancelled as
    a second copy, or fails with the first one. It comes to an end, once, and nothing stays open.
    Cancelled held, its record may still tell of the run when Muster asks, and have none a second
    later: then what was billed lies within the run that there was.
    """
    team, alpha = muster.team("older"), muster.labs["alpha"]
    with muster.through_gate("alpha") as gate:
        release = gate.hold("POST", r"/job/\d+$", "request")
        job = muster.submit(muster.body(team, "sleep 20", nodes=2))
        release.reached()
        before = time.time()
        eventually(lambda: alpha.saved_jobs.stat().st_mtime > before, what="the state is written")
        older = alpha.saved_jobs.read_bytes()
        release.release()
        muster.until(job, "running")
    with alpha.without("slurmctld"):
        alpha.saved_jobs.write_bytes(older)
    muster.until(job, *FINAL, within_s=90)
    (attempt,) = muster.attempts(job)
    costs = muster.get(f"/jobs/{job}/costs")
    assert all(part["end"] for part in costs["intervals"])

    def accounting_agrees() -> bool:
        stays = [stay for stay in alpha.stays() if stay.name == attempt["fence"]]
        assert len(stays) <= 1
        if not stays:
            parts = costs["intervals"]
            return all(attempt["started_at"] <= part["start"] for part in parts) and all(
                part["end"] <= attempt["ended_at"] for part in parts
            )
        (stay,) = stays
        return stay.end_s is not None and nano(costs["so_far"]) == cost_nano(stay)

    eventually(accounting_agrees, within_s=30, what=f"accounting (it lags) has {costs}")


def test_accounting_that_is_away_delays_and_loses_nothing(muster: Muster) -> None:
    team, alpha = muster.team("without-slurmdbd"), muster.labs["alpha"]
    with alpha.without("slurmdbd"):
        jobs = [muster.submit(muster.body(team, nodes=nodes)) for nodes in (1, 3)]
        for job in jobs:
            muster.until(job, "succeeded")
    agree(muster, team, jobs)


def test_a_wrong_key_shows_the_cluster_unreachable_until_it_is_mended(muster: Muster) -> None:
    team, beta = muster.team("key"), muster.labs["beta"]
    cluster = Cluster.objects.get(name="beta")
    running = muster.submit(muster.body(team, "sleep 15", flavors=[A100]))
    before = muster.until(running, "running")["version"]
    waiting = muster.submit(muster.body(team, nodes=16, flavors=[A100]))
    set_secret(actor=None, cluster=cluster, secret=secrets.token_bytes(32), now=utc_now())
    try:
        assert silent(muster, "beta")
        waits_for_it(muster, waiting)
        elsewhere = muster.submit(muster.body(team, flavors=[A100, H100]))
        muster.until(elsewhere, "succeeded")
        assert muster.job(running)["version"] == before
    finally:
        set_secret(actor=None, cluster=cluster, secret=beta.key, now=utc_now())
    jobs = [running, waiting, elsewhere]
    for job in jobs:
        muster.until(job, "succeeded")
    stays = agree(muster, team, jobs)
    assert [stays[job][0].cluster for job in jobs] == ["beta", "beta", "alpha"]


def test_a_token_that_dies_in_mid_call(muster: Muster) -> None:
    """slurmrestd reads it when it is dead; the order is given again, and runs once."""
    team = muster.team("token")
    with muster.through_gate("alpha") as gate, token_life(1):
        submit = gate.hold("POST", r"/job/submit$", "request")
        job = muster.submit(muster.body(team))
        submit.reached()
        time.sleep(3)  # longer than the token's life
        submit.release()
        muster.until(job, "succeeded", within_s=90)
    stays = agree(muster, team, [job])
    assert len(stays[job]) == 1


@contextmanager
def token_life(seconds: int) -> Iterator[None]:
    """A time in which Muster's tokens for alpha live only so long."""
    cluster = Cluster.objects.get(name="alpha")
    options = dict(cluster.options)
    set_options(cluster, options | {"token_life_s": str(seconds)})
    try:
        yield
    finally:
        set_options(cluster, options)


def set_options(cluster: Cluster, options: dict[str, str]) -> None:
    cluster.refresh_from_db()
    update_cluster(
        actor=None,
        cluster=cluster,
        changes={"options": options},
        expected_etag=configuration_etag(cluster),
        now=utc_now(),
    )


def test_a_paused_partition_says_why_jobs_wait(muster: Muster) -> None:
    """What is there already waits with the cluster's reason, what comes after with ours."""
    team, alpha = muster.team("paused"), muster.labs["alpha"]
    with muster.through_gate("alpha") as gate:
        submit = gate.hold("POST", r"/job/submit$", "request")
        there = muster.submit(muster.body(team))
        submit.reached()
        alpha.run("scontrol", "update", "partitionname=batch", "state=down")
        try:
            submit.release()
            muster.until(there, "pending")
            eventually(lambda: told(muster, there) == "PartitionDown", what="the cluster's reason")
            after = muster.submit(muster.body(team))
            eventually(
                lambda: [one["code"] for one in muster.job(after)["reasons"]] == ["queue_closed"],
                what="the reason of what waits here",
            )
        finally:
            alpha.run("scontrol", "update", "partitionname=batch", "state=up")
        for job in (there, after):
            muster.until(job, "succeeded", within_s=90)
    stays = agree(muster, team, [there, after])
    assert [len(stays[job]) for job in (there, after)] == [1, 1]


def told(muster: Muster, job: str) -> str:
    """What the cluster says of why the job's attempt waits."""
    return str(muster.job(job)["attempt"]["backend_reason"])


def test_a_node_that_dies_under_a_gang_restarts_it_elsewhere(muster: Muster) -> None:
    """An admin's `down`, then a slurmd without life; at `max_restarts` it is over."""
    team, alpha = muster.team("nodes"), muster.labs["alpha"]
    job = muster.submit(muster.body(team, "sleep 600", nodes=2, gang={"max_restarts": 1}))
    first = muster.until(job, "running")["attempt"]
    alpha.node_down(first["nodes"][0])
    eventually(lambda: len(muster.attempts(job)) == 2, within_s=60, what="a second attempt")
    second = muster.until(job, "running")["attempt"]
    assert first["nodes"][0] not in second["nodes"]
    assert muster.job(job)["restarts"] == 1

    alpha.configure("SlurmdTimeout", "5")
    alpha.kill(f"slurmd-{second['nodes'][1]}")
    done = muster.until(job, "failed", within_s=90)
    assert done["outcome"] == "A node failed, and no restart was left."
    causes = [row["end_cause"] for row in muster.attempts(job)]
    assert causes == ["node_failure", "node_failure"]
    alpha.mend()
    stays = agree(muster, team, [job])[job]
    assert [stay.state for stay in stays] == ["NODE_FAIL", "NODE_FAIL"]
