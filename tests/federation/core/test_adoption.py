"""Whose is what runs there: every fence of ours is kept, claimed, left for later, or an orphan."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from clusters.core.observation import GangSeen, GangState, Run
from federation.core.adoption import Found, sort_out
from kit.ids import fence, read_fence

JOBS = [UUID(int=(7 << 60) + number) for number in range(4)]
CLUSTERS = [UUID(int=1), UUID(int=2)]
RAN = Run(1_000, 2_000, 8, ("n1",), GangState.SUCCEEDED)


def tail(job: UUID) -> int:
    told = read_fence(fence(job, 1))
    assert told is not None
    return told[0]


def seen(state: GangState = GangState.RUNNING, number: int = 1, ran: bool = False) -> GangSeen:
    return GangSeen(
        fence="",
        backend_id=str(number),
        state=state,
        reason="",
        account="mia",
        nodes=(),
        gpus=8,
        submitted_ms=None,
        started_ms=None,
        ended_ms=None,
        exit_code=None,
        runs=(RAN,) if ran else (),
    )


def found(job: UUID, number: int, cluster: UUID = CLUSTERS[0], *objects: GangSeen) -> Found:
    return Found(cluster, fence(job, number), objects or (seen(),))


def known(**made: int) -> dict[int, tuple[int, int]]:
    """Jobs we have rows of, by their place in JOBS as `j<place>`, with the attempts we know."""
    return {tail(JOBS[int(name[1:])]): (int(name[1:]), number) for name, number in made.items()}


def test_a_waiting_jobs_attempt_is_claimed_and_a_strangers_is_an_orphan() -> None:
    sorting = sort_out([found(JOBS[0], 1), found(JOBS[1], 1)], known(j0=0), ())
    assert [(claim.job, claim.number) for claim in sorting.claims] == [(0, 1)]
    assert [one.fence for one in sorting.orphans] == [fence(JOBS[1], 1)]


def test_what_we_have_rows_of_is_left_alone() -> None:
    sorting = sort_out([found(JOBS[0], 1)], known(j0=1), {fence(JOBS[0], 1)})
    assert (sorting.claims, sorting.orphans) == ((), ())


def test_a_number_below_those_known_was_never_ours_to_lose() -> None:
    sorting = sort_out([found(JOBS[0], 1)], known(j0=2), ())
    assert not sorting.claims
    assert len(sorting.orphans) == 1


def test_of_one_fence_on_two_clusters_the_running_one_counts() -> None:
    there = found(JOBS[0], 1, CLUSTERS[1], seen(GangState.RUNNING))
    here = found(JOBS[0], 1, CLUSTERS[0], seen(GangState.PENDING))
    sorting = sort_out([here, there], known(j0=0), ())
    assert sorting.claims[0].found == there
    assert sorting.orphans == (here,)


def test_of_duplicates_the_one_on_nodes_counts_then_the_one_that_ran_then_the_lowest() -> None:
    waits, ran, runs = (
        seen(GangState.PENDING, 1),
        seen(GangState.SUCCEEDED, 2, ran=True),
        seen(GangState.RUNNING, 3),
    )
    assert found(JOBS[0], 1, CLUSTERS[0], waits, ran, runs).chief == runs
    assert found(JOBS[0], 1, CLUSTERS[0], waits, ran).chief == ran
    assert found(JOBS[0], 1, CLUSTERS[0], seen(number=10), seen(number=9)).chief.backend_id == "9"


FINDS = st.lists(
    st.builds(
        found,
        st.sampled_from(JOBS),
        st.integers(1, 4),
        st.sampled_from(CLUSTERS),
        st.builds(seen, st.sampled_from(list(GangState)), st.integers(1, 9), st.booleans()),
    ),
    unique_by=lambda one: (one.cluster, one.fence),
    max_size=12,
)


@given(FINDS, st.lists(st.integers(0, 3), min_size=3, max_size=3), st.randoms())
def test_adopting_round_by_round_ends_with_nothing_left(finds, made, random) -> None:  # type: ignore[no-untyped-def]
    jobs = known(**{f"j{place}": number for place, number in enumerate(made)})
    kept: set[str] = set()
    adopted: list[tuple[int, int]] = []
    while True:
        shuffled = list(finds)
        random.shuffle(shuffled)
        sorting = sort_out(shuffled, jobs, kept)
        assert sorting == sort_out(finds, jobs, kept)
        if not sorting.claims:
            break
        for claim in sorting.claims:
            adopted.append((claim.job, claim.number))
            kept.add(claim.found.fence)
            jobs[tail(JOBS[claim.job])] = (claim.job, claim.number)
    assert len(set(adopted)) == len(adopted)
    for place in range(3):
        numbers = [number for job, number in adopted if job == place]
        shown = {told for one in finds if (told := read_fence(one.fence))}
        mine = sorted(number for job, number in shown if job == tail(JOBS[place]))
        assert numbers == [number for number in mine if number > made[place]]
    orphaned = {one.fence for one in sorting.orphans}
    assert {f.fence for f in finds} <= kept | orphaned
    assert sort_out(finds, jobs, kept).claims == ()
