"""What must hold at every step, and what must hold when all is quiet (DESIGN §4: 1, 2, 10, 11).

The simulators are asked past Muster, in memory: their books and their nodes are the truth.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Sum

from accounting.models import Transfer, UsageInterval, UsageRecord
from accounting.selectors.ledger import verify_ledger
from clusters.models import Command
from clusters.selectors.traffic import OPEN
from federation.core.lifecycle import JobState
from federation.models import Attempt, Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from kit.bulk import Statement, run
from simulator.engine.model import Job as Object
from simulator.engine.model import State
from tests.scenario.house import House
from tests.scenario.lab import Place
from tests.scenario.pods import Stay

Span = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Tables:
    """What Muster's tables say at a moment, read in one go.

    `bound`: fence, cluster, whether it is over, the nodes where it was bound and where it was seen,
    GPUs of each. `sizes`: GPUs by cluster and node. `billed`: fence, [start, metered) in
    milliseconds, GPUs.
    """

    bound: Sequence[tuple[str, str, bool, Sequence[str], Sequence[str], int]]
    sizes: Mapping[tuple[str, str], int]
    billed: Sequence[tuple[str, int, int, int]]


def tables() -> Tables:
    """Muster's tables as they are now. SQL: this runs after every step that wrote something."""
    bound, nodes, billed = run(
        Statement(
            "SELECT fence, cluster.name, attempt.state = 'ended', nodes, nodes_seen, gpus_per_node"
            " FROM federation_attempt AS attempt"
            " JOIN clusters_cluster AS cluster ON cluster.id = cluster_id"
        ),
        Statement(
            "SELECT cluster.name, node.name, gpus FROM clusters_node AS node"
            " JOIN clusters_cluster AS cluster ON cluster.id = cluster_id"
        ),
        Statement(
            "SELECT fence, started_ms, metered_ms, gpus FROM accounting_usageinterval AS interval"
            " JOIN federation_attempt AS attempt ON attempt.id = attempt_id"
            " WHERE metered_ms > started_ms"
        ),
    )
    sizes = {(cluster, node): gpus for cluster, node, gpus in nodes}
    return Tables(bound, sizes, billed)


def check_step(clusters: Collection[Place], told: Tables) -> None:
    """What holds at every moment, however many processes died and whatever a cluster did."""
    _no_node_is_promised_twice(told)
    living = {cluster.name: cluster.living() for cluster in clusters}
    _one_object_counts(living)
    _one_run_a_job(living)
    _whole_where_it_is_bound(living, told)
    _nothing_billed_that_did_not_run(known_spans(clusters), told)


def _no_node_is_promised_twice(told: Tables) -> None:
    """Invariant 1: what is bound on a node is not more than it has, by our doing.

    What an operator moved holds nothing where it was, and where it went is not by our doing.
    """
    promised: Counter[tuple[str, str]] = Counter()
    for _, cluster, is_over, nodes, seen, gpus_per_node in told.bound:
        if not is_over:
            held = set(nodes).intersection(seen or nodes)
            promised.update({(cluster, node): gpus_per_node for node in held})
    over = {at: gpus for at, gpus in promised.items() if gpus > told.sizes.get(at, gpus)}
    assert not over, f"promised more GPUs than there are: {over}"


def _one_object_counts(living: Mapping[str, Sequence[Object | Stay]]) -> None:
    """Invariant 10: of all objects under one fence at most one is not held."""
    for cluster, objects in living.items():
        free = Counter(job.request.name for job in objects if job.priority > 0)
        doubled = {fence: count for fence, count in free.items() if count > 1}
        assert not doubled, f"{cluster}: more than one object may run: {doubled}"


def _one_run_a_job(living: Mapping[str, Sequence[Object | Stay]]) -> None:
    """Invariant 10: a job holds nodes once, over all its attempts and all clusters."""
    holding = Counter(
        _job_of(job.request.name)
        for objects in living.values()
        for job in objects
        if job.holds_nodes
    )
    doubled = {name: count for name, count in holding.items() if count > 1}
    assert not doubled, f"jobs that run more than once: {doubled}"


def _whole_where_it_is_bound(living: Mapping[str, Sequence[Object | Stay]], told: Tables) -> None:
    """Invariant 2: what holds nodes holds all that its attempt asked for, where it was bound."""
    bound = {
        fence: (cluster, len(seen or nodes)) for fence, cluster, _, nodes, seen, _ in told.bound
    }
    for cluster, objects in living.items():
        for job in objects:
            fence = job.request.name
            if job.holds_nodes and fence in bound:
                assert bound[fence] == (cluster, len(job.shares)), f"{fence} is in parts"


def _job_of(fence: str) -> str:
    return fence.rpartition("-a")[0]


def true_spans(clusters: Iterable[Place]) -> dict[str, list[tuple[Span, int]]]:
    """By fence: each run's [start, end) in whole seconds as accounting has them, and its GPUs."""
    spans: dict[str, list[tuple[Span, int]]] = defaultdict(list)
    for cluster in clusters:
        for found in cluster.runs:
            start_ms = cluster.shown_ms(found.start_ms)
            end_ms = max(cluster.shown_ms(found.end_ms), start_ms) if found.end_ms else None
            gpus = sum(len(share.gpus) for share in found.shares.values())
            spans[found.request.name].append(((start_ms, end_ms), gpus))
    return spans


def known_spans(clusters: Iterable[Place]) -> dict[str, list[tuple[Span, int]]]:
    """As `true_spans`, with what a cluster knew once and has forgotten."""
    spans: dict[str, list[tuple[Span, int]]] = defaultdict(list)
    for cluster in clusters:
        for known in cluster.remember():
            end_ms = None
            if known.end_ms:
                end_ms = cluster.latest_shown_ms(known.start_ms, known.end_ms)
            spans[known.fence].append(((cluster.shown_ms(known.start_ms), end_ms), known.gpus))
    return spans


def _nothing_billed_that_did_not_run(
    spans: Mapping[str, list[tuple[Span, int]]], told: Tables
) -> None:
    """Invariant 10: what is posted lies within one true run of the attempt, with its GPUs."""
    for fence, started_ms, metered_ms, gpus in told.billed:
        assert any(
            gpus == had and start <= started_ms and (end is None or metered_ms <= end)
            for (start, end), had in spans.get(fence, ())
        ), f"{fence}: billed [{started_ms}, {metered_ms}), ran {spans.get(fence)}"


def check_quiet(house: House, excused: frozenset[str] = frozenset()) -> None:
    """What holds when every fault is over and time went on: all is where it belongs.

    `excused` are fences of which a cluster's accounting does not tell the truth: their jobs may be
    `unknown`, for a person to look into.
    """
    _orders_are_done()
    _jobs_are_where_they_belong(excused)
    for cluster in house.laboratory.clusters.values():
        _no_orphans(cluster)
    _outcomes_are_true(house.laboratory.clusters.values(), excused)
    _books_agree(true_spans(house.laboratory.clusters.values()), excused)


def _orders_are_done() -> None:
    left = [
        f"{command} to {command.cluster.name}, tried {command.tries} times: {command.error}"
        for command in Command.objects.filter(state__in=OPEN).select_related("cluster")
    ]
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


def _no_orphans(cluster: Place) -> None:
    """Nothing of ours lives there whose attempt is over or unknown."""
    living = {job.request.name for job in cluster.living()}
    ours = set(OPEN_ATTEMPTS.filter(fence__in=living).values_list("fence", flat=True))
    assert living <= ours, f"{cluster.name}: orphans {living - ours}"


def _outcomes_are_true(clusters: Iterable[Place], excused: frozenset[str]) -> None:
    """A job that succeeded has exactly one run that did, any other none: nothing ran twice."""
    done = Counter(
        _job_of(run.request.name)
        for cluster in clusters
        for run in cluster.runs
        if run.state is State.COMPLETED
    )
    beyond = {_job_of(fence) for fence in excused}  # what one attempt hides is true of the job
    for attempt in Attempt.objects.select_related("job"):
        if _job_of(attempt.fence) in beyond:
            continue
        wanted = 1 if attempt.job.state == JobState.SUCCEEDED else 0
        name = _job_of(attempt.fence)
        assert done[name] == wanted, f"{attempt.job}: {done[name]} runs succeeded"


def _books_agree(spans: Mapping[str, list[tuple[Span, int]]], excused: frozenset[str]) -> None:
    """Invariants 10 and 11: billed is what ran, posted is what is known, and the chain holds."""
    fences = dict(Attempt.objects.values_list("id", "fence"))
    lost = set(OPEN_ATTEMPTS.filter(state="lost").values_list("fence", flat=True)) & excused
    known: dict[str, int] = defaultdict(int)
    for interval in UsageInterval.objects.all():
        fence = fences[interval.attempt_id]
        is_over = interval.ended_ms is not None
        assert is_over or fence in lost, f"{fence}: still metered"
        is_posted = interval.metered_ms == interval.ended_ms
        is_cut_only = interval.reported_end_ms is None and fence in lost  # its class changed there
        assert not is_over or is_posted or is_cut_only, f"{fence}: known and not posted"
        known[fence] += interval.gpus * (interval.metered_ms - interval.started_ms)
    for fence in {*known, *(fence for fence in spans if fence in set(fences.values()))} - excused:
        ran = sum(gpus * ((end or start) - start) for (start, end), gpus in spans.get(fence, ()))
        assert known[fence] == ran, f"{fence}: ran {ran} GPU ms, billed {known[fence]}"
    posted = UsageRecord.objects.aggregate(gpu=Sum("gpu_ms"), nano=Sum("amount_nano"))
    assert (posted["gpu"] or 0) == sum(known.values()), "posted is not what is known"
    moved = Transfer.objects.aggregate(nano=Sum("amount_nano"))["nano"] or 0
    assert moved == (posted["nano"] or 0), "transfers are not what was rated"
    fault = verify_ledger()
    assert fault is None, fault
