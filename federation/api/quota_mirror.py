"""REST: quotas as limits of a member cluster's own accounts: wanted, there, and set if asked."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from clusters.selectors.fleet import cluster_named
from federation.selectors.quota_sums import uses_now
from kit.errors import InvalidContentError
from quotas.core.mirror import MirrorLine
from quotas.services.mirror import Mirror, apply_mirror, look_at_mirror
from tenancy.api.endpoint import (
    NUMBER,
    TEXT,
    TRUTH,
    Endpoint,
    clock,
    component,
    document,
    fields_of,
    list_of,
    operation,
    or_null,
    user_of,
)
from tenancy.permissions import IsAdmin

GPUS = {**or_null(NUMBER), "description": "GPUs; null = no limit."}
MIRROR = component(
    "QuotaMirror",
    document(
        cluster=TEXT,
        can_apply={**TRUTH, "description": "Something differs, and Muster may set it."},
        obstacle=or_null(document(code=TEXT, detail=TEXT, fix=TEXT)),
        limits=list_of(
            document(
                account=TEXT,
                user={**or_null(TEXT), "description": "Null = the account's own limit."},
                resource=TEXT,
                there=GPUS,
                wanted=GPUS,
                drift={
                    **TEXT,
                    "description": "none, missing, differs, foreign, no_account, not_counted.",
                },
                holds_back={**TRUTH, "description": "It keeps from running what Muster may bind."},
                tenants=list_of(TEXT),
            )
        ),
        changes=list_of(
            document(
                account=TEXT,
                resource=TEXT,
                before=GPUS,
                after=NUMBER,
                outcome={**TEXT, "description": "would_set, by_hand, set, not_set."},
                detail=TEXT,
            )
        ),
        commands=list_of(document(account=TEXT, command=TEXT)),
        unnamed_tenants=list_of(TEXT),
        unknown_options=list_of(TEXT),
    ),
)
APPLY = {
    "type": "object",
    "properties": {"reason": TEXT, "dry_run": TRUTH},
    "additionalProperties": False,
}


class QuotaMirror(Endpoint):
    """Limits of a cluster's accounts."""

    @operation(
        IsAdmin, "Its accounts' limits beside quotas", gives=MIRROR, name="get_cluster_quota_mirror"
    )
    def get(self, request: Request, name: str) -> Response:
        """The limit that each account could hold without holding back Muster, and what is there.

        The cluster is asked at once. What Muster cannot set is told with the command that does.
        """
        found = look_at_mirror(cluster=cluster_named(name), uses=uses_now(), now=clock())
        return Response(mirror_document(found))

    @operation(
        IsAdmin,
        "Set its accounts' limits",
        takes=APPLY,
        gives=MIRROR,
        name="apply_cluster_quota_mirror",
    )
    def post(self, request: Request, name: str) -> Response:
        """Sets what differs, a limit at a time; with `dry_run` it only says what it would.

        Only limits on GPUs of the accounts named by options `charge.*` are touched, and none is
        taken away. `changes` tells what came of each.
        """
        body = fields_of(request, ("reason", "dry_run"))
        if not isinstance(body.get("dry_run", False), bool):
            raise InvalidContentError("dry_run is true or false.", pointer="/dry_run")
        reason = body.get("reason", "")
        if not isinstance(reason, str):
            raise InvalidContentError("reason is a text.", pointer="/reason")
        cluster, uses, now = cluster_named(name), uses_now(), clock()
        if body.get("dry_run", False):
            found = look_at_mirror(cluster=cluster, uses=uses, now=now)
        else:
            found = apply_mirror(
                actor=user_of(request), cluster=cluster, uses=uses, why=reason, now=now
            )
        return Response(mirror_document(found))


def mirror_document(found: Mirror) -> dict[str, Any]:
    """What is wanted, there, and done."""
    obstacle = found.obstacle
    return {
        "cluster": found.cluster.name,
        "can_apply": found.can_apply,
        "obstacle": obstacle
        and {"code": obstacle.code, "detail": obstacle.words, "fix": obstacle.fix},
        "limits": [_limit(line, found) for line in found.lines],
        "changes": [
            {
                "account": one.account,
                "resource": one.resource,
                "before": one.before,
                "after": one.after,
                "outcome": one.outcome.value,
                "detail": one.detail,
            }
            for one in found.changes
        ],
        "commands": [
            {"account": account, "command": command}
            for account, command in sorted(found.commands.items())
        ],
        "unnamed_tenants": list(found.unnamed),
        "unknown_options": list(found.strangers),
    }


def _limit(line: MirrorLine, found: Mirror) -> dict[str, Any]:
    return {
        "account": line.account,
        "user": line.user or None,
        "resource": line.resource,
        "there": line.there,
        "wanted": line.wanted,
        "drift": line.drift.value,
        "holds_back": line.holds_back,
        "tenants": sorted(found.paths[tenant] for tenant in line.tenants),
    }
