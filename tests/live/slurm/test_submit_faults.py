"""Calls lost and workers killed around the submit: at most one run per job, nothing lost."""

import signal

import pytest

from tests.live.slurm.books import agree
from tests.live.slurm.federation import Muster
from tests.live.slurm.gate import Gate, Moment
from tests.stack import eventually

pytestmark = pytest.mark.live
SUBMIT, RELEASE = r"/job/submit$", r"/job/\d+$"


def no_job_is_left(muster: Muster) -> None:
    """Late duplicates too are gone: nothing of ours waits or runs on alpha."""
    lab = muster.labs["alpha"]
    left = ("squeue", "--noheader", "--format=%i %j %T")
    eventually(lambda: not lab.run(*left).strip(), within_s=60, what="no job is left there")


def test_a_worker_killed_with_four_calls_at_four_moments(muster: Muster) -> None:
    """Before the call arrives, while it is on its way, after the job is made, after its release."""
    team = muster.team("killed")
    with muster.through_gate("alpha") as gate:
        never, late = (gate.hold("POST", SUBMIT, "request") for _ in range(2))
        made = gate.hold("POST", SUBMIT, "reply")
        released = gate.hold("POST", RELEASE, "reply")
        jobs = [muster.submit(muster.body(team, "sleep 5")) for _ in range(4)]
        for moment in (never, late, made, released):
            moment.reached()
        assert {muster.job(job)["state"] for job in jobs} <= {"dispatching", "pending", "running"}
        muster.stack.send("worker-dispatch", signal.SIGKILL)
        for moment in (never, made, released):
            moment.drop()
        muster.stack.start("worker-dispatch")
        for job in jobs:
            muster.until(job, "running", "succeeded")
        late.release()  # the dead worker's call arrives when its job has long been made anew
        for job in jobs:
            muster.until(job, "succeeded")
        no_job_is_left(muster)
    stays = agree(muster, team, jobs)
    assert [len(stays[job]) for job in jobs] == [1] * 4
    assert all(len(muster.attempts(job)) == 1 for job in jobs)


def test_lost_calls_and_answers_are_looked_up_not_repeated(muster: Muster) -> None:
    """An answer is lost; a call stands still past its deadline and arrives after the job's end."""
    team = muster.team("lost")
    with muster.through_gate("alpha") as gate:
        answer = gate.hold("POST", SUBMIT, "reply")
        first = muster.submit(muster.body(team))
        answer.reached()
        answer.drop()
        muster.until(first, "succeeded")

        stuck = gate.hold("POST", SUBMIT, "request")
        second = muster.submit(muster.body(team))
        stuck.reached()
        muster.until(second, "succeeded")
        stuck.release()
        no_job_is_left(muster)
        assert muster.job(second)["state"] == "succeeded"
    stays = agree(muster, team, [first, second])
    assert [len(stays[job]) for job in (first, second)] == [1, 1]


def test_cancel_in_every_state(muster: Muster) -> None:
    team, alpha = muster.team("cancel"), muster.labs["alpha"]
    queued = muster.submit(muster.body(team, not_before="2099-01-01T00:00:00Z"))
    assert muster.cancel(queued)["state"] == "cancelled"

    running = muster.submit(muster.body(team, "sleep 600", nodes=2))
    muster.until(running, "running")
    with muster.through_gate("alpha") as gate:
        dispatching, call = held(muster, gate, team)
        assert muster.cancel(dispatching)["state"] == "stopping"
        call.release()
        muster.until(dispatching, "cancelled")

        pending, call = held(muster, gate, team)
        (node,) = muster.job(pending)["attempt"]["nodes"]
        foreign = alpha.sbatch(user="ben", nodes=node)
        eventually(lambda: alpha.state_of(foreign) == "RUNNING", what="the foreign job runs")
        call.release()
        muster.until(pending, "pending")
        assert muster.cancel(pending)["state"] == "stopping"
        muster.until(pending, "cancelled")
        assert alpha.state_of(foreign) == "RUNNING"
        alpha.run("scancel", foreign)

    assert muster.cancel(running)["state"] == "stopping"
    muster.until(running, "cancelled")
    no_job_is_left(muster)
    stays = agree(muster, team, [queued, dispatching, pending, running])
    # The submit that was under way goes on: Slurm may start the gang before the cancel arrives.
    assert {running} <= set(stays) <= {running, dispatching}
    assert {stay.state for found in stays.values() for stay in found} == {"CANCELLED"}


def held(muster: Muster, gate: Gate, team: str, **more: object) -> tuple[str, Moment]:
    """A job whose submit stands still before Slurm knows it."""
    call = gate.hold("POST", SUBMIT, "request")
    job = muster.submit(muster.body(team, **more))
    call.reached()
    assert muster.job(job)["state"] == "dispatching"
    return job, call


def test_a_gang_that_never_starts_whole_is_aborted_and_bound_anew(muster: Muster) -> None:
    """A foreign job is quicker on one of its nodes; that node is avoided the next time."""
    team, alpha = muster.team("late"), muster.labs["alpha"]
    with muster.through_gate("alpha") as gate:
        job, call = held(muster, gate, team, nodes=4, gang={"start_timeout": 3, "max_restarts": 1})
        taken = muster.job(job)["attempt"]["nodes"][2]
        foreign = alpha.sbatch(user="ben", nodes=taken)
        eventually(lambda: alpha.state_of(foreign) == "RUNNING", what="the foreign job runs")
        call.release()
        muster.until(job, "succeeded")
    first, second = muster.attempts(job)
    assert (first["end_cause"], first["started_at"]) == ("start_timeout", None)
    assert taken in first["nodes"]
    assert taken not in second["nodes"]
    assert first["backend_reason"]
    event = next(
        row for row in muster.pages(f"/jobs/{job}/events") if row["cause"] == "start_timeout"
    )
    assert event["data"]["avoided"] == [f"alpha/{taken}"]
    assert event["data"]["words"]
    assert muster.job(job)["restarts"] == 1
    assert alpha.state_of(foreign) == "RUNNING"
    agree(muster, team, [job])


def test_jobs_of_the_same_name_without_our_comment_stay_untouched(muster: Muster) -> None:
    """Another person's, and the same person's own, which by `singleton` even goes first."""
    team, alpha = muster.team("names"), muster.labs["alpha"]
    with muster.through_gate("alpha") as gate:
        job, call = held(muster, gate, team, gang={"start_timeout": 4, "max_restarts": 1})
        fence = muster.job(job)["attempt"]["fence"]
        strangers = [
            alpha.sbatch(f"--job-name={fence}", user="ben", nodes="alpha-n014"),
            alpha.sbatch(f"--job-name={fence}", user="mia", nodes="alpha-n015"),
            alpha.sbatch(f"--job-name={fence}", "--hold", user="mia", nodes="alpha-n015"),
        ]
        call.release()
        muster.until(job, "succeeded")
    first, second = muster.attempts(job)
    assert first["end_cause"] == "start_timeout"
    assert first["fence"] != second["fence"]
    assert [alpha.state_of(number) for number in strangers] == ["RUNNING", "RUNNING", "PENDING"]
    alpha.run("scancel", *strangers)

    def ours() -> list[str]:
        stays = [stay for stay in alpha.stays() if stay.job_id not in strangers]
        return [stay.name for stay in stays if stay.name in {fence, second["fence"]}]

    eventually(lambda: ours() == [second["fence"]], what="accounting has our one run")
