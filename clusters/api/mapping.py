"""REST: the catalogue of GPU models, what they are called on a cluster, and who is who there."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.documents import (
    ACCOUNT,
    FLAVOR,
    NAMED_FLAVOR,
    account_document,
    flavor_document,
    named_document,
)
from clusters.models import Flavor
from clusters.selectors.fleet import (
    account_of,
    account_page,
    cluster_named,
    flavor_named,
    flavor_page,
    named_flavor,
    user_named,
)
from clusters.services.configure import (
    create_flavor,
    remove_account,
    remove_cluster_flavor,
    set_account,
    set_cluster_flavor,
)
from tenancy.api.endpoint import (
    NUMBER,
    PAGING,
    TEXT,
    Endpoint,
    answer_creating,
    clock,
    fields_of,
    operation,
    page_after,
    page_of,
    page_response,
    user_of,
)
from tenancy.permissions import CanRead, IsAdmin
from tenancy.services.idempotency import Answer


def _takes(needed: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": [needed],
        "additionalProperties": False,
    }


class Flavors(Endpoint):
    """The catalogue of GPU models."""

    @operation(CanRead, "The GPU models", gives=page_of(FLAVOR), query=PAGING, name="list_flavors")
    def get(self, request: Request) -> Response:
        """With the clusters that have them."""
        page = page_after(request, str)
        after = page.after if isinstance(page.after, str) else None
        rows = flavor_page(after=after, limit=page.limit)
        return page_response(request, page, rows, flavor_document, lambda row: str(row.name))

    @operation(
        IsAdmin,
        "Add a GPU model",
        takes=_takes("name", name=TEXT, vendor=TEXT, memory_gb=NUMBER, bf16_tflops=NUMBER),
        gives=FLAVOR,
        status=201,
        creates=True,
        name="create_flavor",
    )
    def post(self, request: Request) -> Response:
        """A flavor keeps its name for ever: jobs, quotas and prices bear it."""
        body = fields_of(request, ("name", "vendor", "memory_gb", "bf16_tflops"))
        user = user_of(request)

        def act() -> Answer:
            flavor = create_flavor(actor=user, **{"name": "", **body}, now=clock())
            shown = Flavor.objects.prefetch_related("clusters__cluster").get(pk=flavor.pk)
            return Answer(201, flavor_document(shown))

        return answer_creating(request, "create_flavor", act)


class OneFlavor(Endpoint):
    """A GPU model on a cluster."""

    @operation(
        IsAdmin,
        "Name a GPU model on it",
        takes=_takes("device", device=TEXT, queue=TEXT),
        gives=NAMED_FLAVOR,
        name="set_cluster_flavor",
    )
    def put(self, request: Request, name: str, flavor: str) -> Response:
        """What it is called there (GRES type), and the queue that serves it ("" = the default)."""
        body = fields_of(request, ("device", "queue"))
        held = set_cluster_flavor(
            actor=user_of(request),
            cluster=cluster_named(name),
            flavor=flavor_named(flavor),
            device=body.get("device", ""),
            queue=body.get("queue", ""),
            now=clock(),
        )
        return Response(named_document(held))

    @operation(IsAdmin, "Take a GPU model off it", status=204, name="remove_cluster_flavor")
    def delete(self, request: Request, name: str, flavor: str) -> Response:
        """Nothing new of it goes there; what runs goes on."""
        held = named_flavor(cluster_named(name), flavor)
        remove_cluster_flavor(actor=user_of(request), held=held, now=clock())
        return Response(status=204)


class Accounts(Endpoint):
    """Who is who on a cluster."""

    @operation(
        IsAdmin, "Its accounts", gives=page_of(ACCOUNT), query=PAGING, name="list_cluster_accounts"
    )
    def get(self, request: Request, name: str) -> Response:
        """In order of the people's usernames."""
        page = page_after(request, str)
        after = page.after if isinstance(page.after, str) else None
        rows = account_page(cluster_named(name), after=after, limit=page.limit)
        return page_response(request, page, rows, account_document, lambda row: row.user.username)


class OneAccount(Endpoint):
    """A person on a cluster."""

    @operation(
        IsAdmin,
        "Map a person",
        takes=_takes("account", account=TEXT, home=TEXT),
        gives=ACCOUNT,
        name="set_cluster_account",
    )
    def put(self, request: Request, name: str, username: str) -> Response:
        """The UNIX account that the person's jobs run as there, and its home."""
        body = fields_of(request, ("account", "home", "run_as"))
        held = set_account(
            actor=user_of(request),
            cluster=cluster_named(name),
            user=user_named(username),
            account=body.get("account", ""),
            home=body.get("home", ""),
            run_as=body.get("run_as", ""),
            now=clock(),
        )
        return Response(account_document(held))

    @operation(IsAdmin, "Take a person off it", status=204, name="remove_cluster_account")
    def delete(self, request: Request, name: str, username: str) -> Response:
        """New jobs of theirs cannot go there; what is bound goes on."""
        held = account_of(cluster_named(name), username)
        remove_account(actor=user_of(request), held=held, now=clock())
        return Response(status=204)
