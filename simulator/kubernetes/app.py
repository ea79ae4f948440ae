"""The API over ASGI: faults, tokens, rights, path; then one verb.

The order is the server's: who asks (401), what is free for all, whether he may (403), whether there
is such a thing (404).
"""

import json
from collections.abc import AsyncIterator
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from simulator.faults import KINDS, Deed, Fault, FaultBoard
from simulator.kubernetes import errors
from simulator.kubernetes.access import NOBODY, Gate, Person, may, question, review
from simulator.kubernetes.calls import Answer, Call, Target, answer, read_path, refusal, verb_of
from simulator.kubernetes.discovery import discover
from simulator.kubernetes.errors import ApiError
from simulator.kubernetes.verbs import Api
from simulator.kubernetes.watching import Clock, Scissors, Stream, WatchCut, watch
from simulator.slurm.calls import Answer as Sent
from simulator.slurm.calls import DropConnection

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_HEALTH = {"/readyz", "/livez", "/healthz"}


class Server(Protocol):
    """What a cluster has to have to be served."""

    api: Api
    gate: Gate
    faults: FaultBoard
    scissors: Scissors
    clock: Clock

    def settle(self) -> None:
        """Let controllers do at once what a write makes them do."""


async def serve(server: Server, request: Request) -> Response:
    """Answer one request, faults included; DropConnection if there shall be no answer."""
    method, path = request.method, request.url.path
    body = await request.body()
    early = await _suffer(server, server.faults.strike(method, path, acted=False), None)
    if early is not None:
        return _response(early)
    try:
        result = _act(server, request, body)
    except ApiError as error:
        result = refusal(error)
    server.settle()
    late = await _suffer(server, server.faults.strike(method, path, acted=True), result)
    return _response(late or result)


async def _suffer(server: Server, faults: list[Fault], result: Answer | None) -> Answer | None:
    """Let faults do their deeds; the answer that replaces the real one, if any."""
    replaced = None
    for fault in faults:
        match KINDS[fault.kind].deed:
            case Deed.DELAY:
                await server.clock.pause(fault.ms)
            case Deed.DROP:
                raise DropConnection
            case Deed.RESET:
                raise DropConnection(reset=True)
            case Deed.TRUNCATE:
                raise DropConnection(Sent(result.status, result.text) if result else None)
            case Deed.REPLY:
                replaced = replacement(fault, result)
    return replaced


_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def replacement(fault: Fault, result: Answer | None) -> Answer:
    """What a fault puts in the place of the real answer."""
    text = result.text if result else ""
    match fault.kind:
        case "bad_token" | "token_dies":
            return refusal(errors.unauthorized())
        case "too_many":
            message = "the server has received too many requests, please try again later"
            return refusal(
                ApiError(429, "TooManyRequests", message, retry_after_s=max(1, fault.ms // 1000))
            )
        case "bad_gateway":
            return Answer(502, "<html><h1>502 Bad Gateway</h1></html>", content_type="text/html")
        case "half_json":
            return Answer(200, text[: len(text) // 2])
        case "empty_answer":
            return Answer(200, "")
        case "reply_before" | "reply_after":
            reason = _REASONS.get(fault.status, "")
            return refusal(ApiError(fault.status, reason, fault.text))
    return refusal(ApiError(500, "InternalError", fault.text or "an error on the server"))


def _response(result: Answer) -> Response:
    if result.stream is not None:
        return StreamingResponse(result.stream, result.status, media_type="application/json")
    return Response(result.text, result.status, dict(result.headers), result.content_type)


def _act(server: Server, request: Request, body: bytes) -> Answer:
    now_ms, path = server.clock.now_ms(), request.url.path
    person = server.gate.who(request.headers.get("authorization", ""), now_ms)
    if person is None:
        raise errors.unauthorized()
    free = _free(request, path, body, person)
    if free is not None:
        return free
    target = read_path(path)
    if target is None:
        raise errors.no_such_path()
    query = dict(request.query_params)
    verb = verb_of(request.method, target, query)
    _check(person, target, verb)
    kind = request.headers.get("content-type", "")
    call = Call(verb, target, query, body, kind, now_ms, person)
    if verb == "watch":
        # A selector or version that cannot be read is refused before the stream begins.
        stream = Stream(server.api.store, call)
        return Answer(200, "", stream=_dropping(watch(stream, server.clock, server.scissors)))
    return server.api.act(call)


async def _dropping(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for line in lines:
            yield line
    except WatchCut:
        raise DropConnection from None


def _free(request: Request, path: str, body: bytes, person: Person) -> Answer | None:
    """What needs no right."""
    if path in _HEALTH:
        return Answer(200, "ok", content_type="text/plain")
    if path == _REVIEWS and request.method == "POST":
        try:
            return answer(review(person, json.loads(body)), 201)
        except (ValueError, AttributeError) as error:
            raise errors.bad_request(f"the object provided is unrecognized: {error}") from None
    found = discover(path) if request.method == "GET" else None
    if found is None:
        return None
    if person is NOBODY and path != "/version":
        message = f'forbidden: User "{person.user}" cannot get path "{path}"'
        raise ApiError(403, "Forbidden", message, details={})
    return answer(found)


def _check(person: Person, target: Target, verb: str) -> None:
    resource, subresource, namespace = target.resource, target.subresource, target.namespace
    if resource.plural == "namespaces" and target.name:
        # As the server does: a namespace is asked about inside itself.
        namespace = target.name
    if not may(person.rights, question(resource, subresource, verb, namespace)):
        raise errors.forbidden(person.user, verb, resource, subresource, namespace, target.name)
