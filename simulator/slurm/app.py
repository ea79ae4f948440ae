"""slurmrestd over ASGI: faults, authentication, routing; then one handler.

A request passes the checks in the order of the real daemon: both headers are there (401), the path
exists (404), the method fits (405), the query can be read (400), the daemon behind answers, the
token is good.
"""

import json
import re

from starlette.requests import Request
from starlette.responses import Response

from simulator.engine.clocks import seconds
from simulator.faults import KINDS, Deed, Fault
from simulator.runtime import Running
from simulator.slurm.calls import Answer, Call, DropConnection, plain
from simulator.slurm.replies import Target, failure, replacement
from simulator.slurm.routes import find_route, openapi
from simulator.slurm.tokens import verify

USER_HEADER = "x-slurm-user-name"
TOKEN_HEADER = "x-slurm-user-token"  # noqa: S105
_NOT_FOUND = "Unable find requested URL. Please view /openapi/v3 for API reference."
_NOT_ALLOWED = (
    "Requested REST method is not defined at URL. Please view /openapi/v3 for API reference."
)


async def serve(cluster: Running, request: Request) -> Response:
    """Answer one request, faults included; DropConnection if there shall be no answer."""
    method, path = request.method, request.url.path
    body = await request.body()
    target = _target(request)
    struck = cluster.faults.strike(method, path, acted=False)
    early = await _suffer(cluster, struck, target, None)
    if early is not None:
        return _response(early)
    result = await _act(cluster, request, body)
    struck = cluster.faults.strike(method, path, acted=True)
    late = await _suffer(cluster, struck, target, result)
    return _response(late or result)


def _target(request: Request) -> Target | None:
    """What is asked, None for what is no endpoint."""
    endpoints, argument = find_route(request.url.path) or ({}, "")
    endpoint = endpoints.get(request.method)
    if endpoint is None:
        return None
    peer = request.client.port if request.client is not None else 0
    return Target(endpoint, int(argument) if argument.isdigit() else 0, peer)


async def _suffer(
    cluster: Running, faults: list[Fault], target: Target | None, result: Answer | None
) -> Answer | None:
    """Let faults do their deeds; the answer that replaces the real one, if any."""
    replaced = None
    for fault in faults:
        match KINDS[fault.kind].deed:
            case Deed.DELAY:
                await cluster.pause(fault.ms)
            case Deed.DROP:
                raise DropConnection
            case Deed.RESET:
                raise DropConnection(reset=True)
            case Deed.TRUNCATE:
                raise DropConnection(result)
            case Deed.REPLY:
                replaced = replacement(fault, target, result)
    return replaced


def _response(result: Answer) -> Response:
    return Response(result.text, result.status, result.headers, result.content_type)


async def _act(cluster: Running, request: Request, body: bytes) -> Answer:
    headers = request.headers
    if USER_HEADER not in headers or TOKEN_HEADER not in headers:
        return plain(401, "Authentication failure")
    path = request.url.path
    if path.rstrip("/") in {"/openapi", "/openapi/v3", "/openapi.json"}:
        return Answer(200, json.dumps(openapi()))
    route = find_route(path)
    if route is None:
        return plain(404, _NOT_FOUND)
    endpoints, argument = route
    endpoint = endpoints.get(request.method)
    if endpoint is None:
        return plain(405, _NOT_ALLOWED)
    if re.search(r"[:,/]", request.url.query):
        return plain(400, "Unable to parse query.")
    return await _checked(cluster, request, argument, body)


async def _checked(cluster: Running, request: Request, argument: str, body: bytes) -> Answer:
    """The daemon answers and the token is good, or the endpoint's own way to say otherwise."""
    target = _target(request)
    assert target is not None, "routed before"  # noqa: S101
    endpoint = target.endpoint
    if endpoint.daemon == "controller" and cluster.faults.controller_down:
        await cluster.pause(cluster.config.controller_timeout_ms)
        return failure(target, "controller")
    if endpoint.daemon == "accounting" and cluster.faults.accounting_down:
        return failure(target, "database")
    now_ms = cluster.now_ms()
    actor = verify(
        cluster.key,
        request.headers[TOKEN_HEADER],
        request.headers[USER_HEADER],
        admins=cluster.config.admins,
        now=seconds(cluster.world, now_ms),
    )
    if actor is None:
        return failure(target, "token")
    query = dict(request.query_params)
    return endpoint.handler(Call(cluster, actor, now_ms, argument, query, body, target.peer))
