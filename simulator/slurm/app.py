"""slurmrestd over ASGI: faults, authentication, routing; then one handler.

A request passes the checks in the order of the real daemon: both headers are there (401), the path
exists (404), the method fits (405), the query can be read (400), the daemon behind answers, the
token is good.
"""

import asyncio
import json
import re
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from simulator.faults import KINDS, Deed, Fault
from simulator.runtime import Running
from simulator.slurm.calls import Answer, Call, answer, plain
from simulator.slurm.database import PLUGIN
from simulator.slurm.errors import accounting_failure, controller_failure
from simulator.slurm.routes import Endpoint, find_route, openapi
from simulator.slurm.tokens import verify

USER_HEADER = "x-slurm-user-name"
TOKEN_HEADER = "x-slurm-user-token"  # noqa: S105
_NOT_FOUND = "Unable find requested URL. Please view /openapi/v3 for API reference."
_NOT_ALLOWED = (
    "Requested REST method is not defined at URL. Please view /openapi/v3 for API reference."
)


class DropConnection(Exception):  # noqa: N818
    """The connection is to be closed without another byte; `sent` goes out before."""

    def __init__(self, sent: Answer | None = None) -> None:
        super().__init__()
        self.sent = sent


async def serve(cluster: Running, request: Request) -> Response:
    """Answer one request, faults included; DropConnection if there shall be no answer."""
    method, path = request.method, request.url.path
    body = await request.body()
    early = await _suffer(cluster.faults.strike(method, path, acted=False), None)
    if early is not None:
        return _response(early)
    result = await _act(cluster, request, body)
    late = await _suffer(cluster.faults.strike(method, path, acted=True), result)
    return _response(late or result)


async def _suffer(faults: list[Fault], result: Answer | None) -> Answer | None:
    """Let faults do their deeds; the answer that replaces the real one, if any."""
    replaced = None
    for fault in faults:
        match KINDS[fault.kind].deed:
            case Deed.DELAY:
                await asyncio.sleep(fault.ms / 1000)
            case Deed.DROP:
                raise DropConnection
            case Deed.TRUNCATE:
                raise DropConnection(result)
            case Deed.REPLY:
                replaced = plain(fault.status, fault.text)
    return replaced


def _response(result: Answer) -> Response:
    return Response(result.text, result.status, media_type=result.content_type)


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
    return await _checked(cluster, request, endpoint, argument, body)


async def _checked(
    cluster: Running, request: Request, endpoint: Endpoint, argument: str, body: bytes
) -> Answer:
    """The daemon answers and the token is good, or the endpoint's own way to say otherwise."""
    peer = request.client.port if request.client is not None else 0
    number = int(argument) if argument.isdigit() else 0
    if endpoint.daemon == "controller" and cluster.faults.controller_down:
        await asyncio.sleep(cluster.config.controller_timeout_ms / 1000)
        return _failed(endpoint, "controller", number, peer)
    if endpoint.daemon == "accounting" and cluster.faults.accounting_down:
        return _failed(endpoint, "database", number, peer)
    now_ms = cluster.now_ms()
    actor = verify(
        cluster.key,
        request.headers[TOKEN_HEADER],
        request.headers[USER_HEADER],
        admins=cluster.config.admins,
        now=now_ms // 1000,
    )
    if actor is None:
        return _failed(endpoint, "token", number, peer)
    query = dict(request.query_params)
    return endpoint.handler(Call(cluster, actor, now_ms, argument, query, body, peer))


def _failed(
    endpoint: Endpoint, trouble: Literal["token", "controller", "database"], job_id: int, peer: int
) -> Answer:
    if endpoint.daemon == "accounting":
        problem: Literal["token", "database"] = "token" if trouble == "token" else "database"
        status, body = accounting_failure(endpoint.name, problem)
        return answer(body, status, plugin=PLUGIN)
    cause: Literal["token", "controller"] = "token" if trouble == "token" else "controller"
    return answer(controller_failure(endpoint.name, cause, job_id, peer), 500)
