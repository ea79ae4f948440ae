"""Every route at once: what it declares, and what strangers, readers and nobody get."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from federation.models import Job
from tenancy.api.endpoint import Endpoint
from tenancy.permissions import CanManage, CanRead, CanSubmit, IsAdmin, IsJob, Public
from tests.api.world import TEAM, UNKNOWN_ID, World, caller, problem

METHODS = ("get", "post", "patch", "put", "delete")
# Served by classes that are not ours or outside the interface, open to anybody.
OPEN = {"schema", "problems/<slug:code>"}


def routes() -> Iterator[tuple[str, Any]]:
    """(path, view class) of everything under /api/v1/."""

    def walk(entries: list[Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for entry in entries:
            pattern = entry.pattern
            route = prefix + (pattern._route if isinstance(pattern, RoutePattern) else "")
            if isinstance(entry, URLResolver):
                yield from walk(entry.url_patterns, route)
            elif isinstance(entry, URLPattern) and route.startswith("api/v1/"):
                yield route.removeprefix("api/v1/"), getattr(entry.callback, "view_class", None)

    yield from walk(get_resolver().url_patterns, "")


ROUTES = [(route, view) for route, view in routes() if route not in OPEN]
HANDLERS = [
    (route, method, getattr(view, method))
    for route, view in ROUTES
    for method in METHODS
    if hasattr(view, method)
]


def path_of(route: str, job: object = UNKNOWN_ID, tenant: str = TEAM) -> str:
    for part, value in (
        ("<uuid:job_id>", job),
        ("<uuid:token_id>", UNKNOWN_ID),
        ("<uuid:case_id>", UNKNOWN_ID),
        ("<uuid:request_id>", UNKNOWN_ID),
        ("<uuid:simulation_id>", UNKNOWN_ID),
        ("<int:entry_id>", "999999999"),
        ("<slug:action>", "cancel"),
        ("<slug:name>", "aurora"),
        ("<slug:flavor>", "h100-sxm-80"),
        ("<str:username>", "bob"),
        ("<path:path>", tenant),
    ):
        route = route.replace(part, str(value))
    assert "<" not in route, f"{route}: tell this test what stands there"
    return f"/{route}"


def test_every_route_is_an_endpoint_whose_methods_declare_a_permission() -> None:
    assert len(ROUTES) > 25
    for route, view in ROUTES:
        assert view is not None, route
        assert issubclass(view, Endpoint), route
    for route, method, handler in HANDLERS:
        known = (CanRead, CanSubmit, CanManage, IsAdmin, IsJob)
        assert handler.permission in known, (route, method)
        assert handler.permission is not Public
        if method != "get" and route != "tokens" and not route.startswith("tokens/"):
            assert handler.permission is not CanRead, (route, method)


def test_the_type_of_a_problem_says_what_it_means(world: World) -> None:
    refused = problem(world.nobody.call("GET", "/me"))
    meaning = world.nobody.call("GET", refused["type"].removeprefix("/api/v1"))
    assert meaning.status_code == 200
    told = meaning.json()
    assert (told["code"], told["status"]) == ("not_authenticated", 401)
    assert told["meaning"]
    assert world.nobody.call("GET", "/problems/no_such_code").status_code == 404


def test_nobody_gets_401_everywhere(world: World) -> None:
    for route, method, _ in HANDLERS:
        answer = world.nobody.call(method.upper(), path_of(route))
        assert answer.status_code == 401, (route, method)
        assert answer["WWW-Authenticate"].startswith("Bearer")
        assert problem(answer)["code"] == "not_authenticated"


def test_an_unknown_token_gets_401_everywhere(world: World) -> None:
    world.nobody.token = "mst_nonsense"
    for route, method, _ in HANDLERS:
        assert world.nobody.call(method.upper(), path_of(route)).status_code == 401, route


def test_strangers_get_404_for_all_that_is_anothers(world: World) -> None:
    job = world.job()
    seen = 0
    for route, method, handler in HANDLERS:
        if handler.permission in (IsAdmin, IsJob) or not (
            "job_id" in route or "path:path" in route
        ):
            continue
        answer = world.charlie.call(method.upper(), path_of(route, job.uuid))
        assert answer.status_code == 404, (route, method)
        missing = world.charlie.call(method.upper(), path_of(route, UNKNOWN_ID, "no/such"))
        assert answer.json() == missing.json(), (route, method)
        seen += 1
    assert seen >= 13
    assert Job.objects.get().version == 1


def test_strangers_see_nothing_of_anothers_in_lists(world: World) -> None:
    world.job(name="a secret name")
    for route, method, handler in HANDLERS:
        if method == "get" and handler.permission is CanRead and "<" not in route:
            answer = world.charlie.get(path_of(route))
            assert answer.status_code == 200, route
            assert b"a secret name" not in answer.content
            assert TEAM.encode() not in answer.content


def test_a_token_without_the_scope_gets_403(world: World) -> None:
    job = world.job()
    writer = caller(world.ada.user, ("submit",))
    reader = caller(world.ada.user, ("read",))
    for route, method, handler in HANDLERS:
        unfit = writer if handler.permission is CanRead else reader
        answer = unfit.call(method.upper(), path_of(route, job.uuid))
        assert (answer.status_code, problem(answer)["code"]) == (403, "permission_denied"), route


def test_admins_only_means_admins_only(world: World) -> None:
    found = [(r, m) for r, m, handler in HANDLERS if handler.permission is IsAdmin]
    assert len(found) >= 4
    for route, method in found:
        assert world.alice.call(method.upper(), path_of(route)).status_code == 403, route


def test_unknown_parameters_are_refused_everywhere(world: World) -> None:
    job = world.job()
    for route, method, handler in HANDLERS:
        if handler.permission is IsJob:  # people are refused first
            continue
        path = f"{path_of(route, job.uuid)}?colour=red"
        answer = world.ada.call(method.upper(), path)
        assert answer.status_code == 422, (route, method)
        assert problem(answer)["errors"][0]["pointer"] == "?colour"


def test_unknown_methods_are_405_and_unknown_paths_404(world: World) -> None:
    for method, path, status in (
        ("DELETE", "/jobs", 405),
        ("OPTIONS", "/jobs", 405),
        ("GET", "/nowhere", 404),
        ("GET", "/jobs/7", 404),
    ):
        answer = world.bob.call(method, path)
        assert answer.status_code == status, path
        assert problem(answer)["status"] == status


@pytest.mark.parametrize("path", ["/me", "/jobs", "/clusters/aurora"])
def test_head_answers_like_get(world: World, path: str) -> None:
    assert world.bob.call("HEAD", path).status_code == 200


def test_the_openapi_document_is_without_warnings(db: None, tmp_path: Any) -> None:
    target = tmp_path / "schema.yml"
    call_command("spectacular", "--fail-on-warn", "--validate", "--file", str(target))
    text = target.read_text()
    for route, _ in ROUTES:
        plain = route.replace("<uuid:", "{").replace("<slug:", "{").replace("<path:", "{")
        plain = plain.replace("<str:", "{").replace("<int:", "{")
        assert f"/api/v1/{plain.replace('>', '}')}:" in text, route
    assert "/api/v1/events:" in text


def test_the_document_is_served_to_anybody(world: World) -> None:
    answer = world.nobody.get("/schema", accept="application/json")
    assert answer.status_code == 200
    body = answer.json()
    assert body["openapi"].startswith("3.1")
    assert "tp" in str(body["components"]["schemas"]["JobBody"])
