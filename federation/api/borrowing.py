"""REST: who borrows what from whom, and who would be evicted first if the owner came."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from federation.selectors.borrowing import FlavorBorrowing, borrowing
from federation.selectors.quota_sums import Victim, standing
from kit.intervals import iso
from kit.money import gpu_time
from tenancy.api.endpoint import (
    MOMENT,
    NUMBER,
    TEXT,
    UUID_TEXT,
    Endpoint,
    Query,
    clock,
    component,
    document,
    list_of,
    many,
    operation,
    or_null,
    page_of,
    user_of,
)
from tenancy.permissions import CanRead
from tenancy.selectors.access import visible_tenant_ids

NAME = {**or_null(TEXT), "description": "A path; null = all tenants that you may not see."}
BORROWING = component(
    "Borrowing",
    document(
        flavor=TEXT,
        capacity={**NUMBER, "description": "GPUs that the clusters have."},
        guaranteed={**NUMBER, "description": "GPUs that topmost tenants are guaranteed now."},
        overcommitted=NUMBER,
        borrowers=list_of(
            document(
                tenant=NAME,
                spot=NUMBER,
                own={**NUMBER, "description": "Out of its own idle guarantee."},
                unowned={**NUMBER, "description": "Out of what nobody is guaranteed."},
                borrowed=NUMBER,
                lenders=list_of(document(tenant=NAME, gpus=NUMBER)),
            )
        ),
        lenders=list_of(document(tenant=NAME, idle=NUMBER, lent=NUMBER)),
        victims=list_of(
            document(
                place={**NUMBER, "description": "From 1, among all spot gangs of the flavor."},
                job=UUID_TEXT,
                name=TEXT,
                tenant=TEXT,
                cluster=TEXT,
                gpus=NUMBER,
                lost_gpu_ms={**NUMBER, "description": "Since its newest checkpoint, or start."},
                lost_gpu_hours=TEXT,
                saved_at=or_null(MOMENT),
            )
        ),
        victims_in_all=NUMBER,
    ),
)


class Borrowing(Endpoint):
    """Who borrows from whom."""

    @operation(
        CanRead,
        "Who borrows what from whom",
        gives=page_of(BORROWING),
        query=(Query("flavor", "Only these GPU models.", many=True),),
        name="list_borrowing",
    )
    def get(self, request: Request) -> Response:
        """By GPU model, all on one page. Sums add up: what is borrowed is lent.

        `victims` are running spot gangs, the one that would be evicted first ahead: least work
        lost. Other tenants' are counted, not named.
        """
        flavors = many(request, "flavor")
        found = borrowing(standing(clock()), visible_tenant_ids(user_of(request)))
        items = [
            borrowing_document(one) for one in found if not flavors or one.sums.flavor in flavors
        ]
        return Response({"items": items, "next": None})


def borrowing_document(found: FlavorBorrowing) -> dict[str, Any]:
    """One flavor."""
    return {
        "flavor": found.sums.flavor,
        "capacity": found.sums.capacity.gpus,
        "guaranteed": found.sums.guaranteed,
        "overcommitted": found.sums.overcommitted,
        "borrowers": [
            {
                "tenant": one.tenant,
                "spot": one.spot,
                "own": one.own,
                "unowned": one.unowned,
                "borrowed": one.borrowed,
                "lenders": [
                    {"tenant": tenant, "gpus": gpus} for tenant, gpus in one.lenders.items()
                ],
            }
            for one in found.borrowers
        ],
        "lenders": [
            {"tenant": one.tenant, "idle": one.idle, "lent": one.lent} for one in found.lenders
        ],
        "victims": [_victim(one.place, one.tenant, one.gang) for one in found.victims],
        "victims_in_all": found.victims_in_all,
    }


def _victim(place: int, tenant: str, gang: Victim) -> dict[str, Any]:
    lost = gpu_time(gang.lost_gpu_ms)
    return {
        "place": place,
        "job": str(gang.job),
        "name": gang.name,
        "tenant": tenant,
        "cluster": gang.cluster,
        "gpus": gang.gpus,
        "lost_gpu_ms": lost["gpu_ms"],
        "lost_gpu_hours": lost["gpu_hours"],
        "saved_at": iso(gang.saved_at),
    }
