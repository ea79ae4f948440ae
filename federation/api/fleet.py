"""REST: one cluster by name, which leaves only when nothing of ours lives there."""

from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.documents import CLUSTER, admin_document
from clusters.api.members import OneCluster, read_why
from clusters.models import Cluster
from clusters.selectors.fleet import cluster_named, cluster_use
from federation.services.life import PLANS, leave_cluster
from kit.errors import InvalidContentError
from tenancy.api.endpoint import TEXT, clock, fields_of, operation, user_of
from tenancy.permissions import IsAdmin

LEAVE = {
    "type": "object",
    "properties": {"plan": {"type": "string", "enum": list(PLANS)}, "why": TEXT},
    "additionalProperties": False,
}


class Member(OneCluster):
    """One cluster."""

    @operation(
        IsAdmin, "Let it leave", takes=LEAVE, gives=CLUSTER, status=202, name="remove_cluster"
    )
    def delete(self, request: Request, name: str) -> Response:
        """204 when it is gone; 202 while the attempts there are being cancelled (plan `cancel`).

        Without a plan it is refused while attempts live there. `forget` ends them unseen and holds
        their jobs for their owners.
        """
        body, user = fields_of(request, ("plan", "why")), user_of(request)
        plan = body.get("plan")
        if plan is not None and not isinstance(plan, str):
            raise InvalidContentError("plan is a word.", pointer="/plan")
        why = read_why(body)
        left = leave_cluster(
            actor=user, cluster=cluster_named(name), plan=plan, why=why, now=clock()
        )
        if left.state == Cluster.State.GONE:
            return Response(status=204)
        return Response(admin_document(cluster_use(user, name)), status=202)
