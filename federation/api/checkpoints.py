"""REST: a job proves its checkpoints, with a token that is good for nothing else."""

from typing import Any, cast
from uuid import UUID

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.request import Request
from rest_framework.response import Response

from federation.api.documents import SAVED, saved_document
from federation.core.proof import parse_proof, proof_schema
from federation.services.checkpoint import prove_checkpoint
from kit.errors import InvalidContentError
from tenancy.api.endpoint import Endpoint, Schema, body_of, clock, component, operation
from tenancy.permissions import (
    BrowserAuthentication,
    IsJob,
    JobAuthentication,
    JobCaller,
    TokenAuthentication,
)
from tenancy.services.limits import charge_job, refuse_throttled

PROOF = component("CheckpointProof", proof_schema())


class Proofs(Endpoint):
    """The checkpoints of a job."""

    authentication_classes = (JobAuthentication, TokenAuthentication, BrowserAuthentication)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """As for everybody; each attempt has a bucket of its own."""
        super().initial(request, *args, **kwargs)
        self.verdict = charge_job(fence=cast("JobCaller", request.auth).fence)
        refuse_throttled(self.verdict)

    @operation(IsJob, "Prove a checkpoint", takes=PROOF, gives=SAVED, name="prove_checkpoint")
    def post(self, request: Request, job_id: UUID) -> Response:
        """For the job itself, with its `MUSTER_JOB_TOKEN`. What stands proven then: a step that is
        not beyond the last one changes nothing.
        """
        proof = parse_proof(body_of(request))
        if isinstance(proof, tuple):
            raise InvalidContentError("This proves no checkpoint.", errors=proof)
        caller = cast("JobCaller", request.auth)  # so says the permission
        attempt = prove_checkpoint(
            job_id=job_id, fence=caller.fence, step=proof.step, path=proof.path, now=clock()
        )
        return Response(saved_document(attempt))


class JobScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document describes the tokens of jobs."""

    target_class = "tenancy.permissions.JobAuthentication"
    name = "job"

    def get_security_definition(self, auto_schema: Any) -> Schema:
        """RFC 6750, the token being the job's own."""
        return {"type": "http", "scheme": "bearer", "description": "MUSTER_JOB_TOKEN of a job."}
