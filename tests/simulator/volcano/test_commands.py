"""Commands, deletes and the same name again: recordings 06, 07, 15, 23."""

from typing import Any

import pytest

from tests.simulator.volcano.harness import (
    COMMANDS,
    JOBS,
    PODS,
    QUEUES,
    Lab,
    gang,
    recording,
    task,
)


@pytest.fixture
def lab() -> Lab:
    return Lab()


def running(lab: Lab, name: str = "c", grace: int = 2, **spec: Any) -> None:
    lab.post(JOBS, gang(name, task(replicas=2, grace=grace), **spec))
    lab.wait(2.9)
    assert lab.phase(name) == "Running"


def test_abort_takes_the_grace_and_keeps_the_job(lab: Lab) -> None:
    running(lab, grace=30)
    made = lab.command("AbortJob", "c")
    real = recording("06-commands")["objects"]["a: command as the create call answers it"]
    assert set(made) == set(real) - {"message", "reason"}
    assert lab.get(COMMANDS)["items"] == []
    assert lab.phase("c") == "Aborting"
    assert lab.group("c") is None
    lab.wait(29)
    assert (lab.phase("c"), len(lab.pods("c"))) == ("Aborting", 2)
    lab.wait(1.5)
    assert (lab.phase("c"), lab.pods("c")) == ("Aborted", [])
    assert lab.events("CommandIssued") == [
        "Start to execute command AbortJob, and clean it up to make sure executed not more than "
        "once."
    ]


def test_resume_after_abort_fails_when_there_is_no_retry_left(lab: Lab) -> None:
    running(lab)
    lab.command("AbortJob", "c")
    lab.wait(3)
    lab.command("ResumeJob", "c")
    status = lab.job("c")["status"]
    assert (status["state"]["phase"], status["retryCount"]) == ("Failed", 1)
    told = recording("06-commands")["objects"]["a: job after the resume"]["status"]
    assert [c["status"] for c in status["conditions"]] == [c["status"] for c in told["conditions"]]


def test_three_retries_are_two_resumes(lab: Lab) -> None:
    running(lab, maxRetry=3)
    for retry in (1, 2):
        lab.command("AbortJob", "c")
        lab.wait(3)
        lab.command("ResumeJob", "c")
        assert lab.phase("c") == "Pending"
        lab.wait(3)
        status = lab.job("c")["status"]
        assert (status["state"]["phase"], status["retryCount"]) == ("Running", retry)
    lab.command("AbortJob", "c")
    lab.wait(3)
    lab.command("ResumeJob", "c")
    assert lab.phase("c") == "Failed"


@pytest.mark.parametrize(
    ("action", "between", "end"),
    [
        ("TerminateJob", "Terminating", "Terminated"),
        ("CompleteJob", "Completing", "Completed"),
    ],
)
def test_other_ends(lab: Lab, action: str, between: str, end: str) -> None:
    running(lab)
    lab.command(action, "c")
    assert lab.phase("c") == between
    lab.wait(3)
    assert lab.phase("c") == end
    for later in ("ResumeJob", "AbortJob", "RestartJob"):
        lab.command(later, "c")
        assert lab.phase("c") == end


def test_restart(lab: Lab) -> None:
    running(lab, maxRetry=3)
    lab.command("RestartJob", "c")
    status = lab.job("c")["status"]
    assert (status["state"]["phase"], status["terminating"]) == ("Restarting", 2)
    lab.wait(5)
    status = lab.job("c")["status"]
    assert (status["state"]["phase"], status["retryCount"]) == ("Running", 1)


def test_an_aborted_job_answers_only_to_resume(lab: Lab) -> None:
    running(lab, maxRetry=3)
    lab.command("ResumeJob", "c")
    assert lab.phase("c") == "Running"
    lab.command("AbortJob", "c")
    lab.wait(3)
    for action in ("AbortJob", "TerminateJob", "CompleteJob", "RestartJob"):
        lab.command(action, "c")
        assert lab.phase("c") == "Aborted"


def test_resume_while_aborting_begins_anew_when_the_pods_are_gone(lab: Lab) -> None:
    running(lab, grace=5, maxRetry=3)
    lab.command("AbortJob", "c")
    lab.wait(1)
    lab.command("ResumeJob", "c")
    status = lab.job("c")["status"]
    assert (status["state"]["phase"], status["terminating"]) == ("Restarting", 2)
    lab.wait(8)
    assert lab.phase("c") == "Running"


def test_abort_of_what_waits_and_of_what_is_new(lab: Lab) -> None:
    lab.post(JOBS, gang("big", task(replicas=3), queue="small"))
    lab.wait(3)
    lab.command("AbortJob", "big")
    assert lab.phase("big") == "Aborted"
    lab.post(JOBS, gang("new"))
    lab.command("AbortJob", "new")
    assert lab.phase("new") == "Aborted"
    lab.wait(5)
    assert lab.pods("new") == []


def test_odd_commands(lab: Lab) -> None:
    running(lab)
    good = {"kind": "Job", "name": "c", "uid": "u"}
    odd: list[tuple[dict[str, Any], bool]] = [
        ({"action": "AbortJob", "target": {**good, "name": "nope"}}, False),
        ({"action": "AbortJob"}, True),
        ({"action": "Nope", "target": good}, False),
        ({"target": good}, False),
        ({"action": "AbortJob", "target": {**good, "kind": "Pod"}}, True),
    ]
    for number, (body, stays) in enumerate(odd):
        lab.post(COMMANDS, {"metadata": {"name": f"cmd-{number}"}, **body})
        answer = lab.call("GET", f"{COMMANDS}/cmd-{number}")
        assert (answer.status_code == 200) is stays
    body = {"metadata": {"name": "x"}, "action": "AbortJob", "target": {"kind": "Job", "name": "c"}}
    answer = lab.call("POST", COMMANDS, body)
    assert answer.status_code == 422
    assert answer.json()["message"] == (
        'Command.bus.volcano.sh "x" is invalid: target.uid: Required value'
    )
    assert lab.phase("c") == "Running"


def test_background_delete_frees_the_name_at_once(lab: Lab) -> None:
    running(lab, grace=3)
    answer = lab.call("DELETE", f"{JOBS}/c").json()
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert all("deletionTimestamp" in pod["metadata"] for pod in lab.pods("c"))
    lab.post(JOBS, gang("c", task(replicas=2)))
    lab.wait(1)
    assert lab.job("c")["status"]["terminating"] == 2
    lab.wait(5)
    status = lab.job("c")["status"]
    assert (status["state"]["phase"], status["running"]) == ("Running", 2)


def test_foreground_delete_waits_for_the_pods(lab: Lab) -> None:
    running(lab, grace=3)
    wish = {"propagationPolicy": "Foreground"}
    answer = lab.call("DELETE", f"{JOBS}/c", wish).json()
    assert answer["kind"] == "Job"
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert lab.call("DELETE", f"{JOBS}/c", wish).status_code == 200
    again = lab.call("POST", JOBS, gang("c"))
    assert again.json()["message"] == (
        'object is being deleted: jobs.batch.volcano.sh "c" already exists'
    )
    lab.wait(4)
    assert lab.call("GET", f"{JOBS}/c").status_code == 404
    assert lab.get(PODS)["items"] == []


def test_orphans_run_on_and_count_for_the_next_of_the_name(lab: Lab) -> None:
    running(lab)
    answer = lab.call("DELETE", f"{JOBS}/c", {"propagationPolicy": "Orphan"}).json()
    assert answer["metadata"]["finalizers"] == ["orphan"]
    assert lab.call("GET", f"{JOBS}/c").status_code == 404
    before = {pod["metadata"]["uid"] for pod in lab.pods("c")}
    assert all("ownerReferences" not in pod["metadata"] for pod in lab.pods("c"))
    lab.wait(3)
    assert lab.get(f"{QUEUES}/team-g")["status"]["allocated"]["nvidia.com/gpu"] == "16"
    lab.post(JOBS, gang("c", task(replicas=2)))
    lab.wait(2)
    assert lab.phase("c") == "Running"
    assert {pod["metadata"]["uid"] for pod in lab.pods("c")} == before


def test_deleting_what_waits(lab: Lab) -> None:
    lab.post(JOBS, gang("d-f", task(replicas=17), queue="team-s"))
    lab.wait(3)
    lab.call("DELETE", f"{JOBS}/d-f")
    assert lab.get(PODS)["items"] == []
    assert lab.group("d-f") is None


def test_a_job_that_cannot_be_made_is_given_up(lab: Lab) -> None:
    lab.post(JOBS, gang("w13", priorityClassName="nope"))
    lab.wait(160)
    assert (lab.phase("w13"), lab.pods("w13")) == ("Pending", [])
    (told,) = [m for m in lab.events("FailedCreate") if "w13-w-0" in m]
    assert "no PriorityClass with name nope was found" in told
    lab.wait(8)
    assert lab.phase("w13") == "Terminated"
    assert "Job failed on action SyncJob for retry limit reached" in lab.events("ExecuteAction")
    lab.call("DELETE", f"{JOBS}/w13")
    lab.post(JOBS, gang("w13", priorityClassName="nope"))
    lab.post(JOBS, gang("other", priorityClassName="nope"))
    lab.wait(2)
    assert (lab.phase("w13"), lab.phase("other")) == ("Terminated", "Pending")


def test_a_quota_lets_some_pods_through(lab: Lab) -> None:
    quota = {"metadata": {"name": "rq"}, "spec": {"hard": {"requests.nvidia.com/gpu": "16"}}}
    path = "/api/v1/namespaces/team/resourcequotas"
    lab.post(path, quota)
    lab.post(JOBS, gang("rq", task(replicas=3)))
    lab.wait(4)
    assert len(lab.pods("rq")) == 2
    assert lab.nodes_of("rq") == ["-", "-"]
    assert any("exceeded quota: rq" in message for message in lab.events("FailedCreate"))
    lab.call("DELETE", f"{path}/rq")
    lab.wait(10)
    assert lab.phase("rq") == "Running"


def test_a_missing_account(lab: Lab) -> None:
    work = task()
    work["template"]["spec"]["serviceAccountName"] = "nobody"
    lab.post(JOBS, gang("sa", work))
    lab.wait(3)
    assert lab.pods("sa") == []
    lab.post("/api/v1/namespaces/team/serviceaccounts", {"metadata": {"name": "nobody"}})
    lab.wait(10)
    assert lab.phase("sa") == "Running"
