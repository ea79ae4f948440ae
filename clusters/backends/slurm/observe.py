"""One bulk read of a Slurm cluster, put together from its parts."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from urllib.parse import quote

from clusters.backends.slurm import errors, read
from clusters.backends.slurm.client import SlurmClient, number_option
from clusters.backends.slurm.foreign import foreign_load
from clusters.backends.slurm.memo import Readings, SeenJob, readings_of
from clusters.backends.slurm.read import JobRow
from clusters.backends.slurm.topology import Topology
from clusters.backends.slurm.translate import is_ours, owner_mark
from clusters.backends.slurm.values import Json, number
from clusters.core.backend import BackendError, BackendUnavailableError
from clusters.core.checkpoint_note import without_note
from clusters.core.observation import (
    ACCOUNTING_LAG_MS,
    GangSeen,
    GangState,
    Observation,
    Run,
)
from kit.ids import is_fence

_NAMES_A_QUERY = 200  # 40 characters each: a URL of 8 kB
_DAY_S = 86_400
_MOST_NAMESAKES = 100


def observe(
    client: SlurmClient, now_ms: int, fences: Collection[str], since_ms: int | None = None
) -> Observation:
    """Nodes, partitions, reservations, our gangs with their runs, and foreign load.

    `fences` are attempts whose end is looked up in accounting when the controller has forgotten
    them; so are the earlier runs of jobs that Slurm requeued. Accounting is read in one query
    bounded by option `accounting_days` (60); if it does not answer, the observation says so.
    With `since_ms` (our clock) every gang of ours that accounting knows from then on is looked up
    instead, whatever its fence.

    Raises:
        BackendUnavailableError: the controller (or slurmrestd) does not answer.
    """
    statistics = _statistics(client)
    cluster_s = _clock_s(statistics)
    raw_nodes = client.read("nodes").texts("nodes")
    raw_jobs = client.read("jobs").texts("jobs")
    partitions = client.read("partitions").rows("partitions")
    reservations = client.read("reservations").rows("reservations")
    readings = _readings(client)
    nodes = readings.nodes(raw_nodes)
    mark = owner_mark(client.connection.options)
    known = frozenset(fences).__contains__ if since_ms is None else is_fence
    ours: list[SeenJob] = []
    others: list[SeenJob] = []
    for job in readings.jobs(raw_jobs):
        is_mine = is_ours(mark, job.row.name, job.row.comment or "", known)
        (ours if is_mine else others).append(job)
    rows = [job.row for job in ours]
    present = {row.name for row in rows}
    if since_ms is None:
        # ended without a run: perhaps a late copy of one that ran, and that the controller forgot
        doubted = {row.name for row in rows if row.restarts or (row.state.is_final and not row.run)}
        names = sorted(doubted | (set(fences) - present))
        asked = frozenset(names).__contains__
        history, answered = _history(client, _queries(client, names, cluster_s), asked)
    else:
        since_s = since_ms // 1000 + cluster_s - now_ms // 1000
        path = _path(client, f"start_time=uts{since_s}")
        found, answered = _history(client, [path], is_fence)
        history = {name: runs for name, runs in found.items() if is_fence(name)}
    is_behind = not answered or number(statistics.get("dbd_agent_queue_size"))
    is_off = client.connection.options.get("accounting") == "off"
    heard_ms = cluster_s * 1000 if is_off or not is_behind else None
    gangs = [_from_controller(row, history.get(row.name, ()), heard_ms) for row in rows]
    gangs += [_from_accounting(told) for told in _forgotten(history, rows)]
    return Observation(
        begun_ms=now_ms,
        cluster_ms=cluster_s * 1000,
        nodes=tuple(seen.node for seen in nodes),
        queues=tuple(read.queue(raw) for raw in partitions),
        reservations=tuple(read.reservation(raw) for raw in reservations),
        gangs=tuple(gangs),
        foreign=foreign_load(others, ours, nodes),
        accounting_answered=answered,
        namesakes=tuple(islice(_namesakes(job.row for job in others), _MOST_NAMESAKES)),
    )


def _namesakes(others: Iterable[JobRow]) -> Iterator[GangSeen]:
    """Living jobs named like ours without a mark; with another mark they are another Muster's."""
    for row in others:
        is_marked = without_note(row.comment or "").endswith(f":{row.name}")
        if is_fence(row.name) and not is_marked and not row.state.is_final:
            yield read.gang_from(row, ())


def topology_of(client: SlurmClient) -> Topology:
    """Where nodes sit, as the cluster's options say.

    Raises:
        BackendUnavailableError: an expression or the topology.conf cannot be read.
    """
    try:
        return Topology(client.connection.options)
    except (ValueError, re.error) as error:
        raise _bad_topology(error) from error


def _readings(client: SlurmClient) -> Readings:
    try:
        return readings_of(client.connection)
    except (ValueError, re.error) as error:
        raise _bad_topology(error) from error


def _bad_topology(error: Exception) -> BackendUnavailableError:
    words = f"options tier.* or topology_conf: {error}"
    return BackendUnavailableError(words, code="options")


def cluster_clock_s(client: SlurmClient) -> int:
    """The controller's clock in whole seconds: slurmrestd sends no Date, but `diag` tells the time.

    It is asked first, so all that follows in an observation held at this time or later.

    Raises:
        BackendUnavailableError: no answer, or one without the time.
    """
    return _clock_s(_statistics(client))


def _statistics(client: SlurmClient) -> Json:
    told = client.read("diag").part("statistics")
    return told if isinstance(told, dict) else {}


def _clock_s(statistics: Json) -> int:
    told = number(statistics.get("req_time"))
    if not told:
        raise BackendUnavailableError("its diag does not tell the time", code="unreadable")
    return told


def _history(
    client: SlurmClient, paths: Iterable[str], known: Callable[[str], bool]
) -> tuple[dict[str, tuple[JobRow, ...]], bool]:
    """Accounting's rows of our jobs by name, in the order of their runs; whether it answered."""
    found: list[JobRow] = []
    try:
        for path in paths:
            reply = client.read(path, accounting=True, fine=(errors.NOTHING_FOUND,))
            found += (read.accounting_job(raw) for raw in reply.rows("jobs"))
    except BackendError:
        return {}, False
    ours = (row for row in found if _is_told_ours(client, row, known))
    ordered = sorted(ours, key=lambda row: (row.name, row.submitted_ms or 0, row.started_ms or 0))
    return {name: tuple(rows) for name, rows in groupby(ordered, key=lambda row: row.name)}, True


def _queries(client: SlurmClient, names: Sequence[str], cluster_s: int) -> Iterator[str]:
    """Queries for all runs of these jobs, a chunk of names each."""
    days = int(number_option(client.connection.options, "accounting_days", 60))
    since_s = cluster_s - days * _DAY_S
    for at in range(0, len(names), _NAMES_A_QUERY):
        listed = quote(",".join(names[at : at + _NAMES_A_QUERY]), safe="")
        yield _path(client, f"job_name={listed}&start_time=uts{since_s}")


def _path(client: SlurmClient, query: str) -> str:
    """All runs that touched the time since (`uts`: Slurm's word for epoch s), with their cuts."""
    path = f"jobs?{query}&skip_steps=true"
    if client.dialect.wraps_numbers:
        # given any flag, newer servers drop earlier runs and cut times unless told not to
        path += "&show_duplicates=true&disable_truncate_usage_time=true"
    return path


def _is_told_ours(client: SlurmClient, row: JobRow, known: Callable[[str], bool]) -> bool:
    """By its comment; where accounting keeps none (`accounting_comments=no`) by its name."""
    options = client.connection.options
    if row.comment:
        return is_ours(owner_mark(options), row.name, row.comment, known)
    return options.get("accounting_comments", "yes") == "no"


def _from_controller(row: JobRow, history: Iterable[JobRow], heard_ms: int | None) -> GangSeen:
    """The controller knows the present; accounting adds the runs before it.

    It may be away or behind (`heard_ms` is None, else the cluster's time of its answer) and miss a
    run or its end: then the gang is not whole. What it has not told a while after the present began it
    does not have: a run without an end ended when the job was requeued, at the latest.
    """
    told = {
        run.start_ms: run
        for past in history
        if past.job_id == row.job_id
        and (row.restarts or past.submitted_ms == row.submitted_ms)
        and (run := past.run)
    }
    if row.run is not None:
        told = {start: run for start, run in told.items() if start < row.run.start_ms}
    runs = [told[start] for start in sorted(told)]
    is_told = sum(run.end_ms is not None for run in runs) >= row.restarts
    present_ms = row.ended_ms or row.started_ms or row.submitted_ms or 0
    is_late = heard_ms is not None and heard_ms > present_ms + ACCOUNTING_LAG_MS
    if is_late and not is_told:
        runs = _closed(runs, row.submitted_ms or 0)
    if row.run is not None:
        runs.append(row.run)
    return read.gang_from(row, tuple(runs), is_whole=is_told or is_late)


def _forgotten(
    history: Mapping[str, tuple[JobRow, ...]], rows: Sequence[JobRow]
) -> Iterator[tuple[JobRow, ...]]:
    """By name what accounting tells of jobs that the controller does not have.

    Beside one that it has only what ran. A number and a name may come again with another job: that
    has another time of submit, unless it was requeued.
    """
    present = {row.name for row in rows}
    same = {(row.name, row.job_id, None if row.restarts else row.submitted_ms) for row in rows}
    for name in sorted(history):
        told = history[name]
        if name in present:
            told = tuple(
                past
                for past in told
                if past.started_ms is not None
                and (name, past.job_id, None) not in same
                and (name, past.job_id, past.submitted_ms) not in same
            )
        if told:
            yield told


def _closed(runs: Sequence[Run], requeued_ms: int) -> list[Run]:
    """Runs in order, each with an end: until the next one, the last until the requeue."""
    nexts = [*(run.start_ms for run in runs[1:]), requeued_ms]
    return [
        replace(run, end_ms=then_ms) if run.end_ms is None and then_ms > run.start_ms else run
        for run, then_ms in zip(runs, nexts, strict=False)  # none: nothing to end
    ]


def _from_accounting(rows: tuple[JobRow, ...]) -> GangSeen:
    """An attempt only accounting still knows. Its last row is what became of it.

    Of two jobs of one name the one that ran counts (the other was a cancelled duplicate). A
    row that is not the end while the controller has no such job is nobody's truth: unknown.
    """
    ran = [row for row in rows if row.started_ms is not None]
    chosen = min(ran or rows, key=lambda row: row.job_id).job_id
    mine = [row for row in rows if row.job_id == chosen]
    last = mine[-1]
    runs: tuple[Run, ...] = tuple(run for row in mine if (run := row.run))
    seen = read.gang_from(last, runs)
    if last.is_end:
        return seen
    return replace(seen, state=GangState.UNKNOWN)
