"""Jobs run as their people, and people who cannot run somewhere are told so."""

import pytest

from tests.live.slurm.books import agree
from tests.live.slurm.federation import A100, H100, Muster

pytestmark = pytest.mark.live


def test_a_person_without_an_account_is_told_so(muster: Muster) -> None:
    team = muster.team("people")
    muster.welcome("otto")
    eve = muster.welcome("eve", clusters=["beta"], account="ben")
    for person, flavors in (("otto", [H100, A100]), ("eve", [H100])):
        answer = muster.people[person].client.post("/jobs", json=muster.body(team, flavors=flavors))
        assert answer.status_code == 422, answer.text
        (error,) = answer.json()["errors"]
        assert (error["pointer"], error["code"]) == ("/flavors", "backend_cannot_run")
        assert "no account on alpha" in error["detail"]

    body = muster.body(team, "id -un; pwd; python3 -c 'import os; print(os.environ[\"HOME\"])'")
    body["flavors"], body["run"]["workdir"] = [H100, A100], None
    job = muster.submit(body, by="eve")
    done = muster.until(job, "succeeded")
    assert (done["attempt"]["cluster"], done["attempt"]["account"]) == ("beta", "ben")
    output = eve.home / f"{done['attempt']['fence']}.out"
    assert output.owner() == "ben"
    assert output.read_text().split() == ["ben", str(eve.home), str(eve.home)]
    agree(muster, team, [job])


def test_an_account_that_the_cluster_does_not_know_is_its_own_refusal(muster: Muster) -> None:
    """The cluster's words reach the person, and others' jobs go on meanwhile."""
    team = muster.team("ghost")
    muster.welcome("ghost", clusters=["alpha"])
    refused = muster.submit(
        muster.body(team, gang={"max_restarts": 1}, run={"workdir": "/"}), by="ghost"
    )
    fine = muster.submit(muster.body(team))
    done = muster.until(refused, "failed")
    assert "alpha refused it" in done["outcome"]
    assert "account" in done["outcome"]
    assert [row["end_cause"] for row in muster.attempts(refused)] == ["rejected", "rejected"]
    muster.until(fine, "succeeded")
    agree(muster, team, [refused, fine])
