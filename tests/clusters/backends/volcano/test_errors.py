"""Refusals as recorded (volcano-samples 13, 15, 17, 18, 21, 23), as the protocol's errors."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.backends.volcano.errors import error_of, our_field, refusal
from clusters.core.backend import (
    BackendAmbiguousError,
    BackendError,
    BackendRejectedError,
    BackendUnavailableError,
)


def status(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return {**told, "reason": reason, "message": message, "details": details}


WEBHOOK = 'admission webhook "validatejob.volcano.sh" denied the request: unable to find job queue'
DOWN = 'failed calling webhook "mutatejob.volcano.sh": failed to call webhook: connection refused'
RIGHT = 'jobs.batch.volcano.sh is forbidden: User "system:serviceaccount:team:broker" cannot list'
GOING = "unable to create new content in namespace going because it is being terminated"
CASES: dict[str, tuple[dict[str, Any], bool, type[BackendError], str]] = {
    "13 by the schema": (status(422, "Invalid", "spec.tasks: Invalid value"), True,
                         BackendRejectedError, "Invalid"),
    "13 by a webhook": (status(400, "", WEBHOOK), True, BackendRejectedError, "400"),
    "15 the name is taken": (status(409, "AlreadyExists", '"r-a" already exists'), True,
                             BackendRejectedError, "AlreadyExists"),
    "14 somebody else wrote first": (status(409, "Conflict", "the object has been modified"), True,
                                     BackendUnavailableError, "Conflict"),
    "17 the webhook is down": (status(500, "InternalError", DOWN), True, BackendAmbiguousError,
                               "InternalError"),
    "17 the same for a read": (status(500, "InternalError", DOWN), False, BackendUnavailableError,
                               "InternalError"),
    "18 a version too old": (status(410, "Expired", "too old resource version: 657 (732)"), False,
                             BackendUnavailableError, "Expired"),
    "18 a version from the future": (status(504, "Timeout", "Too large resource version"), False,
                                     BackendUnavailableError, "Timeout"),
    "18 it starts": (status(503, "ServiceUnavailable", "before all known HTTP paths"), True,
                     BackendUnavailableError, "not_ready"),
    "21 a bad token": (status(401, "Unauthorized", "Unauthorized"), True, BackendUnavailableError,
                       "unauthorized"),
    "21 a right is missing": (status(403, "Forbidden", RIGHT), False, BackendRejectedError,
                              "Forbidden"),
    "a group that is not served": (status(404, "", "404 page not found"), False,
                                   BackendUnavailableError, "not_served"),
    "23 no such namespace": (status(404, "NotFound", 'namespaces "x" not found'), True,
                             BackendRejectedError, "NotFound"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_as_recorded(case: str) -> None:
    body, is_write, kind, code = CASES[case]
    error = error_of(refusal(body["code"], body), is_write=is_write)
    assert (type(error), error.code) == (kind, code)
    assert error.words == body["message"]


def test_how_long_to_wait_is_told_in_the_body_or_in_the_header() -> None:
    body = status(429, "TooManyRequests", "is still being processed", retryAfterSeconds=10)
    for told in (refusal(429, body), refusal(429, {}, "10")):
        error = error_of(told, is_write=True)
        assert isinstance(error, BackendUnavailableError)
        assert error.retry_after_s == 10
    assert refusal(429, {}, "Wed, 21 Oct 2026 07:28:00 GMT").retry_after_s is None


def test_causes_are_told_apart() -> None:
    body = status(403, "Forbidden", GOING, causes=[{"reason": "NamespaceTerminating"}, "odd"])
    assert refusal(403, body).causes == ("NamespaceTerminating",)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("spec.tasks[0].template.spec.containers[0].image", "/run/image"),
        ("spec.tasks[63].template.spec.containers[0].env[3].value", "/environment"),
        ("spec.tasks[0].template.spec.containers[0].envFrom[0].secretRef", "/run/secrets"),
        ("spec.tasks[0].template.spec.containers[0].resources.limits[rdma/hca]", "/gang"),
        ("spec.tasks[0].template.spec.activeDeadlineSeconds", "/time_limit"),
        ("spec.tasks[0].replicas", "/gang/nodes"),
        ("spec.minAvailable", "/gang/nodes"),
        ("spec.tasks[0].template.metadata.labels", ""),
        ("metadata.name", ""),
        ("spec.queue", ""),
        ("", ""),
    ],
)
def test_a_place_in_the_vcjob_is_a_field_of_the_job(theirs: str, ours: str) -> None:
    assert our_field(theirs) == ours


def test_a_refusal_is_told_in_the_clusters_words_with_our_field_beside_it() -> None:
    place = "spec.tasks[0].template.spec.containers[0].image"
    words = f"Job is invalid: {place}: Too long"
    causes = [{"reason": "FieldValueTooLong", "message": "Too long", "field": place}] * 2
    told = error_of(refusal(422, status(422, "Invalid", words, causes=causes)), is_write=True)
    assert told.words == f"{words} (/run/image)"


@settings(max_examples=500)
@given(
    st.integers(400, 599),
    st.recursive(
        st.none() | st.text(max_size=4) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["reason", "message", "details", "causes", "retryAfterSeconds"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    ),
    st.booleans(),
)
def test_whatever_a_proxy_answers_is_one_of_the_three(
    code: int,
    body: object,
    is_write: bool,
) -> None:
    error = error_of(refusal(code, body), is_write=is_write)
    assert isinstance(error, BackendAmbiguousError | BackendRejectedError | BackendUnavailableError)
    assert error.words
    assert is_write or not isinstance(error, BackendAmbiguousError)
