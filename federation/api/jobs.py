"""REST: submit, read and change jobs."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from accounting.core.costs import JobCost, render_job_cost, worst_case
from accounting.selectors.costs import job_costs
from accounting.selectors.prices import DEFAULT_CURRENCY
from federation.api.documents import (
    ANY,
    ATTEMPT,
    EVENT,
    JOB,
    JOB_BODY,
    REASON,
    attempt_document,
    event_document,
    job_document,
    reasons_of,
)
from federation.core.lifecycle import JobState
from federation.core.spec import CLASSES, JobSpec, change_schema, parse_spec
from federation.models import Attempt, Job
from federation.selectors.ahead import usage_ahead
from federation.selectors.jobs import (
    JobFilter,
    attempts_of,
    events_of,
    job_page,
    last_attempts,
    last_proofs,
    positions,
    visible_job,
)
from federation.services.change import (
    cancel_job,
    change_job,
    checkpoint_job,
    hold_job,
    release_job,
)
from federation.services.submit import MOST_JOBS, MOST_PROBLEMS, Taken, submit_jobs
from kit.errors import FieldProblem, InvalidContentError
from tenancy.api.endpoint import (
    NUMBER,
    PAGING,
    TEXT,
    UUID_TEXT,
    Endpoint,
    Query,
    answer_creating,
    body_of,
    clock,
    component,
    document,
    etag,
    expected_version,
    fields_of,
    list_of,
    many,
    operation,
    or_null,
    page_after,
    page_of,
    page_response,
    user_of,
    wrong_parameter,
)
from tenancy.permissions import CanRead, CanSubmit
from tenancy.services.idempotency import Answer

STATES = tuple(state.value for state in JobState)
ORDERINGS = ("-id", "id")
BATCH = component(
    "JobBatch",
    {
        "type": "object",
        "properties": {
            "jobs": {"type": "array", "items": JOB_BODY, "minItems": 1, "maxItems": MOST_JOBS}
        },
        "required": ["jobs"],
        "additionalProperties": False,
    },
)
CHANGE = component("JobChange", change_schema())
EXPLANATION = component(
    "Explanation",
    document(id=UUID_TEXT, state=TEXT, position=or_null(NUMBER), reasons=list_of(REASON)),
)
FILTERS = (
    Query("state", "Any of these states.", {"type": "string", "enum": list(STATES)}, many=True),
    Query("tenant", "Of these tenants (paths) and what is below them.", many=True),
    Query("user", "Of these people, by username.", many=True),
    Query("class", "Asked as any of these.", {"type": "string", "enum": [*CLASSES]}, many=True),
    Query("cluster", "Tried on any of these clusters.", many=True),
    Query("label", "With this label, as name=value; several must all hold.", many=True),
    Query("ordering", "Newest (-id) or oldest (id) first.", {"enum": list(ORDERINGS)}),
)


class Jobs(Endpoint):
    """All jobs that the caller may see."""

    @operation(
        CanRead, "List jobs", gives=page_of(JOB), query=(*PAGING, *FILTERS), name="list_jobs"
    )
    def get(self, request: Request) -> Response:
        """Newest first, without `run` and `environment`."""
        page = page_after(request, int)
        ordering = request.query_params.get("ordering", ORDERINGS[0])
        if ordering not in ORDERINGS:
            raise wrong_parameter("ordering", f"ordering is one of {', '.join(ORDERINGS)}.")
        rows = job_page(
            user_of(request),
            _filter(request),
            after=page.after if isinstance(page.after, int) else None,
            limit=page.limit,
            newest_first=ordering == ORDERINGS[0],
        )
        shown = iter(_documents(rows[: page.limit]))
        return page_response(request, page, rows, lambda _: next(shown), lambda job: int(job.id))

    @operation(
        CanSubmit,
        "Submit a job",
        takes=JOB_BODY,
        gives=JOB,
        status=201,
        creates=True,
        name="submit_job",
    )
    def post(self, request: Request) -> Response:
        """Everything that is wrong with it is told at once; what can never run is refused."""
        spec = parse_spec(body_of(request))
        if isinstance(spec, tuple):
            raise InvalidContentError("The job is not valid.", errors=spec)
        user = user_of(request)

        def act() -> Answer:
            return Answer(201, new_documents(submit_jobs(user=user, specs=[spec], now=clock()))[0])

        response = answer_creating(request, "POST /jobs", act)
        response["Location"] = f"{request.path}/{response.data['id']}"
        return response


class Batch(Endpoint):
    """Many jobs at once."""

    @operation(
        CanSubmit,
        "Submit up to 1000 jobs, all or none",
        takes=BATCH,
        gives=document(jobs=list_of(JOB)),
        status=201,
        creates=True,
        name="submit_batch",
    )
    def post(self, request: Request) -> Response:
        """One bad job refuses them all; pointers begin with `/jobs/<number>`."""
        specs = _batch(fields_of(request, ("jobs",)).get("jobs"))
        user = user_of(request)

        def act() -> Answer:
            taken = submit_jobs(user=user, specs=specs, now=clock(), is_batch=True)
            return Answer(201, {"jobs": new_documents(taken)})

        return answer_creating(request, "POST /jobs/batch", act)


class OneJob(Endpoint):
    """One job."""

    @operation(CanRead, "Read a job", gives=JOB, name="get_job")
    def get(self, request: Request, job_id: UUID) -> Response:
        """With its whole body."""
        return _answer(visible_job(user_of(request), job_id))

    @operation(CanSubmit, "Change a job", takes=CHANGE, gives=JOB, matches=True, name="change_job")
    def patch(self, request: Request, job_id: UUID) -> Response:
        """While it waits: time limit, priority, class, flavors, labels. Later: labels."""
        job = change_job(
            user=user_of(request),
            job_id=job_id,
            body=body_of(request),
            expected_version=expected_version(request),
            now=clock(),
        )
        return _answer(job)


class Cancel(Endpoint):
    """The end of a job."""

    @operation(CanSubmit, "Cancel a job", gives=JOB, name="cancel_job")
    def post(self, request: Request, job_id: UUID) -> Response:
        """At once while it waits; else it is `stopping` until its cluster has let it go."""
        fields_of(request, ())
        return _answer(cancel_job(user=user_of(request), job_id=job_id, now=clock()))


class Hold(Endpoint):
    """A job kept from starting."""

    @operation(CanSubmit, "Hold a job", gives=JOB, name="hold_job")
    def post(self, request: Request, job_id: UUID) -> Response:
        """A bound job is stopped first and held then."""
        fields_of(request, ())
        return _answer(hold_job(user=user_of(request), job_id=job_id, now=clock()))


class Release(Endpoint):
    """A held job let go."""

    @operation(CanSubmit, "Release a held job", gives=JOB, name="release_job")
    def post(self, request: Request, job_id: UUID) -> Response:
        """It waits in the queue again. What an admin holds, only an admin releases."""
        fields_of(request, ())
        return _answer(release_job(user=user_of(request), job_id=job_id, now=clock()))


class Checkpoint(Endpoint):
    """A running job that is to save."""

    @operation(CanSubmit, "Have a job save a checkpoint now", gives=JOB, name="checkpoint_job")
    def post(self, request: Request, job_id: UUID) -> Response:
        """Its `checkpoint.signal` is sent to it; what it saved shows in `checkpoint_saved`."""
        fields_of(request, ())
        return _answer(checkpoint_job(user=user_of(request), job_id=job_id, now=clock()))


class Events(Endpoint):
    """What happened to a job."""

    @operation(CanRead, "Its events", gives=page_of(EVENT), query=PAGING, name="list_job_events")
    def get(self, request: Request, job_id: UUID) -> Response:
        """Oldest first; every change of state with its cause."""
        page = page_after(request, int)
        job = visible_job(user_of(request), job_id)
        after = page.after if isinstance(page.after, int) else None
        rows = events_of(job, after=after, limit=page.limit)
        return page_response(request, page, rows, event_document, lambda event: int(event.id))


class Attempts(Endpoint):
    """The attempts of a job."""

    @operation(CanRead, "Its attempts", gives=page_of(ATTEMPT), name="list_attempts")
    def get(self, request: Request, job_id: UUID) -> Response:
        """The first first, all on one page."""
        rows = attempts_of(visible_job(user_of(request), job_id))
        return Response({"items": [attempt_document(row) for row in rows], "next": None})


class Explanation(Endpoint):
    """Why a job waits."""

    @operation(CanRead, "Why it waits", gives=EXPLANATION, name="explain_job")
    def get(self, request: Request, job_id: UUID) -> Response:
        """A reason for every cluster and flavor it could go to, each with what would help."""
        job = visible_job(user_of(request), job_id)
        return Response(
            {
                "id": str(job.uuid),
                "state": job.state,
                "position": positions([job.id]).get(job.id),
                "reasons": reasons_of(job, last_attempts([job.id]).get(job.id)),
            }
        )


class Costs(Endpoint):
    """What a job costs."""

    @operation(CanRead, "Its costs", gives=ANY, name="get_job_costs")
    def get(self, request: Request, job_id: UUID) -> Response:
        """So far, interval by interval and by class, what of it is in the ledger."""
        job = visible_job(user_of(request), job_id)
        now = clock()
        ahead = {job.uuid: usage_ahead(job, last_attempts([job.id]).get(job.id), now)}
        cost = job_costs(job_ids=[job.uuid], now=now, ahead=ahead)[job.uuid]
        return Response({"id": str(job.uuid), **render_job_cost(cost)})


def _answer(job: Job) -> Response:
    return Response(_documents([job])[0], headers={"ETag": etag(job.version)})


def _documents(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Jobs with their newest attempt, place and cost. 6 queries at most, whatever their number."""
    attempts = last_attempts(job.id for job in jobs)
    places = positions([job.id for job in jobs if job.state == JobState.QUEUED])
    return _rendered(jobs, attempts, places)


def _rendered(
    jobs: Sequence[Job], attempts: Mapping[int, Attempt], places: Mapping[int, int]
) -> list[dict[str, Any]]:
    now = clock()
    ahead = {job.uuid: usage_ahead(job, attempts.get(job.id), now) for job in jobs}
    costs = job_costs(job_ids=[job.uuid for job in jobs], now=now, ahead=ahead)
    proofs = last_proofs(jobs, attempts)
    return [
        job_document(
            job,
            attempt=attempts.get(job.id),
            position=places.get(job.id),
            cost=costs[job.uuid],
            proof=proofs.get(job.id),
        )
        for job in jobs
    ]


def new_documents(taken: Taken) -> list[dict[str, Any]]:
    """Jobs that were queued just now: nothing was tried, ranked or used yet. No query.

    Equal asks of one tenant have one worst case.
    """
    now = clock()
    currency = taken.book.currency or DEFAULT_CURRENCY
    known: dict[tuple[object, ...], JobCost] = {}
    documents = []
    for job in taken.jobs:
        key = (job.tenant_id, job.wanted_class, job.time_limit_ms, str(job.options))
        if key not in known:
            worst = worst_case(usage_ahead(job, None, now), taken.book)
            known[key] = JobCost(currency, worst_case_nano=worst)
        documents.append(job_document(job, attempt=None, position=None, cost=known[key]))
    return documents


def _batch(bodies: object) -> list[JobSpec]:
    """The specs of a batch.

    Raises:
        InvalidContentError: names every field of every job that is wrong.
    """
    if not isinstance(bodies, list) or not 1 <= len(bodies) <= MOST_JOBS:
        raise InvalidContentError(f"Give a list of 1 to {MOST_JOBS} jobs.", pointer="/jobs")
    specs: list[JobSpec] = []
    problems: list[FieldProblem] = []
    for number, body in enumerate(bodies):
        spec = parse_spec(body, f"/jobs/{number}")
        if isinstance(spec, JobSpec):
            specs.append(spec)
        else:
            problems.extend(spec)
        if len(problems) >= MOST_PROBLEMS:
            break
    if problems:
        raise InvalidContentError(
            "The batch is not valid; none of it was taken.", errors=problems[:MOST_PROBLEMS]
        )
    return specs


def _filter(request: Request) -> JobFilter:
    labels = []
    for label in many(request, "label"):
        name, separator, value = label.partition("=")
        if not separator:
            raise wrong_parameter("label", "label has the form name=value.")
        labels.append((name, value))
    return JobFilter(
        states=many(request, "state", STATES),
        tenants=many(request, "tenant"),
        users=many(request, "user"),
        classes=many(request, "class", CLASSES),
        clusters=many(request, "cluster"),
        labels=tuple(labels),
    )
