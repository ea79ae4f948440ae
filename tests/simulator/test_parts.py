"""Small parts: host lists, times, programs, constraints, tokens, memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.config import RunTimes
from simulator.engine.constraints import parse_constraint
from simulator.engine.program import read_program, signal_number
from simulator.hostlist import compress, expand
from simulator.slurm.times import parse_instant, parse_minutes
from simulator.slurm.tokens import mint, verify
from simulator.slurm.tres import memory_text

NOW = 1_800_000_000


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("alpha-n[000-002]", ["alpha-n000", "alpha-n001", "alpha-n002"]),
        ("a[05,07-08],b3", ["a05", "a07", "a08", "b3"]),
        ("", []),
    ],
)
def test_hostlists_read_both_ways(text: str, names: list[str]) -> None:
    assert expand(text) == names
    assert compress(names) == text


@given(st.sets(st.integers(0, 1200), min_size=1))
def test_expand_undoes_compress(numbers: set[int]) -> None:
    names = sorted(f"c-n{n:04d}" for n in numbers)
    assert expand(compress(names)) == names


@pytest.mark.parametrize("text", ["[1-2]", "a[1", "a]b", "a[x]"])
def test_what_is_no_hostlist_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a hostlist"):
        expand(text)


@pytest.mark.parametrize(
    ("megabytes", "text"),
    [
        (2097152, "2T"),
        (112000, "112000M"),
        (128000, "125G"),
        (8000000, "7812.50G"),
        (16000000, "15625G"),
        (1000000, "1000000M"),
        (32000, "32000M"),
        (0, "0M"),
    ],
)
def test_memory_reads_as_real_slurm_wrote_it(megabytes: int, text: str) -> None:
    assert memory_text(megabytes) == text


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90", 90),
        ("1:00:00", 60),
        ("3-00:00:00", 4320),
        ("2:30", 3),
        ("1-12", 2160),
        ("0:00:30", 1),
    ],
)
def test_time_limits(text: str, minutes: int) -> None:
    assert parse_minutes(text) == minutes


def test_instants() -> None:
    assert parse_instant("now+1hour", NOW) == NOW + 3600
    assert parse_instant("uts1796000000", NOW) == 1796000000
    assert parse_instant("2026-11-29", NOW) == 1795910400
    assert parse_instant("2026-11-29T20:00:00", NOW) == 1795982400
    for text in ("1796000000", "tomorrow-ish", "2026-13-01"):
        with pytest.raises(ValueError):  # noqa: PT011
            parse_instant(text, NOW)


def program(script: str) -> tuple[float | None, int]:
    read = read_program(script, RunTimes(seconds=[60, 600]), seed=1, job_id=7)
    return read.seconds, read.exit_code


def test_scripts_are_read_not_run() -> None:
    assert program("#!/bin/sh\n# simulate: seconds=30 exit=3\nsleep 99\n") == (30, 3)
    assert program("#!/bin/sh\n#simulate: forever\n") == (None, 0)
    assert program("#!/bin/sh\nsrun sleep 5\nsleep 2m # rest\nexit 4\n") == (125, 4)
    assert program("#!/bin/sh\n# sleep 10\nexit 0\n") == (0, 0)
    assert program("sleep 5\n") == (0, 8)


def test_a_script_without_times_gets_one_by_its_job_id() -> None:
    seconds, code = program("#!/bin/sh\nsrun train\n")
    assert seconds is not None
    assert 60 <= seconds <= 600
    assert (seconds, code) == program("#!/bin/sh\nsrun other\n")
    unlucky = [
        read_program("#!/bin/sh\n", RunTimes(failure_percent=30), seed=1, job_id=i).exit_code
        for i in range(300)
    ]
    assert 50 < sum(unlucky) < 130


def test_what_a_script_traps() -> None:
    read = read_program(
        "#!/bin/sh\n# simulate: seconds=9 checkpoint_on=USR1 ignores_signals\n",
        RunTimes(),
        seed=1,
        job_id=1,
    )
    assert (read.traps, read.ignores_signals) == ((10,), True)
    assert [signal_number(t) for t in ("USR1", "SIGTERM", "9", "FOO", "0", "999")] == [
        10,
        15,
        9,
        0,
        0,
        0,
    ]


def test_constraints() -> None:
    one_leaf = parse_constraint("h100&[leaf000|leaf001]")
    assert one_leaf.same == ("leaf000", "leaf001")
    assert one_leaf.allows(("h100", "leaf001"))
    assert not one_leaf.allows(("h100", "leaf002"))
    assert parse_constraint("a|b").allows(("b",))
    assert not parse_constraint("a&b").allows(("b",))
    for text in ("a||b", "[a", "a*2", "&"):
        with pytest.raises(ValueError):  # noqa: PT011
            parse_constraint(text)


def test_tokens() -> None:
    key, admins = b"k" * 32, ["slurm"]
    token = mint(key, "mia", now=NOW, lifespan=60)

    def who(token: str, user: str, now: int = NOW, key: bytes = key) -> str | None:
        actor = verify(key, token, user, admins=admins, now=now)
        return None if actor is None else actor.user

    assert who(token, "mia") == "mia"
    assert who(token, "noor") is None
    assert who(token, "mia", now=NOW + 60) is None
    assert who(token, "mia", key=b"x" * 32) is None
    assert who(token[:-2], "mia") is None
    for text in ("", "a.b.c", "...", "é"):
        assert who(text, "mia") is None
    # An administrator's token may speak for others, and is an administrator only as itself.
    proxy = mint(key, "slurm", now=NOW)
    assert verify(key, proxy, "mia", admins=admins, now=NOW) is not None
    actor = verify(key, proxy, "slurm", admins=admins, now=NOW)
    assert actor is not None
    assert actor.admin
