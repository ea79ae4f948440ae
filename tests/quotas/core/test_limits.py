"""What runs is counted under each limit that speaks for it; a start counts at once."""

from dataclasses import replace
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.core.limits import Counts, Hit, Limited, LimitRow, Scope, Unit, first_hit

ACME, VISION, SPEECH, BETA = (UUID(int=n) for n in range(1, 5))
MIA, BOB = UUID(int=11), UUID(int=12)
LINEAGES = {ACME: (ACME,), VISION: (ACME, VISION), SPEECH: (ACME, SPEECH), BETA: (BETA,)}
HOUR_MS = 3_600_000


def counts(*rows: LimitRow, **limited: object) -> Counts:
    return Counts(Limited(rows, **limited), LINEAGES)  # type: ignore[arg-type]


def ask(
    of: Counts, tenant: UUID = VISION, user: UUID = MIA, gpus: int = 8, job: int = 0, ms: int = 1000
) -> Hit | None:
    return first_hit(of.standing(job, tenant, user), gpus, ms)


def test_a_tenants_limit_speaks_for_all_below_it_together() -> None:
    row = LimitRow(ACME, running_gpus=16)
    of = counts(row)
    of.start(1, VISION, MIA, 8)
    assert ask(of, SPEECH, BOB) is None
    of.start(2, SPEECH, BOB, 8)
    assert ask(of, ACME, BOB, gpus=1) == Hit(row, Unit.GPUS, 1, 0)
    assert ask(of, BETA) is None


def test_each_persons_limit_counts_everyone_by_themselves() -> None:
    of = counts(LimitRow(ACME, Scope.USER, running_jobs=1))
    of.start(1, VISION, MIA, 8)
    assert ask(of, SPEECH, MIA) is not None
    assert ask(of, VISION, BOB) is None


def test_one_persons_limit_speaks_for_nobody_else() -> None:
    of = counts(LimitRow(ACME, Scope.USER, user=BOB, running_jobs=1))
    of.start(1, VISION, MIA, 8)
    of.start(2, VISION, MIA, 8)
    assert ask(of, VISION, MIA) is None
    of.start(3, VISION, BOB, 8)
    hit = ask(of, SPEECH, BOB)
    assert hit is not None
    assert (hit.unit, hit.needed, hit.available, hit.most) == (Unit.JOBS, 1, 0, 1)


def test_a_labels_limit_speaks_for_jobs_that_bear_it() -> None:
    row = LimitRow(ACME, Scope.LABEL, name="kind", text="sweep", running_jobs=1)
    sweep = frozenset({("kind", "sweep"), ("x", "y")})
    of = counts(row, labels={1: sweep, 2: sweep, 3: frozenset({("kind", "train")})})
    of.start(1, VISION, MIA, 8)
    assert ask(of, job=2) == Hit(row, Unit.JOBS, 1, 0)
    assert ask(of, job=3) is None
    assert ask(of, job=4) is None


def test_what_holds_gpus_counts_with_whose_it_is() -> None:
    of = counts(LimitRow(ACME, Scope.USER, running_gpus=16), people={7: MIA, 8: BOB})
    of.hold([(7, VISION, 12), (8, VISION, 16)])
    assert ask(of, gpus=4) is None
    hit = ask(of, gpus=5)
    assert hit is not None
    assert (hit.needed, hit.available) == (5, 4)


def test_what_is_over_a_lowered_limit_leaves_nothing() -> None:
    of = counts(LimitRow(ACME, running_gpus=16))
    of.hold([(7, VISION, 64)])
    hit = ask(of)
    assert hit is not None
    assert hit.available == 0


def test_what_never_fits_is_told_before_what_is_full_now() -> None:
    of = counts(LimitRow(ACME, running_jobs=1), LimitRow(VISION, longest_ms=HOUR_MS))
    of.start(1, VISION, MIA, 8)
    hit = ask(of, ms=2 * HOUR_MS)
    assert hit is not None
    assert (hit.unit, hit.needed, hit.most) == (Unit.MILLISECONDS, 2 * HOUR_MS, HOUR_MS)
    hit = ask(of, ms=HOUR_MS)
    assert hit is not None
    assert hit.unit is Unit.JOBS


def test_without_limits_nothing_is_counted() -> None:
    of = counts()
    assert not of
    of.hold([(1, VISION, 8)])
    assert ask(of, gpus=10**6) is None


BOUND = st.one_of(st.none(), st.integers(1, 4))
LABELS = [frozenset({("k", "a")}), frozenset({("k", "b")}), frozenset[tuple[str, str]]()]
ROWS = st.lists(
    st.builds(
        LimitRow,
        st.sampled_from([ACME, VISION, SPEECH]),
        st.sampled_from(Scope),
        user=st.sampled_from([None, MIA, BOB]),
        name=st.just("k"),
        text=st.sampled_from(["a", "b"]),
        running_jobs=BOUND,
        running_gpus=BOUND.map(lambda n: None if n is None else n * 8),
        longest_ms=BOUND.map(lambda n: None if n is None else n * HOUR_MS),
    ),
    max_size=6,
)
STARTS = st.lists(
    st.tuples(
        st.sampled_from([ACME, VISION, SPEECH, BETA]),
        st.sampled_from([MIA, BOB]),
        st.sampled_from(LABELS),
        st.integers(1, 20),
        st.integers(1, 5).map(lambda hours: hours * HOUR_MS),
    ),
    max_size=12,
)


def sums(
    row: LimitRow, started: list[tuple[UUID, UUID, frozenset[tuple[str, str]], int, int]]
) -> dict[UUID | None, tuple[int, int, int]]:
    """By person where each counts alone, written from the definition: jobs, GPUs, longest."""
    found: dict[UUID | None, tuple[int, int, int]] = {}
    for tenant, user, labels, gpus, ms in started:
        if row.tenant not in LINEAGES[tenant]:
            continue
        if row.scope is Scope.USER and row.user not in (None, user):
            continue
        if row.scope is Scope.LABEL and (row.name, row.text) not in labels:
            continue
        key = user if row.scope is Scope.USER else None
        jobs, held, longest = found.get(key, (0, 0, 0))
        found[key] = (jobs + 1, held + gpus, max(longest, ms))
    return found


@settings(max_examples=400)
@given(ROWS, STARTS)
def test_no_start_exceeds_a_limit_and_none_is_refused_that_fits(rows, starts) -> None:  # type: ignore[no-untyped-def]
    labels = {job: start[2] for job, start in enumerate(starts)}
    of, started = counts(*rows, labels=labels), []
    for job, start in enumerate(starts):
        tenant, user, _, gpus, ms = start
        hit = first_hit(of.standing(job, tenant, user), gpus, ms)
        fits = all(
            (row.running_jobs is None or jobs <= row.running_jobs)
            and (row.running_gpus is None or held <= row.running_gpus)
            and (row.longest_ms is None or longest <= row.longest_ms)
            for row in rows
            for jobs, held, longest in [
                sums(row, [*started, start]).get(
                    user if row.scope is Scope.USER else None, (0, 0, 0)
                )
                if sums(row, [start])
                else (0, 0, 0)
            ]
        )
        assert (hit is None) == fits
        if hit is None:
            of.start(job, tenant, user, gpus)
            started.append(start)


@settings(max_examples=200)
@given(ROWS, STARTS, st.data())
def test_fewer_limits_never_keep_back_what_more_let_start(rows, starts, data) -> None:  # type: ignore[no-untyped-def]
    labels = {job: start[2] for job, start in enumerate(starts)}
    fewer = data.draw(st.lists(st.sampled_from(rows), unique=True)) if rows else []
    fewer += [replace(row, running_jobs=None) for row in rows if row not in fewer][:1]
    more, less = counts(*rows, labels=labels), counts(*fewer, labels=labels)
    for job, (tenant, user, _, gpus, ms) in enumerate(starts):
        if first_hit(more.standing(job, tenant, user), gpus, ms) is None:
            assert first_hit(less.standing(job, tenant, user), gpus, ms) is None
            more.start(job, tenant, user, gpus)
            less.start(job, tenant, user, gpus)
