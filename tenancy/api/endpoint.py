"""What every REST endpoint is made of: one declaration a method, and small helpers around it.

`operation` states permission, query parameters and bodies of one method of an `Endpoint`. The same
statement guards the request and fills the OpenAPI document.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.http import QueryDict
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from kit.errors import FieldProblem, InvalidContentError, StaleWriteError, UnknownParameterError
from kit.pagination import Page, refuse_unknown
from kit.rate import Verdict
from tenancy.models import User
from tenancy.permissions import DenyUndeclared, Public, principal_of
from tenancy.selectors.access import Principal
from tenancy.services.idempotency import Answer, answer_once, kept_answer
from tenancy.services.limits import charge_request, refuse_throttled

Schema = dict[str, Any]
Handler = TypeVar("Handler", bound=Callable[..., Any])
COMPONENTS: dict[str, Schema] = {}
LARGEST_KEY = 2**63 - 1


def component(name: str, schema: Schema) -> Schema:
    """Registers a named schema of the OpenAPI document; the reference to it."""
    COMPONENTS[name] = schema
    return {"$ref": f"#/components/schemas/{name}"}


TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
MOMENT: Schema = {"type": "string", "format": "date-time"}
UUID_TEXT: Schema = {"type": "string", "format": "uuid"}


def document(**fields: Schema) -> Schema:
    """An object that has all of the fields."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def list_of(items: Schema) -> Schema:
    """An array."""
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    """That, or null."""
    return {"oneOf": [schema, {"type": "null"}]}


def page_of(items: Schema, **more: Schema) -> Schema:
    """A page of a list."""
    return document(items=list_of(items), next=or_null(TEXT), **more)


MONEY = component("Money", document(amount=TEXT, currency=TEXT))
PROBLEM = component(
    "Problem",
    document(
        type=TEXT,
        title=TEXT,
        status=NUMBER,
        detail=TEXT,
        code=TEXT,
        errors=list_of(document(pointer=TEXT, code=TEXT, detail=TEXT)),
    ),
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter; `many` may be given more than once, for "any of"."""

    name: str
    about: str
    schema: Schema = field(default_factory=lambda: TEXT)
    many: bool = False

    def described(self) -> OpenApiParameter:
        """As the OpenAPI document has it."""
        schema = list_of(self.schema) if self.many else self.schema
        return OpenApiParameter(self.name, schema, description=self.about)


PAGING = (
    Query("limit", "Rows at most.", {"type": "integer", "minimum": 1, "maximum": 500}),
    Query("cursor", "Where to go on, from `next`."),
)
_IDEMPOTENCY = OpenApiParameter(
    "Idempotency-Key",
    TEXT,
    OpenApiParameter.HEADER,
    description="The same key and body within 24 hours give the first answer again.",
)
_IF_MATCH = OpenApiParameter(
    "If-Match", TEXT, OpenApiParameter.HEADER, description="The ETag that was read."
)


def operation(
    permission: type[BasePermission],
    summary: str,
    *,
    gives: Schema | None = None,
    takes: Schema | None = None,
    status: int = 200,
    query: Sequence[Query] = (),
    creates: bool = False,
    matches: bool = False,
    name: str,
) -> Callable[[Handler], Handler]:
    """Declares a method of an `Endpoint`: who may, what it takes and gives, under which name.

    `creates` documents `Idempotency-Key`, `matches` documents `If-Match`.
    """
    parameters = [one.described() for one in query]
    parameters += [_IDEMPOTENCY] if creates else []
    parameters += [_IF_MATCH] if matches else []
    described = extend_schema(
        operation_id=name,
        summary=summary,
        parameters=parameters,
        request={"application/json": takes} if takes else None,
        responses={
            status: OpenApiResponse(gives) if gives else None,
            ("4XX", "application/problem+json"): OpenApiResponse(PROBLEM),
        },
    )

    def declare(handler: Handler) -> Handler:
        handler.permission = permission  # type: ignore[attr-defined]
        handler.parameters = tuple(one.name for one in query)  # type: ignore[attr-defined]
        declared: Handler = described(handler)
        return declared

    return declare


class JsonAlways(DefaultContentNegotiation):
    """Answers are JSON whatever `Accept` says: there is no other form to choose."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """The one renderer there is."""
        only = next(iter(renderers))
        return only, only.media_type


class Endpoint(APIView):
    """A path of the REST interface; its methods are declared with `operation`."""

    content_negotiation_class = JsonAlways
    http_method_names = ["get", "post", "patch", "put", "delete", "head"]
    metadata_class = None
    verdict: Verdict | None = None

    def _declared(self, attribute: str, default: Any) -> Any:
        method = (self.request.method or "").lower()
        handler = getattr(self, method, None) if method in self.http_method_names else None
        return None if handler is None else getattr(handler, attribute, default)

    def get_permissions(self) -> Sequence[Any]:
        """The method's own permission; without one nobody passes. Unknown methods are 405."""
        declared = self._declared("permission", DenyUndeclared)
        return [Public() if declared is None else declared()]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """After authentication and permission: not too often, no parameter that is not known."""
        super().initial(request, *args, **kwargs)
        if isinstance(request.auth, Principal):
            is_read = request.method in SAFE_METHODS
            self.verdict = charge_request(principal=request.auth, is_read=is_read)
            refuse_throttled(self.verdict)
        known = self._declared("parameters", ())
        if known is not None:
            refuse_unknown(request.query_params, known)

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        """Every answer says what the caller's bucket still holds."""
        for name, value in self.verdict.headers().items() if self.verdict else ():
            response.headers[name] = value
        return super().finalize_response(request, response, *args, **kwargs)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document describes bearer tokens."""

    target_class = "tenancy.permissions.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> Schema:
        """RFC 6750."""
        return {"type": "http", "scheme": "bearer"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document describes the browser's session."""

    target_class = "tenancy.permissions.BrowserAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> Schema:
        """The session cookie; writes need the CSRF header too."""
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}


def clock() -> datetime:
    """The time of this request; read at the edge only."""
    return timezone.now()


def user_of(request: Request) -> User:
    """Who asks."""
    return principal_of(request).user


def body_of(request: Request) -> Any:
    """The parsed JSON body; without one, the empty object."""
    data = request.data
    return {} if isinstance(data, QueryDict) else data


def fields_of(request: Request, known: Sequence[str]) -> dict[str, Any]:
    """The body as an object of known fields.

    Raises:
        InvalidContentError: not an object, or an unknown field.
    """
    body = body_of(request)
    if not isinstance(body, dict):
        raise InvalidContentError(
            "Give an object.", errors=[FieldProblem("", "wrong_type", "Give an object.")]
        )
    unknown = [
        FieldProblem(f"/{name[:100]}", "unknown_field", f"Known: {', '.join(known) or 'none'}.")
        for name in body
        if name not in known
    ]
    if unknown:
        raise InvalidContentError("There are unknown fields.", errors=unknown[:100])
    return body


def wrong_parameter(name: str, detail: str) -> UnknownParameterError:
    """A 422 about a query parameter."""
    return UnknownParameterError(
        detail, errors=[FieldProblem(f"?{name}", "invalid_parameter", detail)]
    )


def many(request: Request, name: str, known: Sequence[str] | None = None) -> tuple[str, ...]:
    """The values of a repeatable parameter, each one of `known` if that is given.

    Raises:
        UnknownParameterError: a value that is not known, or holds what no name can hold.
    """
    values = tuple(request.query_params.getlist(name))
    for value in values:
        if known is not None and value not in known:
            raise wrong_parameter(name, f"{name} is one of {', '.join(known)}.")
        if "\0" in value:
            raise wrong_parameter(name, f"{name} holds a character that no name has.")
    return values


def uuid_after(page: Page) -> UUID | None:
    """The id that the cursor of a page names.

    Raises:
        UnknownParameterError: not a cursor of this list.
    """
    try:
        return UUID(page.after) if isinstance(page.after, str) else None
    except ValueError:
        raise _wrong_cursor() from None


def _wrong_cursor() -> UnknownParameterError:
    return wrong_parameter("cursor", "cursor must be one that a `next` address carried.")


def page_after(request: Request, kind: type[int] | type[str]) -> Page:
    """Which page is asked, its cursor of the kind that the list has.

    Raises:
        UnknownParameterError: not a cursor of this list.
    """
    page = Page.of(request.query_params)
    after = page.after
    if after is None:
        return page
    if type(after) is not kind or (isinstance(after, int) and not 0 <= after <= LARGEST_KEY):
        raise _wrong_cursor()
    return page


def page_response(
    request: Request,
    page: Page,
    rows: Sequence[Any],
    render: Callable[[Any], object],
    key: Callable[[Any], int | str],
    **more: object,
) -> Response:
    """The list document of `limit` rows; one row beyond them says that there are more."""
    shown = rows[: page.limit]
    last = key(shown[-1]) if len(rows) > page.limit else None
    items = [render(row) for row in shown]
    return Response({**page.render(items, last, request.path, request.query_params), **more})


def answer_creating(
    request: Request,
    route: str,
    act: Callable[[], Answer],
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Runs a creating request under its `Idempotency-Key`, if it has one."""
    answer = answer_once(
        user=user_of(request),
        route=route,
        key=request.headers.get("Idempotency-Key"),
        body=body_of(request),
        act=act,
        now=clock(),
    )
    return _answered(answer, headers)


def answer_kept(request: Request, route: str) -> Response | None:
    """What was answered under the request's `Idempotency-Key`; None = nothing yet.

    For requests that cost much before they act; `answer_creating` must follow all the same.
    """
    answer = kept_answer(
        user=user_of(request),
        route=route,
        key=request.headers.get("Idempotency-Key"),
        body=body_of(request),
        now=clock(),
    )
    return None if answer is None else _answered(answer)


def _answered(answer: Answer, headers: Mapping[str, str] | None = None) -> Response:
    replayed = {"Idempotency-Replayed": "true"} if answer.replayed else {}
    return Response(answer.body, status=answer.status, headers={**(headers or {}), **replayed})


def etag(version: object) -> str:
    """The `ETag` of a version."""
    return f'"{version}"'


def expected_version(request: Request) -> int | None:
    """The version of `If-Match`; None when there is none, or any will do.

    Raises:
        StaleWriteError: it is not a version of ours.
    """
    given = request.headers.get("If-Match", "*").strip()
    if given == "*":
        return None
    inner = given.strip('"')
    if given != etag(inner) or not (inner.isascii() and inner.isdigit() and len(inner) < 19):
        raise StaleWriteError("If-Match names no version; read the ETag again.")
    return int(inner)
