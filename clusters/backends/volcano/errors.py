"""From what a Kubernetes API server answers to one of the protocol's three errors.

The code and the `reason` of its Status decide; messages are for people and never read for meaning.
A second object of one name cannot be made (409), so that whatever became of a create, looking for
the name tells it: where a write may have happened, it is ambiguous.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clusters.core.backend import (
    BackendAmbiguousError,
    BackendError,
    BackendRejectedError,
    BackendUnavailableError,
)

GONE, CONFLICT, EXISTS, EXPIRED, FORBIDDEN = (
    "NotFound", "Conflict", "AlreadyExists", "Expired", "Forbidden",
)  # fmt: skip
# Refused whatever was sent: nothing happened, and later it may go through.
_LATER = {401: "unauthorized", 429: "too_many_requests", 503: "not_ready"}
# Nobody knows what became of a write: a webhook that failed, a time-out behind the server.
_DOUBTFUL = (500, 502, 504)
# Of which field of a job `translate` makes what, the longer ones first.
_ONE = "containers[0]."
_OURS = (
    (_ONE + "image", "/run/image"),
    (_ONE + "command", "/run/command"),
    (_ONE + "args", "/run/args"),
    (_ONE + "envFrom", "/run/secrets"),
    (_ONE + "env", "/environment"),
    (_ONE + "workingDir", "/run/workdir"),
    (_ONE + "volumeMounts", "/run/volumes"),
    (_ONE + "resources", "/gang"),
    ("hostNetwork", "/run/host_network"),
    ("serviceAccountName", "/run/service_account"),
    ("imagePullSecrets", "/run/image_pull_secrets"),
    ("runtimeClassName", "/run/runtime_class"),
    ("volumes", "/run/volumes"),
    ("activeDeadlineSeconds", "/time_limit"),
    ("terminationGracePeriodSeconds", "/checkpoint/grace"),
    ("minAvailable", "/gang/nodes"),
    ("replicas", "/gang/nodes"),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reply that is no success: HTTP code, and of its Status object reason, words and causes.

    `fields` are the places in the object that was sent to which the causes belong.
    """

    code: int
    reason: str
    words: str
    causes: tuple[str, ...] = ()
    retry_after_s: float | None = None
    fields: tuple[str, ...] = ()


def refusal(code: int, body: object, retry_after: str | None = None) -> Refusal:
    """What a reply says. Not every 4xx is a Status: proxies answer, too."""
    status: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    details = status.get("details")
    details = details if isinstance(details, Mapping) else {}
    listed, told = details.get("causes"), details.get("retryAfterSeconds")
    causes = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    wait_s = told if isinstance(told, int) else _seconds(retry_after)
    return Refusal(
        code,
        str(status.get("reason") or ""),
        str(status.get("message") or f"HTTP {code}"),
        tuple(str(one["reason"]) for one in causes if one.get("reason")),
        float(wait_s) if wait_s > 0 else None,
        tuple(str(one["field"]) for one in causes if one.get("field")),
    )


def error_of(told: Refusal, *, is_write: bool) -> BackendError:
    """The protocol's error.

    A right that is missing (403) counts as unavailable only where the caller has asked the server
    whether it is ours that is missing: a webhook may refuse a job with the same code. What the
    server holds against a field of the job is told with the field of ours that it was made of.
    """
    if told.code in _LATER:
        return BackendUnavailableError(
            told.words, code=_LATER[told.code], retry_after_s=told.retry_after_s
        )
    if told.code in _DOUBTFUL:
        if is_write:
            return BackendAmbiguousError(told.words, code=told.reason or str(told.code))
        return BackendUnavailableError(told.words, code=told.reason or str(told.code))
    if told.reason in (EXPIRED, CONFLICT) or told.code == 410:
        return BackendUnavailableError(told.words, code=told.reason or EXPIRED)
    if (
        told.code == 404 and not told.reason
    ):  # it does not know the kind: Volcano is not there, or not yet
        return BackendUnavailableError(told.words, code="not_served")
    ours = dict.fromkeys(filter(None, map(our_field, told.fields)))
    words = f"{told.words} ({', '.join(ours)})" if ours else told.words
    return BackendRejectedError(words, code=told.reason or str(told.code))


def our_field(field: str) -> str:
    """The field of a job's spec from which Muster made a place in the vcjob; "" = from none."""
    place = field.removeprefix("spec.").rpartition("template.spec.")[2]
    if place.startswith("tasks["):
        place = place.partition("].")[2]
    return next((ours for theirs, ours in _OURS if place.startswith(theirs)), "")


def _seconds(text: str | None) -> float:
    """Seconds of a Retry-After header; the API server writes no dates."""
    return float(text) if text and text.isdecimal() else 0.0
