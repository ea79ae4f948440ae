"""REST: jobs from files that other systems' users have already, as they are."""

from collections.abc import Callable, Iterator, Mapping
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
from federation.intake.place import Place, listed
from federation.intake.sbatch import (
    Script,
    job_of,
    read_sbatch,
    tenant_of_account,
)
from federation.intake.vcjob import read_vcjob, vcjob_of
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
_PLAIN = ("text/plain", "application/octet-stream")
_YAML = ("application/yaml", "application/x-yaml", "text/yaml", "application/json")
_CHOICES = (
    Query(
        "flavor",
        "Acceptable GPU models, best first; without it, all that the tenant has quota for.",
        many=True,
    ),
    Query("dry_run", "Only show the job that it would become.", TRUTH),
)
_SBATCH_QUERY = (
    Query("tenant", "The tenant's path; without it `--account` names the tenant."),
    *_CHOICES,
)
_VCJOB_QUERY = (
    Query("tenant", "The tenant's path; without it the only one that you may submit to."),
    *_CHOICES,
)
_RESPONSES = {
    200: OpenApiResponse(INTAKE_DRY_RUN, description="With `dry_run`; nothing is written."),
    201: OpenApiResponse(INTAKE_JOB, description="The job was taken."),
    ("4XX", "application/problem+json"): OpenApiResponse(PROBLEM),
}
_BODY = {
    "text/plain": TEXT,
    "application/octet-stream": {"type": "string", "format": "binary"},
}


class FileParser(BaseParser):
    """A file as the body: UTF-8 text under a media type that says no more than that.

    Gives the text with the query string: under one `Idempotency-Key` both must be the same.
    """

    media_type = "*/*"
    media: tuple[str, ...] = _PLAIN
    what, name = "script", "job.sh"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, str]:
        """`{"text", "query"}`.

        Raises:
            UnsupportedMediaTypeError: it is sent as something else.
            BodyTooLargeError: more than 4 MiB; files of more than 1 MiB are told later.
            InvalidContentError: it is not UTF-8; names the line.
        """
        if (media_type or "").partition(";")[0].strip().lower() not in self.media:
            raise UnsupportedMediaTypeError(
                f"Send the {self.what} itself as {self.media[0]}, as curl does with "
                f"-H 'Content-Type: {self.media[0]}' --data-binary @{self.name}."
            )
        raw = stream.read(MAX_BODY_BYTES + 1)
        if len(raw) > MAX_BODY_BYTES:
            raise BodyTooLargeError(f"The body may have at most {MAX_BODY_BYTES} bytes.")
        query = (parser_context or {})["request"].META.get("QUERY_STRING", "")
        return {"text": _decoded(raw, self.what), "query": query}


class YamlParser(FileParser):
    """A Volcano Job as the body; JSON is YAML, too."""

    media = (*_PLAIN, *_YAML)
    what, name = "file", "job.yaml"


def _decoded(raw: bytes, what: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = FieldProblem(f"/lines/{line}", "not_utf8", f"line {line}: it is not UTF-8.")
        raise InvalidContentError(f"The {what} is not UTF-8.", errors=[problem]) from None


class Sbatch(Endpoint):
    """An sbatch script as a job."""

    parser_classes = (FileParser,)

    @extend_schema(request=_BODY, responses=_RESPONSES)
    @operation(
        CanSubmit,
        "Submit an sbatch script as it is",
        gives=INTAKE_JOB,
        status=201,
        query=_SBATCH_QUERY,
        creates=True,
        name="submit_sbatch",
    )
    def post(self, request: Request) -> Response:
        """The script is the body. Every option is mapped, carried, told as dropped, or refused."""
        return _submit(request, "sbatch", _job_of_script)


class VolcanoJob(Endpoint):
    """A Volcano Job as a job."""

    parser_classes = (YamlParser,)

    @extend_schema(
        request={**_BODY, "application/yaml": TEXT, "application/json": {"type": "object"}},
        responses=_RESPONSES,
    )
    @operation(
        CanSubmit,
        "Submit a Volcano Job as it is",
        gives=INTAKE_JOB,
        status=201,
        query=_VCJOB_QUERY,
        creates=True,
        name="submit_vcjob",
    )
    def post(self, request: Request) -> Response:
        """The YAML file is the body. Every field is mapped, carried, told as dropped, or refused."""
        return _submit(request, "vcjob", _job_of_file)


def _submit(
    request: Request, kind: str, reader: Callable[[Request, User, datetime], ForeignJob]
) -> Response:
    """The job that a file of a kind asks for, taken or only shown."""
    route = f"POST /jobs/intake/{kind}"
    is_rehearsal = _is_dry_run(request)
    kept = None if is_rehearsal else answer_kept(request, route)
    if kept is not None:
        return _located(request, kept, kind)
    user, now = user_of(request), clock()
    made = reader(request, user, now)
    if is_rehearsal:
        with _telling_lines(made):
            rehearse_jobs(user=user, specs=[made.spec], now=now)
        return Response({"job": made.body, **_remarks(made)})

    def act() -> Answer:
        with _telling_lines(made):
            taken = submit_jobs(user=user, specs=[made.spec], now=now)
        (job,) = new_documents(taken)
        return Answer(201, {**job, "intake": _remarks(made)})

    return _located(request, answer_creating(request, route, act), kind)


def _is_dry_run(request: Request) -> bool:
    given = request.query_params.getlist("dry_run") or ["false"]
    if given not in (["true"], ["false"]):
        raise wrong_parameter("dry_run", "dry_run is true or false, given once.")
    return given == ["true"]


def _located(request: Request, response: Response, kind: str) -> Response:
    """The answer, saying where the job is."""
    jobs = request.path.removesuffix(f"/intake/{kind}")
    response["Location"] = f"{jobs}/{response.data['id']}"
    return response


def _job_of_script(request: Request, user: User, now: datetime) -> ForeignJob:
    """The job that the script and the query parameters make.

    Raises:
        InvalidContentError: names every line and parameter that is wrong.
        PermissionDeniedError: the caller sees the tenant, but may not submit there.
    """
    script = read_sbatch(body_of(request).get("text", ""))
    place = _place(request, _tenant_of_script(request, script, user), now)
    return _whole(job_of(script, place), "script")


def _job_of_file(request: Request, user: User, now: datetime) -> ForeignJob:
    """The job that the Volcano Job and the query parameters make; raises as for scripts."""
    document = read_vcjob(body_of(request).get("text", ""))
    named = request.query_params.get("tenant")
    if named is None:
        paths = submit_paths(user)
        named = paths[0] if len(paths) == 1 else None
    if named is None:
        there = f" You may submit to {listed(paths)}." if paths else " You may submit nowhere."
        detail = f"Say which tenant: ?tenant=.{there}"
        place = _place(request, FieldProblem("?tenant", "no_tenant", detail), now)
    else:
        place = _place(request, _tenant(named, user), now)
    return _whole(vcjob_of(document, place), "file")


def _place(request: Request, tenant: Tenant | FieldProblem, now: datetime) -> Place:
    return Place(
        tenant.path if isinstance(tenant, Tenant) else tenant,
        now,
        is_named="tenant" in request.query_params,
        asked=many(request, "flavor"),
        entitled=entitled_flavors(tenant, now) if isinstance(tenant, Tenant) else (),
        models=gpu_models(),
    )


def _whole(made: ForeignJob | tuple[FieldProblem, ...], what: str) -> ForeignJob:
    if isinstance(made, tuple):
        raise InvalidContentError(f"The {what} cannot be taken as it is.", errors=made)
    return made


def _tenant_of_script(request: Request, script: Script, user: User) -> Tenant | FieldProblem:
    """The tenant of `?tenant=`, else of `--account`, where the user may submit."""
    named = request.query_params.get("tenant")
    if named is not None:
        return _tenant(named, user)
    account = script.account
    found = tenants_called(user, account.text.lower()) if account else []
    path = tenant_of_account(account, found, submit_paths(user))
    return path if isinstance(path, FieldProblem) else _tenant(path, user)


def _tenant(path: str, user: User) -> Tenant | FieldProblem:
    tenant = submit_tenant(user, path)
    if tenant is None:
        return FieldProblem("?tenant", "unknown_tenant", f"There is no tenant {path}.")
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
