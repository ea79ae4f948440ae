"""REST: jobs from files that other systems' users have already, as they are."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from federation.api.documents import JOB, JOB_BODY
from federation.api.jobs import new_documents
from federation.intake.job import ForeignJob
from federation.intake.place import Place
from federation.intake.sbatch import (
    Script,
    job_of,
    read_sbatch,
    tenant_of_account,
)
from federation.selectors.intake import (
    entitled_flavors,
    gpu_models,
    submit_paths,
    submit_tenant,
    tenants_called,
)
from federation.services.rehearse import rehearse_jobs
from federation.services.submit import submit_jobs
from kit.errors import (
    BodyTooLargeError,
    FieldProblem,
    InvalidContentError,
    UnsupportedMediaTypeError,
)
from kit.problem import MAX_BODY_BYTES
from tenancy.api.endpoint import (
    NUMBER,
    PROBLEM,
    TEXT,
    TRUTH,
    Endpoint,
    Query,
    answer_creating,
    answer_kept,
    body_of,
    clock,
    component,
    document,
    list_of,
    many,
    operation,
    or_null,
    user_of,
    wrong_parameter,
)
from tenancy.models import Tenant, User
from tenancy.permissions import CanSubmit
from tenancy.services.idempotency import Answer

_REMARK = component(
    "IntakeRemark", document(code=TEXT, line=NUMBER, option=or_null(TEXT), detail=TEXT)
)
_REMARKS = {"warnings": list_of(_REMARK), "dropped": list_of(_REMARK)}
INTAKE_DRY_RUN = component("IntakeDryRun", document(job=JOB_BODY, **_REMARKS))
INTAKE_JOB = component(
    "IntakeJob",
    {"allOf": [JOB, {"type": "object", "properties": {"intake": document(**_REMARKS)}}]},
)
_ROUTE = "POST /jobs/intake/sbatch"
_MEDIA = ("text/plain", "application/octet-stream")
_QUERY = (
    Query("tenant", "The tenant's path; without it `--account` names the tenant."),
    Query(
        "flavor",
        "Acceptable GPU models, best first; without it, all that the tenant has quota for.",
        many=True,
    ),
    Query("dry_run", "Only show the job that it would become.", TRUTH),
)
_described = extend_schema(
    request={
        "text/plain": TEXT,
        "application/octet-stream": {"type": "string", "format": "binary"},
    },
    responses={
        200: OpenApiResponse(INTAKE_DRY_RUN, description="With `dry_run`; nothing is written."),
        201: OpenApiResponse(INTAKE_JOB, description="The job was taken."),
        ("4XX", "application/problem+json"): OpenApiResponse(PROBLEM),
    },
)


class ScriptParser(BaseParser):
    """A script as the body: UTF-8 text under a media type that says no more than that.

    Gives the text with the query string: under one `Idempotency-Key` both must be the same.
    """

    media_type = "*/*"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, str]:
        """`{"text", "query"}`.

        Raises:
            UnsupportedMediaTypeError: it is sent as something else.
            BodyTooLargeError: more than 4 MiB; scripts of more than 1 MiB are told later.
            InvalidContentError: it is not UTF-8; names the line.
        """
        if (media_type or "").partition(";")[0].strip().lower() not in _MEDIA:
            raise UnsupportedMediaTypeError(
                "Send the script itself as text/plain, as curl does with "
                "-H 'Content-Type: text/plain' --data-binary @job.sh."
            )
        raw = stream.read(MAX_BODY_BYTES + 1)
        if len(raw) > MAX_BODY_BYTES:
            raise BodyTooLargeError(f"The body may have at most {MAX_BODY_BYTES} bytes.")
        query = (parser_context or {})["request"].META.get("QUERY_STRING", "")
        return {"text": _decoded(raw), "query": query}


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = FieldProblem(f"/lines/{line}", "not_utf8", f"line {line}: it is not UTF-8.")
        raise InvalidContentError("The script is not UTF-8.", errors=[problem]) from None


class Sbatch(Endpoint):
    """An sbatch script as a job."""

    parser_classes = (ScriptParser,)

    @_described
    @operation(
        CanSubmit,
        "Submit an sbatch script as it is",
        gives=INTAKE_JOB,
        status=201,
        query=_QUERY,
        creates=True,
        name="submit_sbatch",
    )
    def post(self, request: Request) -> Response:
        """The script is the body. Every option is mapped, carried, told as dropped, or refused."""
        is_rehearsal = _is_dry_run(request)
        kept = None if is_rehearsal else answer_kept(request, _ROUTE)
        if kept is not None:
            return _located(request, kept)
        user, now = user_of(request), clock()
        made = _job_of_request(request, user, now)
        if is_rehearsal:
            with _telling_lines(made):
                rehearse_jobs(user=user, specs=[made.spec], now=now)
            return Response({"job": made.body, **_remarks(made)})

        def act() -> Answer:
            with _telling_lines(made):
                taken = submit_jobs(user=user, specs=[made.spec], now=now)
            (job,) = new_documents(taken)
            return Answer(201, {**job, "intake": _remarks(made)})

        return _located(request, answer_creating(request, _ROUTE, act))


def _is_dry_run(request: Request) -> bool:
    given = request.query_params.get("dry_run", "false")
    if given not in ("true", "false"):
        raise wrong_parameter("dry_run", "dry_run is true or false.")
    return given == "true"


def _located(request: Request, response: Response) -> Response:
    """The answer, saying where the job is."""
    jobs = request.path.removesuffix("/intake/sbatch")
    response["Location"] = f"{jobs}/{response.data['id']}"
    return response


def _job_of_request(request: Request, user: User, now: datetime) -> ForeignJob:
    """The job that the script and the query parameters make.

    Raises:
        InvalidContentError: names every line and parameter that is wrong.
        PermissionDeniedError: the caller sees the tenant, but may not submit there.
    """
    asked = many(request, "flavor")
    script = read_sbatch(body_of(request).get("text", ""))
    named = request.query_params.get("tenant")
    tenant = _tenant(named, script, user)
    place = Place(
        tenant.path if isinstance(tenant, Tenant) else tenant,
        now,
        is_named=named is not None,
        asked=asked,
        entitled=entitled_flavors(tenant, now) if isinstance(tenant, Tenant) else (),
        models=gpu_models(),
    )
    made = job_of(script, place)
    if isinstance(made, tuple):
        raise InvalidContentError("The script cannot be taken as it is.", errors=made)
    return made


def _tenant(asked: str | None, script: Script, user: User) -> Tenant | FieldProblem:
    """The tenant of `?tenant=`, else of `--account`, where the user may submit."""
    if asked is None:
        account = script.account
        found = tenants_called(user, account.text.lower()) if account else []
        path = tenant_of_account(account, found, submit_paths(user))
        if isinstance(path, FieldProblem):
            return path
        asked = path
    tenant = submit_tenant(user, asked)
    if tenant is None:
        return FieldProblem("?tenant", "unknown_tenant", f"There is no tenant {asked}.")
    return tenant


@contextmanager
def _telling_lines(made: ForeignJob) -> Iterator[None]:
    """What is found wrong with the job itself is told at the lines that it came from."""
    try:
        yield
    except InvalidContentError as error:
        told = [made.told(problem) for problem in error.errors]
        raise InvalidContentError(error.detail, errors=told) from error


def _remarks(made: ForeignJob) -> dict[str, Any]:
    return {
        "warnings": [remark.to_json() for remark in made.warnings],
        "dropped": [remark.to_json() for remark in made.dropped],
    }
