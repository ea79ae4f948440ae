"""Every row of the table of slurmrestd's failures, as reads and as writes."""

from email.utils import formatdate

import httpx
import jwt
import pytest

from clusters.backends.slurm.client import SlurmClient, TokenMint, forget_versions, wall_clock_s
from clusters.backends.slurm.errors import Fault, from_faults
from clusters.core.backend import (
    BackendAmbiguousError,
    BackendError,
    BackendRejectedError,
    BackendUnavailableError,
)
from tests.clusters.backends.fake import Answer, Table, client, connection, faulty, reply

AWAY, MAYBE, NO = BackendUnavailableError, BackendAmbiguousError, BackendRejectedError
REQUEST = httpx.Request("GET", "http://made.example")
FALLEN = {"error_number": -1, "error": "Unspecified error", "source": "slurm_load_jobs"}
UNKNOWN_KEY = (
    {"description": 'Unknown key "x"', "source": "hsearch_r"},
    {"error_code": 9001, "error": "Failure during parsing"},
)


def code(number: int, words: str = "words") -> dict[str, object]:
    return {"error_code": number, "error": words}


# (reply or transport error, a GET's error and code, a POST's error and code)
ROWS: dict[str, tuple[Answer, tuple[type, str], tuple[type, str]]] = {
    "no token": (
        httpx.Response(401, text="Authentication failure"),
        (AWAY, "auth"),
        (AWAY, "auth"),
    ),
    "garbage token, reads": (faulty(500, FALLEN, jobs=[]), (AWAY, "auth"), (MAYBE, "lost")),
    "garbage token, submit": (faulty(500, code(5005)), (AWAY, "auth"), (MAYBE, "lost")),
    "garbage token, accounting": (faulty(200, code(1007)), (AWAY, "auth"), (AWAY, "auth")),
    "unknown path": (
        httpx.Response(404, text="Unable find requested URL. Please view /openapi/v3"),
        (AWAY, "api_version"),
        (AWAY, "api_version"),
    ),
    "wrong method": (
        httpx.Response(405, text="Requested REST method is not defined at URL"),
        (NO, "405"),
        (NO, "405"),
    ),
    "bad JSON": (httpx.Response(400, text="Unable to parse query."), (NO, "400"), (NO, "400")),
    "unknown key in submit": (faulty(400, *UNKNOWN_KEY), (NO, "9001"), (NO, "9001")),
    "unknown key in update": (faulty(200, *UNKNOWN_KEY), (NO, "9001"), (NO, "9001")),
    "too many nodes": (faulty(500, code(2006)), (NO, "2006"), (NO, "2006")),
    "impossible nodes": (faulty(500, code(2014)), (NO, "2014"), (NO, "2014")),
    "unknown partition": (faulty(500, code(2000)), (NO, "2000"), (NO, "2000")),
    "unknown account": (faulty(500, code(2045)), (NO, "2045"), (NO, "2045")),
    "unknown QOS": (faulty(500, code(2066)), (NO, "2066"), (NO, "2066")),
    "no script": (faulty(500, code(2009)), (NO, "2009"), (NO, "2009")),
    "another's job": (faulty(500, {"errno": 2002, "error": "denied"}), (NO, "2002"), (NO, "2002")),
    "controller down, submit": (
        faulty(500, code(1800)),
        (AWAY, "controller"),
        (AWAY, "controller"),
    ),
    "answer lost behind slurmrestd": (faulty(500, code(1802)), (AWAY, "auth"), (MAYBE, "lost")),
    "slurmdbd down": (faulty(200, code(7000)), (AWAY, "accounting"), (AWAY, "accounting")),
    "slurmrestd down": (
        httpx.ConnectError("refused", request=REQUEST),
        (AWAY, "unreachable"),
        (AWAY, "unreachable"),
    ),
    "slurmrestd too slow to connect": (
        httpx.ConnectTimeout("slow", request=REQUEST),
        (AWAY, "unreachable"),
        (AWAY, "unreachable"),
    ),
    "cut while reading": (
        httpx.ReadError("reset", request=REQUEST),
        (AWAY, "lost"),
        (MAYBE, "lost"),
    ),
    "no answer in time": (
        httpx.ReadTimeout("late", request=REQUEST),
        (AWAY, "lost"),
        (MAYBE, "lost"),
    ),
    "cut while sending": (
        httpx.WriteError("reset", request=REQUEST),
        (AWAY, "lost"),
        (MAYBE, "lost"),
    ),
    "closed without a word": (
        httpx.RemoteProtocolError("closed", request=REQUEST),
        (AWAY, "lost"),
        (MAYBE, "lost"),
    ),
    "truncated JSON": (
        httpx.Response(200, text='{"errors": [], "jobs": [{"job_id'),
        (AWAY, "controller"),
        (MAYBE, "lost"),
    ),
    "an empty 200": (httpx.Response(200), (AWAY, "controller"), (MAYBE, "lost")),
    "JSON that is no object": (
        httpx.Response(200, text="[]"),
        (AWAY, "controller"),
        (MAYBE, "lost"),
    ),
    "a proxy without its server": (
        httpx.Response(502, text="<html>Bad Gateway"),
        (AWAY, "controller"),
        (MAYBE, "lost"),
    ),
    "a proxy that is full": (httpx.Response(503, text="busy"), (AWAY, "503"), (AWAY, "503")),
    "throttled": (httpx.Response(429, text="slow down"), (AWAY, "429"), (AWAY, "429")),
    "24.11: unauthenticated": (faulty(511, code(0)), (AWAY, "auth"), (AWAY, "auth")),
    "24.11: gateway timeout": (faulty(504, code(0)), (AWAY, "auth"), (MAYBE, "lost")),
    "500 without errors": (reply(500), (AWAY, "auth"), (MAYBE, "lost")),
}


def _attempt(answer: Answer, method: str) -> BackendError:
    slurm = client(Table({f"{method} jobs": answer}))
    calls = {
        "GET": lambda: slurm.read("jobs"),
        "POST": lambda: slurm.write("POST", "jobs", "mia", {}, fine=()),
    }
    with pytest.raises(BackendError) as caught:
        calls[method]()
    slurm.close()
    return caught.value


@pytest.mark.parametrize("row", ROWS)
def test_reads_are_never_ambiguous(row: str) -> None:
    answer, (kind, word), _ = ROWS[row]
    error = _attempt(answer, "GET")
    assert (type(error), error.code) == (kind, word)
    assert error.words


@pytest.mark.parametrize("row", ROWS)
def test_writes_are_ambiguous_when_they_may_have_happened(row: str) -> None:
    answer, _, (kind, word) = ROWS[row]
    error = _attempt(answer, "POST")
    assert (type(error), error.code) == (kind, word)


def test_a_slow_unspecified_error_is_the_controller_not_the_token() -> None:
    fault = (Fault(-1, "Unspecified error"),)
    quick = from_faults(fault, is_write=False, took_s=0.015, status=500)
    slow = from_faults(fault, is_write=False, took_s=4.0, status=500)
    assert (quick.code, slow.code) == ("auth", "controller")


def test_a_number_decides_before_a_description_without_one() -> None:
    error = _attempt(faulty(400, *UNKNOWN_KEY), "POST")
    assert error.words == 'Unknown key "x"; Failure during parsing'


class Trickle(httpx.SyncByteStream):
    """A reply that never ends."""

    def __iter__(self):  # type: ignore[no-untyped-def]
        while True:
            yield b" "


def test_a_reply_that_trickles_for_ever_meets_the_deadline() -> None:
    table = Table({"GET jobs": httpx.Response(200, stream=Trickle())})
    slurm = client(table, timeout_s="0.05")
    with pytest.raises(BackendUnavailableError, match="did not end in time"):
        slurm.read("jobs")
    slurm.close()


def test_tokens_are_renewed_long_before_they_expire() -> None:
    now = [1_000_000]
    mint = TokenMint(b"k" * 32, 1800, lambda: now[0])
    first = mint.token("mia")
    claims = jwt.decode(first, b"k" * 32, algorithms=["HS256"], options={"verify_exp": False})
    assert claims == {"exp": 1_001_800, "iat": 1_000_000, "sun": "mia"}
    now[0] += 899
    assert mint.token("mia") == first
    assert mint.token("ben") != first
    now[0] += 1
    second = mint.token("mia")
    assert second != first
    now[0] -= 3600  # the clock was set back: an old token might not be valid yet, nor new
    assert mint.token("mia") not in {first, second}


def test_both_headers_name_the_account_of_the_call() -> None:
    table = Table({"GET jobs": reply(jobs=[]), "DELETE job/7": reply()})
    slurm = client(table)
    slurm.read("jobs")
    slurm.write("DELETE", "job/7", "mia", fine=())
    users = []
    for headers in table.headers:
        token = headers["X-SLURM-USER-TOKEN"]
        claims = jwt.decode(token, b"k" * 32, algorithms=["HS256"])
        assert claims["sun"] == headers["X-SLURM-USER-NAME"]
        users.append(claims["sun"])
    assert users == ["slurm", "mia"]
    slurm.close()


def _listing(*versions: str) -> httpx.Response:
    paths = {f"/slurm/{version}/jobs": {} for version in versions}
    return httpx.Response(200, json={"paths": paths | {"/slurmdb/v0.0.99/jobs": {}}})


@pytest.mark.parametrize(
    ("listed", "chosen"),
    [
        (("v0.0.36", "v0.0.37", "v0.0.38"), "v0.0.38"),
        (("v0.0.38", "v0.0.39", "v0.0.40"), "v0.0.40"),
        (("v0.0.40", "v0.0.41", "v0.0.42", "v0.0.43"), "v0.0.42"),
        (("v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"), "v0.0.45"),
    ],
)
def test_takes_the_newest_version_it_knows(listed: tuple[str, ...], chosen: str) -> None:
    forget_versions()
    slurm = SlurmClient(connection(), transport=Table({"GET /openapi/v3": _listing(*listed)}))
    assert slurm.dialect.api == chosen
    slurm.close()


def test_asks_for_versions_once_and_again_after_an_upgrade() -> None:
    forget_versions()
    answers: dict[str, Answer] = {
        "GET /openapi/v3": _listing("v0.0.38"),
        "GET jobs": httpx.Response(404, text="Unable find requested URL."),
    }
    table = Table(answers)
    slurm = SlurmClient(connection(), transport=table)
    with pytest.raises(BackendUnavailableError):
        slurm.read("jobs")
    answers |= {"GET /openapi/v3": _listing("v0.0.42"), "GET jobs": reply(jobs=[])}
    slurm.read("jobs")
    slurm.read("jobs")
    assert [asked for asked, _ in table.asked].count("GET /openapi/v3") == 2
    slurm.close()


def test_a_server_without_a_known_version_is_unavailable() -> None:
    forget_versions()
    table = Table({"GET /openapi/v3": _listing("v0.0.36")})
    slurm = SlurmClient(connection(), transport=table)
    with pytest.raises(BackendUnavailableError, match=r"no API version of v0\.0\.38"):
        _ = slurm.dialect
    slurm.close()


SAID = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("7", 7),
        (" 7 ", 7),
        ("Sun, 06 Nov 1994 08:49:44 GMT", 7),  # the three forms of RFC 9110, 5.6.7
        ("Sunday, 06-Nov-94 08:49:44 GMT", 7),
        ("Sun Nov  6 08:49:44 1994", 7),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0),  # over already
        ("soon", None),
        ("-7", None),
        ("Fri, 31 Dec 999999 23:59:59 GMT", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_cluster_asks_for_patience_in_seconds_or_until_a_moment_of_its_own_clock(
    told: str, seconds: float | None, status: int
) -> None:
    headers = {"Retry-After": told, "Date": SAID}
    busy = httpx.Response(status, text="slow down", headers=headers)
    with pytest.raises(BackendUnavailableError) as caught:
        client(Table({"GET ping": busy})).read("ping")
    assert caught.value.retry_after_s == seconds


def test_a_moment_without_a_date_is_one_of_our_own_clock() -> None:
    until_s = wall_clock_s() + 3600
    headers = {"Retry-After": formatdate(until_s, usegmt=True)}
    busy = httpx.Response(429, text="slow down", headers=headers)
    with pytest.raises(BackendUnavailableError) as caught:
        client(Table({"GET ping": busy})).read("ping")
    asked_s = caught.value.retry_after_s
    assert asked_s is not None
    assert 0 < asked_s <= 3600
