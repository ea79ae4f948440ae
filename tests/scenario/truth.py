"""What must hold at every step, and what must hold when all is quiet (DESIGN §4: 1, 2, 10, 11).

The simulators are asked past Muster, in memory: their books and their nodes are the truth.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from uuid import UUID

from django.db.models import F, Sum

from accounting.models import Transfer, UsageInterval, UsageRecord
from accounting.selectors.ledger import verify_ledger
from clusters.models import Command, Node
from clusters.selectors.traffic import OPEN
from federation.core.lifecycle import JobState
from federation.models import Attempt, Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from simulator.engine.model import State
from tests.scenario.house import House
from tests.scenario.lab import Simulated

Span = tuple[int, int | None]


def check_step(house: House) -> None:
    """What holds at every moment, however many processes died and whatever a cluster did."""
    _no_node_is_promised_twice()
    clusters = house.laboratory.clusters.values()
    for cluster in clusters:
        _one_object_counts(cluster)
    _one_run_a_job(clusters)
    _whole_where_it_is_bound(house)
    _nothing_billed_that_did_not_run(true_spans(clusters))


def _no_node_is_promised_twice() -> None:
    """Invariant 1: what is bound on a node is not more than it has."""
    promised: Counter[tuple[UUID, str]] = Counter()
    for attempt in OPEN_ATTEMPTS.all():
        for name in attempt.nodes:
            promised[attempt.cluster_id, name] += attempt.gpus_per_node
    sizes = {(node.cluster_id, node.name): node.gpus for node in Node.objects.all()}
    over = {place: gpus for place, gpus in promised.items() if gpus > sizes.get(place, gpus)}
    assert not over, f"promised more GPUs than there are: {over}"


def _one_object_counts(cluster: Simulated) -> None:
    """Invariant 10: of all objects under one fence at most one is not held."""
    free = Counter(job.request.name for job in cluster.living() if job.priority > 0)
    doubled = {fence: count for fence, count in free.items() if count > 1}
    assert not doubled, f"{cluster.name}: more than one object may run: {doubled}"


def _one_run_a_job(clusters: Iterable[Simulated]) -> None:
    """Invariant 10: a job holds nodes once, over all its attempts and all clusters."""
    holding: Counter[str] = Counter()
    for cluster in clusters:
        for job in cluster.living():
            if job.holds_nodes:
                holding[_job_of(job.request.name)] += 1
    doubled = {name: count for name, count in holding.items() if count > 1}
    assert not doubled, f"jobs that run more than once: {doubled}"


def _whole_where_it_is_bound(house: House) -> None:
    """Invariant 2: what holds nodes holds all that its attempt asked for, where it was bound."""
    bound = {
        attempt.fence: (attempt.cluster.name, len(attempt.nodes))
        for attempt in Attempt.objects.select_related("cluster")
    }
    for cluster in house.laboratory.clusters.values():
        for job in cluster.living():
            fence = job.request.name
            if job.holds_nodes and fence in bound:
                assert bound[fence] == (cluster.name, len(job.shares)), f"{fence} is in parts"


def _job_of(fence: str) -> str:
    return fence.rpartition("-a")[0]


def true_spans(clusters: Iterable[Simulated]) -> dict[str, list[tuple[Span, int]]]:
    """By fence: each run's [start, end) in whole seconds as accounting has them, and its GPUs."""
    spans: dict[str, list[tuple[Span, int]]] = defaultdict(list)
    for cluster in clusters:
        for run in cluster.runs:
            end_ms = cluster.shown_ms(run.end_ms) if run.end_ms else None
            gpus = sum(len(share.gpus) for share in run.shares.values())
            spans[run.request.name].append(((cluster.shown_ms(run.start_ms), end_ms), gpus))
    return spans


def _fences() -> dict[object, str]:
    return dict(Attempt.objects.values_list("id", "fence"))


def _nothing_billed_that_did_not_run(spans: Mapping[str, list[tuple[Span, int]]]) -> None:
    """Invariant 10: what is posted lies within one true run of the attempt, with its GPUs."""
    fences = _fences()
    for interval in UsageInterval.objects.filter(metered_ms__gt=F("started_ms")):
        fence = fences[interval.attempt_id]
        assert any(
            gpus == interval.gpus
            and start <= interval.started_ms
            and (end is None or interval.metered_ms <= end)
            for (start, end), gpus in spans.get(fence, ())
        ), f"{fence}: billed [{interval.started_ms}, {interval.metered_ms}), ran {spans[fence]}"


def check_quiet(house: House, excused: frozenset[str] = frozenset()) -> None:
    """What holds when every fault is over and time went on: all is where it belongs.

    `excused` are fences that a cluster forgot or somebody changed behind our back: their jobs may
    be `unknown`, for a person to look into.
    """
    _orders_are_done()
    _jobs_are_where_they_belong(excused)
    for cluster in house.laboratory.clusters.values():
        _no_orphans(cluster)
    _outcomes_are_true(house.laboratory.clusters.values(), excused)
    _books_agree(true_spans(house.laboratory.clusters.values()), excused)


def _orders_are_done() -> None:
    left = [str(command) for command in Command.objects.filter(state__in=OPEN)]
    assert not left, f"orders still open: {left}"


def _jobs_are_where_they_belong(excused: frozenset[str]) -> None:
    lost = {
        attempt.job_id for attempt in OPEN_ATTEMPTS.filter(state="lost") if attempt.fence in excused
    }
    for job in Job.objects.all():
        state = JobState(job.state)
        settled = (
            state.is_final
            or state is JobState.HELD
            or (state is JobState.QUEUED and bool(job.reasons))
            or (state is JobState.UNKNOWN and job.pk in lost)
        )
        assert settled, f"{job} is not where it belongs: {_story(job)}"


def _story(job: Job) -> list[str]:
    return [
        f"{a.fence} on {a.cluster.name}: {a.state} {a.end_cause} ({a.backend_state})"
        for a in job.attempts.select_related("cluster")
    ]


def _no_orphans(cluster: Simulated) -> None:
    """Nothing of ours lives there whose attempt is over or unknown."""
    living = {job.request.name for job in cluster.living()}
    ours = set(OPEN_ATTEMPTS.filter(fence__in=living).values_list("fence", flat=True))
    assert living <= ours, f"{cluster.name}: orphans {living - ours}"


def _outcomes_are_true(clusters: Iterable[Simulated], excused: frozenset[str]) -> None:
    """A job that succeeded has exactly one run that did, any other none: nothing ran twice."""
    done = Counter(
        _job_of(run.request.name)
        for cluster in clusters
        for run in cluster.runs
        if run.state is State.COMPLETED
    )
    for attempt in Attempt.objects.select_related("job"):
        if attempt.fence in excused:
            continue
        wanted = 1 if attempt.job.state == JobState.SUCCEEDED else 0
        name = _job_of(attempt.fence)
        assert done[name] == wanted, f"{attempt.job}: {done[name]} runs succeeded"


def _books_agree(spans: Mapping[str, list[tuple[Span, int]]], excused: frozenset[str]) -> None:
    """Invariants 10 and 11: billed is what ran, posted is what is known, and the chain holds."""
    fences = _fences()
    known: dict[str, int] = defaultdict(int)
    for interval in UsageInterval.objects.all():
        assert interval.ended_ms is not None, f"{fences[interval.attempt_id]}: still metered"
        assert interval.metered_ms == interval.ended_ms, "known and not posted"
        known[fences[interval.attempt_id]] += interval.gpus * (
            interval.ended_ms - interval.started_ms
        )
    for fence in {*known, *(fence for fence in spans if fence in set(fences.values()))} - excused:
        ran = sum(gpus * ((end or start) - start) for (start, end), gpus in spans.get(fence, ()))
        assert known[fence] == ran, f"{fence}: ran {ran} GPU ms, billed {known[fence]}"
    posted = UsageRecord.objects.aggregate(gpu=Sum("gpu_ms"), nano=Sum("amount_nano"))
    assert (posted["gpu"] or 0) == sum(known.values()), "posted is not what is known"
    moved = Transfer.objects.aggregate(nano=Sum("amount_nano"))["nano"] or 0
    assert moved == (posted["nano"] or 0), "transfers are not what was rated"
    fault = verify_ledger()
    assert fault is None, fault
