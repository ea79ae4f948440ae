"""A federation to ask over REST: people, tenants, one cluster of eight nodes that was seen once.

Alice owns the team, Bob submits, Vera views, Charlie belongs elsewhere, Ada is an admin.
"""

import json
import warnings
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.test import Client
from django.utils import timezone

from clusters.models import Cluster, Command, Node, Observation
from clusters.services.configure import set_account, set_cluster_flavor
from federation.models import Attempt, Job
from kit.ids import fence
from tenancy.models import Role, Scope, Tenant, User
from tenancy.services.access import create_token, set_member
from tenancy.services.people import create_person
from tests import make
from tests.federation.bodies import small

TEAM, OTHER = "acme/vision", "rivals/lab"
EVERY_SCOPE = tuple(scope.value for scope in Scope)


@cache
def _handler() -> Any:
    """The loaded middleware, once for all clients; in a checkout no static files are collected."""
    handler = Client().handler
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No directory at")
        handler.load_middleware()
    return handler


def client() -> Client:
    """A test client that answers 500 where the code raises, as a server does."""
    made = Client(raise_request_exception=False)
    made.handler = _handler()
    return made


@dataclass
class Caller:
    """A person with a token: requests over the test client."""

    user: User
    token: str
    client: Client = field(default_factory=client)

    def call(
        self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str
    ) -> Any:
        """A request under `/api/v1`; header names with underscores."""
        content_type = headers.pop("content_type", "application/json")
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        named = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        if self.token:
            named["HTTP_AUTHORIZATION"] = f"Bearer {self.token}"
        address = path if path.startswith("/api/") else f"/api/v1{path}"
        return self.client.generic(method, address, data, content_type=content_type, **named)

    def get(self, path: str, **headers: str) -> Any:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("POST", path, body, **headers)

    def patch(self, path: str, body: Any, **headers: str) -> Any:
        return self.call("PATCH", path, body, **headers)


@dataclass
class World:
    """Who is there and what."""

    ada: Caller
    alice: Caller
    bob: Caller
    vera: Caller
    charlie: Caller
    nobody: Caller
    team: Tenant
    other: Tenant
    cluster: Cluster

    def job(self, **changes: Any) -> Job:
        """A job of Bob's, submitted over REST."""
        answer = self.bob.post("/jobs", small(tenant=TEAM, **changes))
        assert answer.status_code == 201, answer.content
        return Job.objects.get(uuid=answer.json()["id"])

    def bind(self, job: Job, *, sent: bool = True, state: str = "running") -> Attempt:
        """What the arbiter and the workers write when a job was bound (and its order was sent)."""
        now = timezone.now()
        attempt = Attempt.objects.create(
            job=job,
            number=1,
            fence=fence(job.uuid, 1),
            cluster=self.cluster,
            flavor_id="h100-sxm-80",
            service_class="guaranteed",
            nodes=["n1", "n2", "n3", "n4"],
            gpus_per_node=8,
            cpus_per_node=8,
            memory_mib_per_node=0,
            exclusive=False,
            tier="leaf",
            account="bob",
            state=state if sent else "dispatching",
            bound_at=now,
        )
        Command.objects.create(
            key=f"submit:{attempt.id}",
            cluster=self.cluster,
            kind=Command.Kind.SUBMIT,
            fence=attempt.fence,
            payload={},
            state=Command.State.DONE if sent else Command.State.WAITING,
            created_at=now,
            not_before=now,
            sent_at=now if sent else None,
            answered_at=now if sent else None,
        )
        job.state, job.class_now = state if sent else "dispatching", "guaranteed"
        job.save()
        return attempt


def _person(username: str, *, is_admin: bool = False) -> User:
    """Somebody without a password: hashing one takes longer than most of these tests."""
    now = timezone.now()
    return create_person(actor=None, username=username, password=None, is_admin=is_admin, now=now)


def caller(user: User, scopes: tuple[str, ...] = EVERY_SCOPE) -> Caller:
    """A token for the person, made by the real service."""
    now = timezone.now()
    _, text = create_token(
        actor=user,
        user=user,
        name="test",
        scopes=scopes,
        expires_at=now + timedelta(days=1),
        now=now,
    )
    return Caller(user, text)


def build() -> World:
    """The whole of it."""
    now = timezone.now()
    team, other = make.tenant(TEAM), make.tenant(OTHER)
    people = {name: _person(name) for name in ("alice", "bob", "vera", "charlie")}
    for name, role in (("alice", Role.OWNER), ("bob", Role.SUBMITTER), ("vera", Role.VIEWER)):
        set_member(actor=None, tenant=team, user=people[name], role=role, now=now)
    set_member(actor=None, tenant=other, user=people["charlie"], role=Role.OWNER, now=now)
    flavor, cluster = make.flavor("h100-sxm-80"), make.cluster("aurora", stores=["lustre-a"])
    make.flavor("mi300x")
    set_cluster_flavor(actor=None, cluster=cluster, flavor=flavor, device="h100", now=now)
    for name in ("bob", "charlie"):
        set_account(actor=None, cluster=cluster, user=people[name], account=name, now=now)
    see(cluster)
    return World(
        ada=caller(_person("ada", is_admin=True)),
        **{name: caller(user) for name, user in people.items()},
        nobody=Caller(people["charlie"], ""),
        team=team,
        other=other,
        cluster=cluster,
    )


def see(cluster: Cluster, nodes: int = 8) -> None:
    """The cluster was read once: so many nodes of eight GPUs in leaves of four, one spine."""
    now = timezone.now()
    Node.objects.bulk_create(
        Node(
            cluster=cluster,
            name=f"n{number}",
            state="up",
            device="h100",
            gpus=8,
            cpus=128,
            memory_mib=1_000_000,
            path=[["spine", "s0"], ["leaf", f"l{(number - 1) // 4}"]],
            queues=["batch"],
        )
        for number in range(1, nodes + 1)
    )
    Observation.objects.create(
        cluster=cluster,
        begun_at=now,
        ended_at=now,
        accounting_answered=True,
        gangs=[],
        queues=[["batch", True, nodes, None]],
        reservations=[],
        foreign_running=2,
        foreign_pending=1,
        foreign_pending_gpus=8,
    )
    Cluster.objects.filter(pk=cluster.pk).update(last_seen_at=now)


def problem(response: Any) -> dict[str, Any]:
    """The problem document of an answer, its form checked."""
    assert response["Content-Type"] == "application/problem+json", response.content
    body: dict[str, Any] = json.loads(response.content)
    assert set(body) == {"type", "title", "status", "detail", "code", "errors"}
    assert body["status"] == response.status_code
    for error in body["errors"]:
        assert set(error) == {"pointer", "code", "detail"}
    return body


def spots(response: Any) -> list[tuple[str, str]]:
    """(pointer, code) of everything that a problem document names."""
    return [(error["pointer"], error["code"]) for error in problem(response)["errors"]]


UNKNOWN_ID = UUID("01900000-0000-7000-8000-000000000000")
