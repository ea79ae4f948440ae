"""Faults on the wire, as a client of the API meets them."""

import json

import httpx
import pytest

from tests.simulator.volcano.harness import JOBS, PODS, Lab, gang


@pytest.fixture
def lab() -> Lab:
    return Lab()


def fault(lab: Lab, kind: str, **more: object) -> None:
    lab.control("faults/add", kind=kind, path=JOBS, **more)


def test_too_many_requests(lab: Lab) -> None:
    fault(lab, "too_many", ms=3000)
    answer = lab.call("POST", JOBS, gang("a"))
    assert (answer.status_code, answer.json()["reason"]) == (429, "TooManyRequests")
    assert answer.headers["retry-after"] == "3"
    assert lab.call("POST", JOBS, gang("a")).status_code == 201


def test_a_webhook_that_cannot_be_called(lab: Lab) -> None:
    text = 'failed calling webhook "mutatejob.volcano.sh": connection refused'
    fault(lab, "reply_before", method="POST", status=500, text=text)
    answer = lab.call("POST", JOBS, gang("a"))
    assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
    assert answer.json()["message"] == text
    assert lab.get(JOBS)["items"] == []


@pytest.mark.parametrize(
    ("kind", "error"),
    [("drop_after", httpx.RemoteProtocolError), ("reset_after", httpx.ReadError)],
)
def test_an_answer_that_is_lost_after_the_act(lab: Lab, kind: str, error: type[Exception]) -> None:
    fault(lab, kind, method="POST")
    with pytest.raises(error):
        lab.call("POST", JOBS, gang("a"))
    assert lab.call("POST", JOBS, gang("a")).status_code == 409


def test_nothing_is_done_before_a_drop(lab: Lab) -> None:
    fault(lab, "drop_before", method="POST")
    with pytest.raises(httpx.RemoteProtocolError):
        lab.call("POST", JOBS, gang("a"))
    assert lab.get(JOBS)["items"] == []


def test_half_an_answer(lab: Lab) -> None:
    fault(lab, "half_json")
    answer = lab.call("GET", JOBS)
    assert answer.status_code == 200
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        answer.json()
    fault(lab, "truncate")
    with pytest.raises(httpx.RemoteProtocolError, match="complete"):
        lab.call("GET", JOBS)


def test_delays_let_the_clock_go_on(lab: Lab) -> None:
    before = lab.cluster.now_ms()
    fault(lab, "delay_after", ms=700)
    lab.call("GET", JOBS)
    assert lab.cluster.now_ms() - before == 700


@pytest.mark.parametrize(
    ("kind", "status"),
    [("bad_token", 401), ("token_dies", 401), ("bad_gateway", 502), ("errors_in_200", 500)],
)
def test_other_answers(lab: Lab, kind: str, status: int) -> None:
    fault(lab, kind)
    assert lab.call("GET", JOBS).status_code == status
    fault(lab, "empty_answer")
    assert lab.call("GET", JOBS).text == ""


def test_nobody_listens_for_a_while(lab: Lab) -> None:
    lab.control("wire/refuse", ms=1000)
    with pytest.raises(httpx.ConnectError):
        lab.call("GET", JOBS)
    lab.wait(1)
    assert lab.call("GET", JOBS).status_code == 200


@pytest.mark.parametrize("abrupt", [False, True])
def test_watches_are_cut(lab: Lab, abrupt: bool) -> None:
    lab.cluster.later(lab.cluster.now_ms() + 2000, lambda: lab.cluster.scissors.cut(abrupt=abrupt))
    told = []
    with lab.client.stream("GET", f"{PODS}?watch=1&timeoutSeconds=60") as answer:
        lab.cluster.later(lab.cluster.now_ms() + 500, lambda: make(lab))
        try:
            told += [json.loads(line)["type"] for line in answer.iter_lines()]
            ended = "quietly"
        except httpx.RemoteProtocolError:
            ended = "abruptly"
    assert ended == ("abruptly" if abrupt else "quietly")


def make(lab: Lab) -> None:
    lab.post(JOBS, gang("a"))


def test_a_client_that_is_not_patient_enough_for_a_watch(lab: Lab) -> None:
    version = lab.get(PODS)["metadata"]["resourceVersion"]
    path = f"{PODS}?watch=1&timeoutSeconds=60&resourceVersion={version}"
    with (
        pytest.raises(httpx.ReadTimeout),
        lab.client.stream("GET", path, timeout=httpx.Timeout(5)) as answer,
    ):
        list(answer.iter_lines())
