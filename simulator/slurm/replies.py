"""What a replaced answer says, by the kind of fault, in the words recorded from slurmrestd 22.05.

429 and 502 are not slurmrestd's: they are what a proxy in front of it answers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from simulator.faults import Fault
from simulator.slurm.calls import Answer, answer, plain
from simulator.slurm.database import PLUGIN
from simulator.slurm.errors import accounting_failure, controller_failure
from simulator.slurm.routes import Endpoint

Trouble = Literal["token", "controller", "database"]


@dataclass(frozen=True)
class Target:
    """The endpoint that was asked, the job in its path, and the client's port."""

    endpoint: Endpoint
    job_id: int
    peer: int


def failure(target: Target, trouble: Trouble) -> Answer:
    """The endpoint's own way to say that its token is bad, or that its daemon is away."""
    endpoint = target.endpoint
    if endpoint.daemon == "accounting":
        problem: Literal["token", "database"] = "token" if trouble == "token" else "database"
        status, body = accounting_failure(endpoint.name, problem)
        return answer(body, status, plugin=PLUGIN)
    cause: Literal["token", "controller"] = "token" if trouble == "token" else "controller"
    return answer(controller_failure(endpoint.name, cause, target.job_id, target.peer), 500)


def replacement(fault: Fault, target: Target | None, result: Answer | None) -> Answer:
    """The answer that a fault puts in the place of the real one (None: nothing has been done)."""
    said = REPLIES[fault.kind]
    return said(fault, target, result)


def _own(fault: Fault, target: Target | None, result: Answer | None) -> Answer:
    return plain(fault.status, fault.text)


def _half_json(fault: Fault, target: Target | None, result: Answer | None) -> Answer:
    text = "" if result is None else result.text
    return Answer(200, text[: len(text) // 2])


def _empty(fault: Fault, target: Target | None, result: Answer | None) -> Answer:
    return Answer(200, "")


def _errors(fault: Fault, target: Target | None, result: Answer | None) -> Answer:
    failed = _failed("controller")(fault, target, result)
    return Answer(200, failed.text, failed.content_type)


def _failed(trouble: Trouble) -> Callable[[Fault, Target | None, Answer | None], Answer]:
    """As the endpoint says it; what is no endpoint (`/openapi`) is not checked, so 500 in short."""

    def say(fault: Fault, target: Target | None, result: Answer | None) -> Answer:
        return plain(500, "") if target is None else failure(target, trouble)

    return say


def _too_many(fault: Fault, target: Target | None, result: Answer | None) -> Answer:
    seconds = max(1, -(-fault.ms // 1000))
    return Answer(429, "Too Many Requests", "text/plain", {"Retry-After": str(seconds)})


def _bad_gateway(fault: Fault, target: Target | None, result: Answer | None) -> Answer:
    return Answer(502, "<html><body><h1>502 Bad Gateway</h1></body></html>", "text/html")


REPLIES: dict[str, Callable[[Fault, Target | None, Answer | None], Answer]] = {
    "reply_before": _own,
    "reply_after": _own,
    "half_json": _half_json,
    "empty_answer": _empty,
    "errors_in_200": _errors,
    "errors_in_200_after": _errors,
    "bad_token": _failed("token"),
    "token_dies": _failed("token"),
    "controller_dies": _failed("controller"),
    "too_many": _too_many,
    "bad_gateway": _bad_gateway,
}
