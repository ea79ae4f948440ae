"""Jobs that are alike are passed over together, which no decision may show."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import TypeVar
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.cycle import decide
from federation.core.lines import Line, by_tenant
from federation.core.snapshot import Ask, Snapshot, WaitingJob
from quotas.core.policy import Policy
from tests.federation.core.build import NOW_MS, job, uid
from tests.federation.core.test_reclaim_properties import CLASSES, FEDERATIONS, PATHS, PRIORITIES

Value = TypeVar("Value", UUID, Ask)


def _waiting(random: Random) -> Iterable[WaitingJob]:
    """Many jobs of few kinds, each with values of its own."""
    gangs = random.sample(["1x1", "1x2", "1x4", "1x8", "2x4", "2x8"], 3)
    for number in range(1, random.randint(5, 40)):
        yield job(
            number,
            random.choice(gangs),
            tenant=random.choice(PATHS),
            wanted=random.choice(CLASSES),
            priority=random.choice(PRIORITIES),
            age=random.choice([0, 1, 2, 3, 200_000]),
            not_before_ms=random.choice([None] * 9 + [NOW_MS + 1]),
        )


def _shared(jobs: Iterable[WaitingJob]) -> tuple[WaitingJob, ...]:
    """The same jobs, where those that have equal values share them."""
    known: dict[UUID | Ask, UUID | Ask] = {}

    def one(value: Value) -> Value:
        return known.setdefault(value, value)  # type: ignore[return-value]

    return tuple(
        job._replace(tenant=one(job.tenant), user=one(job.user), ask=one(job.ask)) for job in jobs
    )


@settings(max_examples=300, deadline=None)
@given(FEDERATIONS, st.integers(0, 2**32))
def test_the_plan_is_the_same_as_with_jobs_one_by_one(facts: Snapshot, seed: int) -> None:
    alone = replace(facts, jobs=tuple(_waiting(Random(seed))))  # noqa: S311 - examples, no secrets
    one, other = decide(alone), decide(replace(alone, jobs=_shared(alone.jobs)))
    assert (one.bindings, one.claims, one.promotions, one.released) == (
        other.bindings, other.claims, other.promotions, other.released,
    )  # fmt: skip
    assert (one.reasons, one.queue) == (other.reasons, other.queue)


class Clerk:
    """Somebody who gives up jobs of the kinds that it is told to."""

    def __init__(self, in_vain: int) -> None:
        self.in_vain = in_vain
        self.changes = 0

    def gives_up(self, job: WaitingJob) -> bool:
        return job.priority == self.in_vain


def test_who_is_given_up_stands_in_line_but_gets_no_turn() -> None:
    jobs = _shared(job(n, age=9 - n, priority=(500, 600)[n % 2]) for n in range(1, 9))
    line = Line(uid("acme"), by_tenant(jobs, Policy(aging_ms=1000), NOW_MS)[uid("acme")])
    order = [one.id for one in by_tenant(jobs, Policy(aging_ms=1000), NOW_MS)[uid("acme")]]
    clerk = Clerk(in_vain=600)
    taken = line.take(clerk)
    assert taken is not None
    assert (taken.id, order) == (2, [1, 3, 5, 7, 2, 4, 6, 8])
    assert line.head is not None
    assert line.head.id == 4  # those in vain stood before it


def test_who_was_given_up_is_asked_again_after_a_change() -> None:
    jobs = _shared(job(n, age=9 - n, wanted="spot" if n % 2 else "auto") for n in range(1, 7))
    line = Line(uid("acme"), by_tenant(jobs, Policy(), NOW_MS)[uid("acme")])

    class Whimsical(Clerk):
        def gives_up(self, job: WaitingJob) -> bool:
            return job.wanted_class == "spot" and not self.changes

    clerk = Whimsical(in_vain=0)
    first = line.take(clerk)
    assert first is not None
    assert line.head is not None
    assert (first.id, line.head.id) == (2, 3)  # 1 was passed over
    clerk.changes += 1
    rest = [one.id for _ in range(5) if (one := line.take(clerk)) is not None]
    assert (rest, line.head) == ([3, 4, 5, 6], None)
