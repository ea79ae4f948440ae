"""REST: a cluster joins, is configured, gets new credentials, and takes new work or not."""

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.documents import CLUSTER, JOINING, PROBE, admin_document, cluster_document
from clusters.core.joining import FIELDS, read_secret
from clusters.models import Cluster
from clusters.selectors.connection import CONFIGURED, configuration_etag
from clusters.selectors.fleet import cluster_named, cluster_page, cluster_use
from clusters.services.configure import update_cluster
from clusters.services.fleet import set_state
from clusters.services.join import (
    join_cluster,
    look,
    parse_joining,
    probe_document,
    refuse_taken,
)
from clusters.services.probe import probe_cluster
from clusters.services.rotate import rotate_credentials
from kit.errors import FieldProblem, InvalidContentError
from tenancy.api.endpoint import (
    PAGING,
    TEXT,
    TRUTH,
    Endpoint,
    answer_creating,
    answer_kept,
    clock,
    etag,
    fields_of,
    operation,
    page_after,
    page_of,
    page_response,
    user_of,
)
from tenancy.models import User
from tenancy.permissions import CanRead, IsAdmin, principal_of
from tenancy.services.idempotency import Answer

ELSEWHERE: Mapping[str, str] = {
    "name": "A name never changes: jobs, quotas and prices bear it.",
    "secret": "POST /clusters/{name}/rotate tries the new key first.",
    "state": "POST /clusters/{name}/drain, /undrain or /cut-off.",
    "flavors": "PUT or DELETE /clusters/{name}/flavors/{flavor}.",
    "accounts": "PUT or DELETE /clusters/{name}/accounts/{user}.",
}
CHANGE: dict[str, Any] = {
    "type": "object",
    "properties": {name: {} for name in CONFIGURED},
    "additionalProperties": False,
}
WHY = {"type": "object", "properties": {"why": TEXT}, "additionalProperties": False}
ROTATE = {
    "type": "object",
    "properties": {"secret": TEXT, "force": TRUTH},
    "required": ["secret"],
    "additionalProperties": False,
}
MOST_WHY = 1000


class Clusters(Endpoint):
    """The fleet."""

    @operation(CanRead, "The clusters", gives=page_of(CLUSTER), query=PAGING, name="list_clusters")
    def get(self, request: Request) -> Response:
        """In order of their names, with used, free, foreign and drained GPUs by flavor."""
        page = page_after(request, str)
        after = page.after if isinstance(page.after, str) else None
        rows = cluster_page(user_of(request), after=after, limit=page.limit)
        return page_response(
            request, page, rows, cluster_document, lambda use: str(use.cluster.name)
        )

    @operation(
        IsAdmin,
        "Let a cluster join",
        takes=JOINING,
        gives=CLUSTER,
        status=201,
        creates=True,
        name="join_cluster",
    )
    def post(self, request: Request) -> Response:
        """It is probed first; what keeps it from joining is told with the fix (or `force` it)."""
        kept = answer_kept(request, "join_cluster")
        if kept is not None:
            return kept
        user, joining = user_of(request), parse_joining(fields_of(request, FIELDS))
        if "Idempotency-Key" not in request.headers:
            refuse_taken(joining.name)
        looked = look(joining=joining, now=clock())

        def act() -> Answer:
            join_cluster(actor=user, joining=joining, looked=looked, now=clock())
            return Answer(201, _shown(user, joining.name))

        return answer_creating(request, "join_cluster", act)


class ProbeUnknown(Endpoint):
    """A look at a cluster that is no member yet."""

    @operation(
        IsAdmin, "Probe before joining", takes=JOINING, gives=PROBE, name="probe_before_joining"
    )
    def post(self, request: Request) -> Response:
        """The body of a join; nothing is made. What is on, off or missing, and how to mend it."""
        joining = parse_joining(fields_of(request, FIELDS))
        now = clock()
        return Response(probe_document(look(joining=joining, now=now), now))


class OneCluster(Endpoint):
    """One cluster."""

    @operation(CanRead, "One cluster", gives=CLUSTER, name="get_cluster")
    def get(self, request: Request, name: str) -> Response:
        """Admins also see its endpoint, settings and what the last probe found."""
        use = cluster_use(user_of(request), name)
        shown = admin_document(use) if principal_of(request).is_admin else cluster_document(use)
        return Response(shown, headers={"ETag": etag(configuration_etag(use.cluster))})

    @operation(
        IsAdmin, "Configure it", takes=CHANGE, gives=CLUSTER, matches=True, name="change_cluster"
    )
    def patch(self, request: Request, name: str) -> Response:
        """Only what is named changes; `options` are merged by name, and null takes one away."""
        cluster, user = cluster_named(name), user_of(request)
        changes = _changes(request, cluster)
        changed = update_cluster(
            actor=user,
            cluster=cluster,
            changes=changes,
            expected_etag=_expected(request),
            now=clock(),
        )
        headers = {"ETag": etag(configuration_etag(changed))}
        return Response(_shown(user, name), headers=headers)


def _shown(user: User, name: str) -> dict[str, Any]:
    return admin_document(cluster_use(user, name))


def _expected(request: Request) -> str | None:
    """The ETag of `If-Match`; None when there is none, or any will do."""
    given = request.headers.get("If-Match", "*").strip()
    return None if given == "*" else given.removeprefix("W/").strip('"')


def _changes(request: Request, cluster: Cluster) -> dict[str, Any]:
    """The body of a PATCH, its options merged.

    Raises:
        InvalidContentError: it names what is changed elsewhere, or is not known.
    """
    body = fields_of(request, (*CONFIGURED, *ELSEWHERE))
    misplaced = [
        FieldProblem(
            f"/{field}",
            "not_changeable_here",
            words.format(name=cluster.name, flavor="{flavor}", user="{user}"),
        )
        for field, words in ELSEWHERE.items()
        if field in body
    ]
    if misplaced:
        raise InvalidContentError("This is changed elsewhere.", errors=misplaced)
    if isinstance(body.get("options"), dict):
        merged = {**cluster.options, **body["options"]}
        options = {key: value for key, value in merged.items() if value is not None}
        return {**body, "options": options}
    return body


class Rotate(Endpoint):
    """New credentials."""

    @operation(
        IsAdmin, "Rotate its key", takes=ROTATE, gives=PROBE, name="rotate_cluster_credentials"
    )
    def post(self, request: Request, name: str) -> Response:
        """The new key is tried first; jobs run on, and the old key stays unless the new works."""
        body = fields_of(request, ("secret", "force"))
        secret, problem = read_secret(body.get("secret"))
        if problem is not None or secret is None:
            raise InvalidContentError("The key is not valid.", errors=[problem] if problem else [])
        if not isinstance(body.get("force", False), bool):
            raise InvalidContentError("force is true or false.", pointer="/force")
        report = rotate_credentials(
            actor=user_of(request),
            cluster=cluster_named(name),
            secret=secret,
            force=body.get("force", False),
            now=clock(),
        )
        return Response(report)


class Probe(Endpoint):
    """A look at a cluster."""

    @operation(IsAdmin, "Probe it", gives=PROBE, name="probe_cluster")
    def post(self, request: Request, name: str) -> Response:
        """Versions, rights, plugins, clock; what is found decides what may be placed there."""
        fields_of(request, ())
        cluster = cluster_named(name)
        return Response(probe_cluster(actor=user_of(request), cluster=cluster, now=clock()))


class _SetState(Endpoint):
    """Shared by drain, cut off and undrain."""

    def _set(self, request: Request, name: str, state: Cluster.State) -> Response:
        why = read_why(fields_of(request, ("why",)))
        user = user_of(request)
        set_state(actor=user, cluster=cluster_named(name), state=state, why=why, now=clock())
        return Response(cluster_document(cluster_use(user, name)))


def read_why(body: Mapping[str, Any]) -> str:
    """What a person gives as the reason of an act.

    Raises:
        InvalidContentError: no text, or a long one.
    """
    why = body.get("why", "")
    if not isinstance(why, str) or len(why) > MOST_WHY or "\0" in why:
        raise InvalidContentError(f"why is a text of at most {MOST_WHY} letters.", pointer="/why")
    return why


class Drain(_SetState):
    """No new work."""

    @operation(IsAdmin, "Drain it", takes=WHY, gives=CLUSTER, name="drain_cluster")
    def post(self, request: Request, name: str) -> Response:
        """What is bound there goes on and finishes; nothing new is bound to it."""
        return self._set(request, name, Cluster.State.DRAINING)


class CutOff(_SetState):
    """No new work, and nothing that is still on its way."""

    @operation(IsAdmin, "Cut it off", takes=WHY, gives=CLUSTER, name="cut_off_cluster")
    def post(self, request: Request, name: str) -> Response:
        """What has not reached it goes back to the queue; jobs there stay and can be cancelled."""
        return self._set(request, name, Cluster.State.CUT_OFF)


class Undrain(_SetState):
    """New work again."""

    @operation(IsAdmin, "Open it again", takes=WHY, gives=CLUSTER, name="undrain_cluster")
    def post(self, request: Request, name: str) -> Response:
        """Work may be bound to it again: it was drained, cut off, or about to leave."""
        return self._set(request, name, Cluster.State.ACTIVE)
