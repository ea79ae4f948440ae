"""The one family of errors that people see, and the registry of their codes.

An error class is declared beside the function that raises it. The registry is the source of the
reference page of error codes; HTTP learns of errors in `kit.problem` only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class FieldProblem:
    """One thing wrong with one field: a JSON pointer into the body, a stable code, plain words."""

    pointer: str
    code: str
    detail: str


class MusterError(Exception):
    """Something a caller did or met that has a stable code, a status and a remedy in words.

    Subclasses set `code` (stable, snake_case), `status` (HTTP) and `title` (a short, fixed text).
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Error"

    def __init__(
        self,
        detail: str,
        *,
        pointer: str = "",
        errors: Sequence[FieldProblem] = (),
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.errors = tuple(errors)
        if pointer and not self.errors:
            self.errors = (FieldProblem(pointer, self.code, detail),)

    def __init_subclass__(cls) -> None:
        known = REGISTRY.setdefault(cls.code, cls)
        if known is not cls:
            raise TypeError(f"error code {cls.code} is declared twice")


REGISTRY: dict[str, type[MusterError]] = {}


class InvalidJsonError(MusterError):
    """The body is not JSON (RFC 8259: no NaN, no duplicate names, no stray bytes)."""

    code, status, title = "invalid_json", 400, "The body is not valid JSON"


class InvalidContentError(MusterError):
    """The body or a parameter is well-formed but wrong; `errors` names every field."""

    code, status, title = "invalid_content", 422, "The content is not valid"


class UnknownParameterError(MusterError):
    """A query parameter that this path does not know, or a value it cannot take."""

    code, status, title = "invalid_parameter", 422, "A query parameter is not valid"


class NotFoundError(MusterError):
    """It does not exist, or the caller may not know that it does."""

    code, status, title = "not_found", 404, "Not found"


class NotAuthenticatedError(MusterError):
    """No credentials, or none that are valid now."""

    code, status, title = "not_authenticated", 401, "Sign in first"


class PermissionDeniedError(MusterError):
    """The caller may see it but not do this."""

    code, status, title = "permission_denied", 403, "Not allowed"


class ConflictError(MusterError):
    """The state of the thing does not allow the change now."""

    code, status, title = "conflict", 409, "Conflict"


class StaleWriteError(MusterError):
    """`If-Match` names a version that is no longer the current one."""

    code, status, title = "stale_write", 412, "Somebody changed it first"


class BodyTooLargeError(MusterError):
    """The body is larger than the path accepts."""

    code, status, title = "too_large", 413, "The body is too large"


class UnsupportedMediaTypeError(MusterError):
    """The path takes another media type."""

    code, status, title = "unsupported_media_type", 415, "Unsupported media type"


class MethodNotAllowedError(MusterError):
    """The path does not know this method."""

    code, status, title = "method_not_allowed", 405, "Method not allowed"


class ThrottledError(MusterError):
    """Too many requests; `retry_after_s` says when to come back."""

    code, status, title = "throttled", 429, "Too many requests"


class InternalError(MusterError):
    """A fault of ours. The detail never says more than the id under which it was logged."""

    code, status, title = "internal_error", 500, "Internal error"


# Raised in the front process. They are declared here because `web` tells what a code means, and
# does not load the front's code.


class StreamUnavailableError(MusterError):
    """The event table cannot be read now."""

    code, status, title = "stream_unavailable", 503, "The event stream is not to be had now"


class WebAwayError(MusterError):
    """The web process does not answer."""

    code, status, title = "web_away", 502, "The web process is away"
