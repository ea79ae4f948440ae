"""What no recording shows: sites that hide, alter or forget, and calls that meet in time."""

import json
import threading
import time
from collections.abc import Callable

import httpx
import pytest

from clusters.backends import BACKENDS, connect
from clusters.backends.slurm.shared import SharedRead
from clusters.backends.slurm.values import Json
from clusters.core.backend import (
    BackendAmbiguousError,
    BackendError,
    BackendRejectedError,
    BackendUnavailableError,
    Submitted,
)
from clusters.core.observation import GangState
from tests.clusters.backends.fake import Answer, Table, backend, connection, faulty, reply
from tests.clusters.backends.test_translate import GANG

FENCE = GANG.fence
TANGLED = "SwitchName=a Switches=b\nSwitchName=b Switches=a Nodes=n1"
NOTHING = faulty(200, {"error_number": 9003, "error": "Nothing found with query"})


def job(
    job_id: int, state: str = "PENDING", reason: str = "JobHeldUser", **changes: object
) -> Json:
    return {
        "job_id": job_id,
        "name": FENCE,
        "user_name": "mia",
        "comment": f"muster:{FENCE}",
        "job_state": state,
        "state_reason": reason,
        "nodes": "",
        **changes,
    }


def past(job_id: int, comment: str | None = f"muster:{FENCE}", **changes: object) -> Json:
    return {
        "job_id": job_id,
        "name": FENCE,
        "association": {"user": "mia"},
        "comment": {"job": comment},
        "state": {"current": "COMPLETED", "reason": "None"},
        "nodes": "n[000-001]",
        "time": {"submission": 90, "start": 100, "end": 160},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 16}]},
        **changes,
    }


def cluster(jobs: list[Json], **answers: Answer) -> Table:
    """A cluster of two nodes; `answers` by path with `__` for `/`."""
    nodes = [
        {"name": f"n00{n}", "state": "idle", "gres": "gpu:h100:8", "gres_used": "", "threads": 2}
        for n in range(2)
    ]
    table: dict[str, Answer] = {
        "GET diag": reply(statistics={"req_time": 1_000_000}),
        "GET nodes": reply(nodes=nodes),
        "GET jobs": lambda _: reply(jobs=jobs),
        "GET partitions": reply(partitions=[]),
        "GET reservations": reply(reservations=[]),
        "GET slurmdb/jobs": NOTHING,
    }
    return Table(table | {key.replace("__", "/"): value for key, value in answers.items()})


def asked(table: Table, method: str) -> list[str]:
    return [path.split(" ", 1)[1] for path, _ in table.asked if path.startswith(method)]


def test_a_repeat_whose_first_run_is_only_in_accounting_is_never_sent_again() -> None:
    table = cluster([])
    table.answers = {**table.answers, "GET slurmdb/jobs": reply(jobs=[past(5), past(5)])}
    assert backend(table).submit(GANG) == Submitted("5")
    assert asked(table, "POST") == []


def test_what_was_accepted_once_is_never_made_anew() -> None:
    """Given once more to bring duplicates together, after cluster and accounting forgot it."""
    table = cluster([])
    assert backend(table).submit(GANG, known_as="5") == Submitted("5")
    assert asked(table, "POST") == []


@pytest.mark.parametrize("known_as", ["5", ""])
def test_a_late_copy_of_what_ran_and_was_forgotten_is_not_released(known_as: str) -> None:
    """Numbers began anew, or the answer to the submit never came; accounting knows that it ran."""
    copies = [job(5, state="PENDING", hold=True)]
    table = cluster(copies, **{"DELETE job__5": reply()})
    table.answers = {**table.answers, "GET slurmdb/jobs": reply(jobs=[past(5)])}
    assert backend(table).submit(GANG, known_as=known_as) == Submitted("5", 1)
    assert asked(table, "POST") == []
    assert asked(table, "DELETE") == ["job/5"]


def test_what_was_held_and_never_ran_is_released_by_a_repeat() -> None:
    """Killed between submit and release: accounting has it, and no start of it."""
    held = [job(5, state="PENDING", hold=True)]
    table = cluster(held, **{"POST job__5": reply()})
    waits = {"current": "PENDING", "reason": "None"}
    unrun = past(5, state=waits, time={"submission": 90, "start": 0, "end": 0})
    table.answers = {**table.answers, "GET slurmdb/jobs": reply(jobs=[unrun])}
    assert backend(table).submit(GANG) == Submitted("5")
    assert asked(table, "POST") == ["job/5"]


@pytest.mark.parametrize("comment", [None, ""])
def test_a_missing_comment_in_accounting_is_no_excuse_to_run_twice(comment: str | None) -> None:
    table = cluster([])
    table.answers = {**table.answers, "GET slurmdb/jobs": reply(jobs=[past(5, comment)])}
    assert backend(table).submit(GANG) == Submitted("5")


def test_a_repeat_waits_for_accounting() -> None:
    table = cluster([])
    down = faulty(200, {"error_number": 7000, "error": "Unable to connect to database"})
    table.answers = {**table.answers, "GET slurmdb/jobs": down}
    with pytest.raises(BackendUnavailableError):
        backend(table).submit(GANG)
    assert asked(table, "POST") == []


def _accepting(
    jobs: list[Json], job_id: int, **changes: object
) -> Callable[[httpx.Request], httpx.Response]:
    """A submit that puts a held job into the list."""

    def answer(_: httpx.Request) -> httpx.Response:
        jobs.append(job(job_id, **changes))  # type: ignore[arg-type]
        return faulty(200, {"error_code": 2042, "error": "Job is in held state"}, job_id=job_id)

    return answer


def test_a_first_submit_looks_nowhere_before() -> None:
    jobs: list[Json] = []
    table = cluster(jobs, **{"POST job__submit": _accepting(jobs, 7), "POST job__7": reply()})
    assert backend(table).submit(GANG, is_repeat=False) == Submitted("7")
    assert [path for path, _ in table.asked] == ["POST job/submit", "GET jobs", "POST job/7"]
    assert table.asked[-1][1] == {"hold": False}


def test_without_accounting_a_repeat_trusts_the_controller() -> None:
    jobs: list[Json] = []
    table = cluster(jobs, **{"POST job__submit": _accepting(jobs, 7), "POST job__7": reply()})
    assert backend(table, accounting="off").submit(GANG) == Submitted("7")


def test_what_slurm_would_never_start_is_taken_back() -> None:
    impossible = {"error_code": 2015, "error": "Requested partition configuration not available"}
    table = cluster(
        [], **{"POST job__submit": faulty(200, impossible, job_id=9), "DELETE job__9": reply()}
    )
    with pytest.raises(BackendRejectedError) as refused:
        backend(table).submit(GANG, is_repeat=False)
    assert refused.value.code == "2015"
    assert asked(table, "DELETE") == ["job/9"]


def test_a_job_whose_comment_was_rewritten_is_not_left_behind() -> None:
    jobs: list[Json] = []
    changed = _accepting(jobs, 7, comment="site policy")
    table = cluster(jobs, **{"POST job__submit": changed, "DELETE job__7": reply()})
    with pytest.raises(BackendRejectedError, match="job_submit plugin"):
        backend(table).submit(GANG, is_repeat=False)
    assert asked(table, "DELETE") == ["job/7"]


@pytest.mark.parametrize(
    ("jobs", "winner", "released", "cancelled"),
    [
        ([job(8), job(5), job(9)], "5", ["job/5"], ["job/8", "job/9"]),
        ([job(5, "RUNNING", "None", nodes="n000", start_time=9), job(6)], "5", [], ["job/6"]),
        ([job(5), job(6, "RUNNING", "None", nodes="n000", start_time=9)], "6", [], ["job/5"]),
        ([job(5, "PENDING", "Resources"), job(6)], "5", [], ["job/6"]),
        ([job(5, "CANCELLED"), job(6)], "5", [], ["job/6"]),
        ([job(5, "COMPLETED", "None", nodes="n000", start_time=9)], "5", [], []),
        ([job(5, user_name="ben"), job(6)], "6", ["job/6"], []),
        ([job(5, comment=""), job(6)], "6", ["job/6"], []),
    ],
)
def test_settles_on_one(
    jobs: list[Json], winner: str, released: list[str], cancelled: list[str]
) -> None:
    writes = {f"{m} job__{one['job_id']}": reply() for one in jobs for m in ("POST", "DELETE")}
    table = cluster(jobs, **writes)
    answer = backend(table).submit(GANG)
    assert answer == Submitted(winner, len(cancelled))
    assert asked(table, "POST") == released
    assert asked(table, "DELETE") == cancelled


def test_cancel_forgives_what_ended_meanwhile_and_nothing_else() -> None:
    gone = faulty(500, {"error_number": 2017, "error": "Invalid job id specified"})
    denied = faulty(500, {"error_number": 2002, "error": "Access/permission denied"})
    backend(cluster([job(5)], **{"DELETE job__5": gone})).cancel(FENCE, "mia")
    with pytest.raises(BackendRejectedError):
        backend(cluster([job(5)], **{"DELETE job__5": denied})).cancel(FENCE, "mia")
    lost = httpx.ReadError("reset")
    with pytest.raises(BackendAmbiguousError):
        backend(cluster([job(5)], **{"DELETE job__5": lost})).cancel(FENCE, "mia")


def test_reclassify_changes_the_qos_of_what_is_left() -> None:
    table = cluster(
        [job(5, "COMPLETED"), job(6, "PENDING", "Priority")], **{"POST job__6": reply()}
    )
    backend(table).reclassify(FENCE, "mia", "guaranteed")
    assert table.asked[-1] == ("POST job/6", {"qos": "guaranteed"})


def test_drain_is_told_apart_by_version() -> None:
    table = cluster([], **{"POST node__n000": reply()})
    with pytest.raises(BackendRejectedError):
        backend(table).drain(["n000"], "fan")
    newer = backend(table, api_version="v0.0.40")
    newer.drain(["n000"], "fan")
    newer.undrain(["n000"])
    assert table.asked == [
        ("POST node/n000", {"state": ["DRAIN"], "reason": "fan"}),
        ("POST node/n000", {"state": ["RESUME"]}),
    ]
    with pytest.raises(BackendRejectedError):
        newer.logs(FENCE)


def test_silence_of_accounting_is_said() -> None:
    table = cluster([])
    down = faulty(200, {"error_number": 7000, "error": "Unable to connect to database"})
    table.answers = {**table.answers, "GET slurmdb/jobs": down}
    slurm = backend(table)
    assert slurm.observe(1, [FENCE]).accounting_answered is False
    assert slurm.observe(1, []).accounting_answered is True


def test_one_bounded_query_for_all_that_is_missing() -> None:
    table = cluster([job(5, name="mst-b-a1", comment="muster:mst-b-a1", restart_cnt=1)])
    backend(table, accounting_days="2").observe(1, [FENCE, "mst-b-a1", "mst-c-a1"])
    queries = [path for path, _ in table.asked if "slurmdb" in path]
    since = 1_000_000 - 2 * 86_400
    assert queries == [
        f"GET slurmdb/jobs?job_name={FENCE}%2Cmst-b-a1%2Cmst-c-a1"
        f"&start_time=uts{since}&skip_steps=true"
    ]


def test_newer_accounting_is_asked_for_every_run() -> None:
    table = cluster([])
    backend(table, api_version="v0.0.42").observe(1, [FENCE])
    (query,) = [path for path, _ in table.asked if "slurmdb" in path]
    assert query.endswith("&show_duplicates=true&disable_truncate_usage_time=true")


@pytest.mark.parametrize(
    ("comment", "options", "is_seen"),
    [
        (f"muster:{FENCE}", {}, True),
        (None, {}, False),
        (None, {"accounting_comments": "no"}, True),
        ("else", {"accounting_comments": "no"}, False),
    ],
)
def test_whose_a_forgotten_job_is(
    comment: str | None, options: dict[str, str], is_seen: bool
) -> None:
    table = cluster([])
    table.answers = {**table.answers, "GET slurmdb/jobs": reply(jobs=[past(5, comment)])}
    gangs = backend(table, **options).observe(1, [FENCE]).gangs
    assert [gang.state for gang in gangs] == ([GangState.SUCCEEDED] if is_seen else [])


def test_a_run_without_end_that_the_controller_does_not_know_is_unknown() -> None:
    table = cluster([])
    row = past(5, state={"current": "RUNNING", "reason": "None"})
    table.answers = {**table.answers, "GET slurmdb/jobs": reply(jobs=[row])}
    (gang,) = backend(table).observe(1, [FENCE]).gangs
    assert (gang.state, gang.runs[0].end_ms) == (GangState.UNKNOWN, None)


def test_of_two_forgotten_jobs_the_one_that_ran_counts() -> None:
    table = cluster([])
    never = past(4, state={"current": "CANCELLED", "reason": "None"}, nodes="None assigned")
    table.answers = {**table.answers, "GET slurmdb/jobs": reply(jobs=[never, past(5)])}
    (gang,) = backend(table).observe(1, [FENCE]).gangs
    assert (gang.backend_id, gang.state, len(gang.runs)) == ("5", GangState.SUCCEEDED, 1)


def test_hidden_jobs_are_foreign_load() -> None:
    ours = job(
        5, "RUNNING", "None", nodes="n001", gres_detail=["gpu:h100:8(IDX:0-7)"], start_time=9
    )
    nodes = [
        {
            "name": "n000",
            "state": "mixed",
            "gres": "gpu:h100:8",
            "gres_used": "gpu:h100:6(IDX:0-5)",
        },
        {
            "name": "n001",
            "state": "mixed",
            "gres": "gpu:h100:8",
            "gres_used": "gpu:h100:8(IDX:0-7)",
        },
    ]
    table = cluster([ours])
    table.answers = {**table.answers, "GET nodes": reply(nodes=nodes)}
    load = backend(table).observe(1, []).foreign
    assert load.gpus == {"n000": 6}
    assert load.running == 0


def test_an_unreachable_cluster_is_a_finding() -> None:
    table = Table({"GET diag": httpx.ConnectError("refused")})
    report = backend(table).probe(0)
    (finding,) = report.findings
    assert (finding.capability, finding.is_on) == ("reachable", False)
    assert "slurmrestd" in finding.fix


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_s": "soon"},
        {"token_life_s": "nan"},
        {"tier.leaf": "("},
        {"topology_conf": TANGLED},
    ],
)
def test_a_bad_option_is_named(options: dict[str, str]) -> None:
    slurm = backend(cluster([]), **options)
    with pytest.raises(BackendUnavailableError) as bad:
        slurm.observe(1, [])
    assert bad.value.code == "options"
    assert next(iter(options)).split(".")[0] in bad.value.words
    (finding,) = slurm.probe(1).findings
    assert finding.fix == "correct the option"


def test_what_cannot_be_read_is_no_reason_to_crash() -> None:
    table = cluster([job(5, "RUNNING", "None", nodes="n[0-")])
    with pytest.raises(BackendUnavailableError) as bad:
        backend(table).observe(1, [])
    assert bad.value.code == "unreadable"


def test_words_of_a_site_that_are_no_utf8_hide_nothing() -> None:
    marked = job(5, "RUNNING", "None", nodes="n000", start_time=9, admin_comment="X", partition="X")
    text = json.dumps({"errors": [], "jobs": [marked]}).encode().replace(b"X", b"\xfc")
    table = cluster([], **{"GET jobs": httpx.Response(200, content=text)})
    slurm = backend(table)
    assert [gang.backend_id for gang in slurm.observe(1, []).gangs] == ["5"]
    assert slurm.submit(GANG) == Submitted("5")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_hide_nothing(number: str) -> None:
    marked = job(5, "RUNNING", "None", nodes="n000", start_time=9, admin_comment="X")
    text = json.dumps({"errors": [], "jobs": [{**marked, "billable_tres": 0.25}]})
    content = text.replace("0.25", number).encode().replace(b'"X"', b'"\xfc"')
    table = cluster([], **{"GET jobs": httpx.Response(200, content=content)})
    assert [gang.backend_id for gang in backend(table).observe(1, []).gangs] == ["5"]


def test_the_registry_knows_slurm() -> None:
    assert "slurm" in BACKENDS
    slurm = connect("slurm", connection())
    assert hasattr(slurm, "reclassify")


def test_readers_at_once_share_a_read_that_began_after_they_asked() -> None:
    gate, begun, reads = threading.Event(), threading.Event(), []

    def read() -> int:
        reads.append(len(reads))
        begun.set()
        gate.wait(60)
        return reads[-1]

    shared = SharedRead(read)
    got: list[int] = []
    first = threading.Thread(target=lambda: got.append(shared.get()))
    first.start()
    assert begun.wait(60)
    late = [threading.Thread(target=lambda: got.append(shared.get())) for _ in range(6)]
    for thread in late:
        thread.start()
    time.sleep(0.2)  # all of them ask while the first read is under way
    gate.set()
    for thread in (first, *late):
        thread.join(5)
    assert sorted(got)[0] == 0
    assert all(value >= 1 for value in sorted(got)[1:])
    assert 2 <= len(reads) <= 3


def test_a_shared_failure_reaches_every_reader() -> None:
    def read() -> int:
        raise BackendUnavailableError("down")

    shared = SharedRead(read)
    for _ in range(2):
        with pytest.raises(BackendError):
            shared.get()
