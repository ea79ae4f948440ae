"""Runs of a job that Slurm took back, and ends that only accounting tells: what is believed when.

The controller knows the present, accounting the past; either may be behind the other.
"""

import pytest

from clusters.backends.slurm.values import Json
from clusters.core.observation import GangSeen, GangState
from tests.clusters.backends.fake import backend, faulty, reply
from tests.clusters.backends.test_backend import FENCE, cluster, job, past

AWAY = faulty(200, {"error_number": 7000, "error": "Unable to connect to database"})
START_S, REQUEUE_S, AGAIN_S = 1_000, 2_000, 2_100
LATE_S = AGAIN_S + 3_600


def first(end: int = REQUEUE_S, current: str = "REQUEUED") -> Json:
    """The run that was taken back, in accounting; without an end it counts as running there."""
    return past(
        5,
        state={"current": current if end else "RUNNING", "reason": "None"},
        time={"submission": START_S - 10, "start": START_S, "end": end},
    )


def second() -> Json:
    """The run after it, in accounting."""
    return past(
        5,
        state={"current": "RUNNING", "reason": "None"},
        time={"submission": REQUEUE_S, "start": AGAIN_S, "end": 0},
    )


def present(state: str, **changes: object) -> Json:
    """The requeued job, as the controller tells it."""
    runs = {"nodes": "n[000-001]", "start_time": AGAIN_S}
    shown = {} if state == "PENDING" else runs
    reason = "BeginTime" if state == "PENDING" else "None"
    told = {"submit_time": REQUEUE_S, "restart_cnt": 1, **shown, **changes}
    return job(5, state, reason, **told)


def read(
    raw: Json | None, history: list[Json] | None, now_s: int = LATE_S, backlog: int = 0
) -> GangSeen:
    """The gang as it is read; without `history` accounting is away."""
    table = cluster([] if raw is None else [raw])
    table.answers = {
        **table.answers,
        "GET diag": reply(statistics={"req_time": now_s, "dbd_agent_queue_size": backlog}),
        "GET slurmdb/jobs": AWAY if history is None else reply(jobs=history),
    }
    (seen,) = backend(table).observe(1, [FENCE]).gangs
    return seen


def spans(seen: GangSeen) -> list[tuple[int, int | None]]:
    return [
        (run.start_ms // 1000, None if run.end_ms is None else run.end_ms // 1000)
        for run in seen.runs
    ]


WAS, IS = (START_S, REQUEUE_S), (AGAIN_S, None)
DONE = {"end_time": AGAIN_S + 50}


@pytest.mark.parametrize(
    ("raw", "history", "runs"),
    [
        (present("RUNNING"), [first()], [WAS, IS]),
        (present("RUNNING"), [first(), second()], [WAS, IS]),
        (present("RUNNING"), [first(current="NODE_FAIL"), second()], [WAS, IS]),
        (present("COMPLETED", **DONE), [first()], [WAS, (AGAIN_S, AGAIN_S + 50)]),
        (present("PENDING"), [first()], [WAS]),
        (present("PENDING"), [first(), second()], [WAS, IS]),  # it started between the two reads
    ],
)
@pytest.mark.parametrize("now_s", [AGAIN_S + 51, LATE_S])
def test_what_accounting_has_told_is_whole_at_once(
    raw: Json, history: list[Json], runs: list[tuple[int, int | None]], now_s: int
) -> None:
    seen = read(raw, history, now_s)
    assert (spans(seen), seen.is_whole) == (runs, True)


@pytest.mark.parametrize("raw", [present("RUNNING"), present("COMPLETED", **DONE)])
@pytest.mark.parametrize(
    ("history", "now_s", "backlog"),
    [
        (None, LATE_S, 0),  # away, however long
        ([second()], AGAIN_S + 51, 0),  # the first run's record is still on its way
        ([first(end=0), second()], AGAIN_S + 51, 0),  # its end is
        ([second()], LATE_S, 7),  # back, and what was said meanwhile still waits to be told
    ],
)
def test_while_accounting_is_behind_the_gang_is_not_whole(
    raw: Json, history: list[Json] | None, now_s: int, backlog: int
) -> None:
    seen = read(raw, history, now_s, backlog)
    assert not seen.is_whole
    assert seen.runs[-1].start_ms == AGAIN_S * 1000


@pytest.mark.parametrize(
    ("history", "runs"),
    [
        ([second()], [IS]),
        ([first(end=0), second()], [WAS, IS]),  # it was over at the requeue, at the latest
    ],
)
def test_what_accounting_never_tells_is_not_waited_for_for_ever(
    history: list[Json], runs: list[tuple[int, int | None]]
) -> None:
    seen = read(present("RUNNING"), history)
    assert (spans(seen), seen.is_whole) == (runs, True)


def test_without_accounting_nothing_is_waited_for() -> None:
    table = cluster([present("COMPLETED", **DONE)])
    table.answers = {**table.answers, "GET slurmdb/jobs": AWAY}
    (seen,) = backend(table, accounting="off").observe(1, [FENCE]).gangs
    assert seen.is_whole


def test_a_job_that_was_never_taken_back_needs_no_accounting() -> None:
    table = cluster([job(5, "RUNNING", "None", nodes="n000", start_time=100)])
    table.answers = {**table.answers, "GET slurmdb/jobs": AWAY}
    (seen,) = backend(table).observe(1, [FENCE]).gangs
    assert seen.is_whole


CANCELLED = {"current": "CANCELLED", "reason": "None"}


@pytest.mark.parametrize(
    ("record", "state"),
    [
        (past(5), GangState.SUCCEEDED),
        (past(5, state=CANCELLED, kill_request_user="mia"), GangState.CANCELLED),
        (past(5, state=CANCELLED, kill_request_user="root"), GangState.CANCELLED),
        (past(5, state=CANCELLED), GangState.CANCELLED),  # a version that does not tell by whom
        # slurmctld started without the jobs it had; seen on 22.05.8, with -c and without its file
        (past(5, state=CANCELLED, kill_request_user=None), GangState.UNKNOWN),
        (past(5, state=CANCELLED, kill_request_user=""), GangState.UNKNOWN),
        (past(5, state={"current": ["CANCELLED"]}, kill_request_user=""), GangState.UNKNOWN),
        # taken back, and what came of it then is still to be told
        (first(), GangState.UNKNOWN),
        (past(5, state={"current": "PREEMPTED"}), GangState.PREEMPTED),
        (past(5, state={"current": "NODE_FAIL"}, kill_request_user=None), GangState.NODE_FAILED),
        (second(), GangState.UNKNOWN),
    ],
)
def test_what_only_accounting_tells_is_an_end_or_in_doubt(record: Json, state: GangState) -> None:
    seen = read(None, [record])
    assert seen.state is state
    assert len(seen.runs) == 1
