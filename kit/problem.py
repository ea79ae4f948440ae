"""The one place where errors become HTTP: `application/problem+json` (RFC 9457), strict JSON in."""

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import get_script_prefix
from rest_framework import exceptions, status
from rest_framework.parsers import BaseParser
from rest_framework.response import Response

from kit.errors import (
    BodyTooLargeError,
    FieldProblem,
    InternalError,
    InvalidContentError,
    InvalidJsonError,
    MethodNotAllowedError,
    MusterError,
    NotAuthenticatedError,
    NotFoundError,
    PermissionDeniedError,
    ThrottledError,
    UnsupportedMediaTypeError,
)
from kit.ids import new_id

logger = logging.getLogger(__name__)
PROBLEM_JSON = "application/problem+json"
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
_BRACKETS = re.compile(r"[\[\]{}]")


def problem(error: MusterError) -> dict[str, object]:
    """The RFC 9457 document of an error. `type` is a stable address of the code's description."""
    return {
        "type": f"{get_script_prefix()}api/v1/problems/{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "code": error.code,
        "errors": [
            {"pointer": field.pointer, "code": field.code, "detail": field.detail}
            for field in error.errors
        ],
    }


def problem_headers(error: MusterError) -> dict[str, str]:
    """`Retry-After` and `WWW-Authenticate` where the error calls for them."""
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    if error.status == status.HTTP_401_UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="muster"'
    return headers


def _drf_error(error: exceptions.APIException) -> MusterError:
    words = str(error.detail)
    match error:
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            return NotAuthenticatedError(words)
        case exceptions.PermissionDenied():
            return PermissionDeniedError(words)
        case exceptions.NotFound():
            return NotFoundError("There is no such thing, or you may not see it.")
        case exceptions.MethodNotAllowed():
            return MethodNotAllowedError(words)
        case exceptions.UnsupportedMediaType():
            return UnsupportedMediaTypeError("Send the body as application/json.")
        case exceptions.Throttled():
            return ThrottledError(words, retry_after_s=int(getattr(error, "wait", None) or 1))
        case _:
            return InvalidContentError(words)


def known_error(error: Exception) -> MusterError | None:
    """The error of ours that an exception stands for; None = a fault of ours."""
    match error:
        case MusterError():
            return error
        case exceptions.APIException():
            return _drf_error(error)
        case Http404():
            return NotFoundError("There is no such thing, or you may not see it.")
        case RequestDataTooBig():
            return BodyTooLargeError(f"The body may have at most {MAX_BODY_BYTES} bytes.")
        case _:
            return None


def exception_handler(error: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's hook: every exception of a view becomes a problem document, a fault is logged."""
    known = known_error(error)
    if known is None:
        number = new_id()
        logger.error("fault %s in %s", number, context.get("view"), exc_info=error)
        known = InternalError(f"A fault of ours, logged as {number}. Nothing was changed.")
    return Response(
        problem(known),
        status=known.status,
        headers=problem_headers(known),
        content_type=PROBLEM_JSON,
    )


def as_response(error: MusterError) -> HttpResponse:
    """A problem document outside DRF (Django's own 404 and the like)."""
    return JsonResponse(
        problem(error),
        status=error.status,
        headers=problem_headers(error),
        content_type=PROBLEM_JSON,
    )


def problem_middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Under `/api/`, Django's own error pages (unknown path, bad host) are problems as well."""

    def handle(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not request.path.startswith("/api/") or response.status_code < 400:
            return response
        if response.get("Content-Type", "").startswith(PROBLEM_JSON):
            return response
        for kind in (NotFoundError, PermissionDeniedError, MethodNotAllowedError):
            if kind.status == response.status_code:
                return as_response(kind(f"{request.method} {request.path} is not to be had."))
        return response

    return handle


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} stands twice in one object")
    return result


def _depth(text: str) -> int:
    """The deepest nesting, counted over brackets; strings may only make it larger."""
    depth = deepest = 0
    for letter in _BRACKETS.findall(text):
        if letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def parse_json(raw: bytes) -> object:
    """Strict JSON (RFC 8259, UTF-8): no NaN, no duplicate names, no depth beyond 64.

    Raises:
        BodyTooLargeError: more than 4 MiB.
        InvalidJsonError: anything else that is wrong with the text.
    """
    if len(raw) > MAX_BODY_BYTES:
        raise BodyTooLargeError(f"The body may have at most {MAX_BODY_BYTES} bytes.")
    try:
        text = raw.decode("utf-8")
        if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
            raise InvalidJsonError(f"The body is nested deeper than {MAX_DEPTH} levels.")
        return json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates
        )
    except UnicodeDecodeError:
        raise InvalidJsonError("The body is not UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidJsonError(f"The body is not JSON: {error}.") from None


class StrictJsonParser(BaseParser):
    """DRF's door for request bodies."""

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The parsed body; an empty body is the empty object."""
        raw = stream.read(MAX_BODY_BYTES + 1)
        return parse_json(raw) if raw.strip() else {}


def invalid(pointer: str, code: str, detail: str) -> InvalidContentError:
    """A 422 about one field."""
    return InvalidContentError(detail, errors=[FieldProblem(pointer, code, detail)])
