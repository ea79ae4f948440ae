"""Reclaim made true: nodes are kept, victims save and go, the claimant starts on what they left."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.models import Cluster, Command
from federation.core.cycle import decide
from federation.core.plan import Plan
from federation.models import Attempt, Job, Reservation
from federation.selectors.holdings import holdings
from federation.selectors.snapshot import take_snapshot
from federation.services.checkpoint import prove_checkpoint
from federation.services.commit import Committed, begin_term, commit_plan
from federation.services.evict import tend_evictions
from quotas.core.policy import Policy
from quotas.models import Quota
from quotas.services.policy import set_policy
from tenancy.models import Event, Tenant
from tests import make
from tests.federation.world import NOW, World

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
LATER = NOW + HOUR
GRACE = timedelta(seconds=120)  # what the jobs of the world ask for


class Cohort(World):
    """vision owns all 32 GPUs; speech owns none and has filled them with spot jobs of one node."""

    def __init__(self, *, saved: int = 0) -> None:
        super().__init__(guaranteed=32)
        speech = make.tenant("acme/speech")
        Quota.objects.create(tenant=speech, flavor=self.flavor, guaranteed=0)
        self.spot = [self.job(tenant=speech, name=f"spot{n}") for n in range(4)]
        cycle(NOW)
        for number, job in enumerate(self.spot):
            started_at = NOW + timedelta(minutes=number)  # the last one loses least
            Job.objects.filter(id=job.id).update(state="running", started_at=started_at)
            attempts = Attempt.objects.filter(job=job)
            attempts.update(state="running", started_at=started_at, runs=[])
        Command.objects.update(state="done", sent_at=NOW, answered_at=NOW)
        assert not Attempt.objects.exclude(service_class="spot").exists()


def plan(now: object = LATER) -> Plan:
    Cluster.objects.update(last_seen_at=now)
    return decide(take_snapshot(now))  # type: ignore[arg-type]


def cycle(now: object = LATER, made: Plan | None = None) -> Committed:
    tend_evictions(now=now)  # type: ignore[arg-type]
    made = made or plan(now)
    return commit_plan(plan=made, epoch=begin_term(now=NOW), now=now)  # type: ignore[arg-type]


def attempt_of(job: Job) -> Attempt:
    return job.attempts.latest("number")


def told_to_go() -> list[str]:
    rows = Attempt.objects.filter(evict_asked_at__isnull=False).order_by("job_id")
    return list(rows.values_list("job__name", flat=True))


def end(job: Job) -> None:
    """Its cluster says that it is over: reconciliation queues it again, at its old place."""
    attempt_of(job)
    Attempt.objects.filter(job=job).update(state="ended", ended_at=LATER)
    Job.objects.filter(id=job.id).update(state="queued", class_now="")


def test_an_owner_takes_back_what_it_needs_and_victims_have_their_grace() -> None:
    world = Cohort()
    owner = world.job(nodes=2, name="owner")
    assert cycle().claimed == 1
    assert told_to_go() == ["spot2", "spot3"]  # one leaf, and the least lost work
    kept = Reservation.objects.get()
    assert (kept.job, sorted(kept.nodes), kept.service_class) == (
        owner,
        ["n3", "n4"],
        "guaranteed",
    )
    assert kept.deadline_at == LATER + GRACE + timedelta(minutes=10)
    owner.refresh_from_db()
    (reason,) = owner.reasons
    assert (reason["code"], reason["needed"], reason["available"]) == ("waiting_for_reclaim", 16, 0)
    signals = Command.objects.filter(kind="signal").order_by("fence")
    assert {c.fence for c in signals} == {attempt_of(job).fence for job in world.spot[2:]}
    assert [e.cause for e in Event.objects.filter(kind="job.evicting")] == ["reclaimed"] * 2
    assert cycle().claimed == 0  # it is being done
    assert not Command.objects.filter(kind="cancel").exists()

    first, last = attempt_of(world.spot[2]), attempt_of(world.spot[3])
    soon = LATER + timedelta(seconds=30)
    prove_checkpoint(job_id=world.spot[2].uuid, fence=first.fence, step=7, path="/ckpt/7", now=soon)
    tend_evictions(now=soon)
    assert [c.fence for c in Command.objects.filter(kind="cancel")] == [first.fence]
    told = {one.job: one.goes_for for one in holdings(soon) if one.leaves}
    assert told == {world.spot[2].id: None, world.spot[3].id: owner.id}  # the first one goes anyway
    tend_evictions(now=LATER + GRACE - timedelta(seconds=1))
    assert attempt_of(world.spot[3]).state == "running"
    tend_evictions(now=LATER + GRACE)
    assert {c.fence for c in Command.objects.filter(kind="cancel")} == {first.fence, last.fence}
    lost = {
        event.data["cluster"]: event.data["lost_gpu_ms"]
        for event in Event.objects.filter(kind="job.stopping", subject=str(world.spot[3].uuid))
    }
    assert lost == {"c1": 8 * ((60 - 3) * 60 + 120) * 1000}
    saved = Event.objects.get(kind="job.stopping", subject=str(world.spot[2].uuid))
    assert (saved.cause, saved.data["saved_step"], saved.data["lost_gpu_ms"]) == ("reclaimed", 7, 0)


def test_the_policy_that_an_admin_set_holds() -> None:
    world = Cohort()
    minute, kept = 60_000, timedelta(hours=2)
    policy = Policy(min_run_ms=59 * minute, claim_ms=120 * minute)
    set_policy(actor=None, policy=policy, now=NOW)
    world.job(nodes=2)
    cycle()
    # They have run for 60, 59, 58 and 57 minutes; an owner only takes the spared last.
    assert told_to_go() == ["spot0", "spot1"]
    assert Reservation.objects.get().deadline_at == LATER + GRACE + kept


def test_what_is_freed_is_the_claimants_and_nobody_elses() -> None:
    world = Cohort()
    owner = world.job(nodes=2, name="owner")
    cycle()
    tend_evictions(now=LATER + GRACE)
    end(world.spot[2])
    then = LATER + GRACE + timedelta(seconds=5)
    committed = cycle(then)
    assert committed.bound == 0  # one node is free, and kept: spot2 itself waits, too
    end(world.spot[3])
    assert cycle(then).bound == 1
    bound = attempt_of(owner)
    assert (sorted(bound.nodes), bound.service_class) == (["n3", "n4"], "guaranteed")
    assert not Reservation.objects.exists()
    victims = [Job.objects.get(id=job.id) for job in world.spot[2:]]
    assert [(v.state, v.queued_at, v.restarts) for v in victims] == [("queued", NOW, 0)] * 2


def test_within_a_tenant_a_more_urgent_job_evicts_as_spot_too() -> None:
    world = Cohort()
    urgent = world.job(tenant=world.spot[0].tenant, name="urgent", priority=501)
    world.job(tenant=world.spot[0].tenant, name="not urgent")
    assert cycle().claimed == 1
    assert told_to_go() == ["spot3"]
    assert attempt_of(world.spot[3]).evict_cause == "outranked"
    kept = Reservation.objects.get()
    assert (kept.job, kept.service_class, kept.nodes) == (urgent, "spot", ["n4"])
    assert cycle().claimed == 0
    tend_evictions(now=LATER + GRACE)
    assert attempt_of(world.spot[3]).end_cause == "outranked"
    end(world.spot[3])
    assert cycle(LATER + GRACE).bound == 1
    bound = attempt_of(urgent)
    assert (bound.service_class, bound.nodes) == ("spot", ["n4"])
    again = LATER + 3 * HOUR  # nobody is spared any more, and spot3 waits for its turn
    assert cycle(again).claimed == 0
    assert set(told_to_go()) == {"spot3"}


def test_what_is_told_to_go_as_spot_goes_for_an_owner_that_comes() -> None:
    world = Cohort()
    urgent = world.job(tenant=world.spot[0].tenant, name="urgent", nodes=2, priority=501)
    cycle()
    assert told_to_go() == ["spot2", "spot3"]
    first = {job.name: attempt_of(job).evict_by for job in world.spot[2:]}
    owner = world.job(nodes=1, name="owner")
    soon = LATER + timedelta(seconds=30)
    assert cycle(soon).claimed == 1
    kept = Reservation.objects.get()
    assert (kept.job, kept.service_class) == (owner, "guaranteed")
    (told,) = Attempt.objects.filter(evict_asked_at__isnull=False)
    assert (told.evict_for, told.nodes, told.evict_cause) == (owner.id, kept.nodes, "outranked")
    assert told.evict_by == first[told.job.name]  # once is enough
    assert Command.objects.filter(kind="signal", fence=told.fence).count() == 1
    (stays,) = Event.objects.filter(kind="job.spared")
    assert stays.subject in {str(job.uuid) for job in world.spot[2:]} - {str(told.job.uuid)}
    tend_evictions(now=LATER + GRACE)
    end(told.job)
    cycle(LATER + GRACE)
    assert attempt_of(owner).service_class == "guaranteed"
    assert not urgent.attempts.exists()


def test_whoever_is_not_needed_any_more_stays() -> None:
    world = Cohort()
    owner = world.job(nodes=2, name="owner")
    cycle()
    Job.objects.filter(id=owner.id).update(state="cancelled")
    cycle()
    assert not Reservation.objects.exists()
    assert told_to_go() == []
    tend_evictions(now=LATER + HOUR)
    assert {attempt_of(job).state for job in world.spot} == {"running"}
    assert Event.objects.filter(kind="job.spared").count() == 2


def test_nodes_that_are_gone_are_not_waited_for() -> None:
    world = Cohort()
    world.job(nodes=2, name="owner")
    cycle()
    first = set(Reservation.objects.get().nodes)
    world.clusters["c1"].nodes.filter(name__in=first).update(state="down")
    cycle()
    assert not Reservation.objects.exists()
    cycle()
    assert not first & set(Reservation.objects.get().nodes)
    assert told_to_go() == ["spot0", "spot1"]


@pytest.mark.parametrize("change", ["victim", "job", "quota", "cluster", "tenant", "asked"])
def test_a_claim_whose_basis_changed_tells_nobody_to_go(change: str) -> None:
    world = Cohort()
    owner = world.job(nodes=2)
    made = plan()
    assert len(made.claims) == 1
    match change:
        case "victim":
            end(world.spot[3])
        case "job":
            Job.objects.filter(id=owner.id).update(version=9)
        case "quota":
            Quota.objects.update(revision=9)
        case "cluster":
            Cluster.objects.update(revision=9)
        case "tenant":
            Tenant.objects.filter(path="acme").update(revision=9)
        case "asked":
            Job.objects.filter(id=world.spot[3].id).update(cancel_asked_at=LATER)
    assert commit_plan(plan=made, epoch=begin_term(now=NOW), now=LATER).claimed == 0
    assert told_to_go() == []
    assert not Reservation.objects.exists()
    assert not Command.objects.filter(kind="signal").exists()


def test_a_job_without_a_checkpoint_is_never_signalled_and_goes_at_once() -> None:
    world = Cohort()
    spec = {key: value for key, value in world.spot[0].spec.items() if key != "checkpoint"}
    Job.objects.filter(id__in=[job.id for job in world.spot]).update(spec=spec)
    world.job(nodes=2)
    cycle()
    tend_evictions(now=LATER)
    assert not Command.objects.filter(kind="signal").exists()
    assert Command.objects.filter(kind="cancel").count() == 2


def test_claims_take_a_constant_number_of_statements() -> None:
    world = Cohort()
    world.job(nodes=1)
    counts = []
    for _ in range(2):
        made = plan()
        with CaptureQueriesContext(connection) as asked:
            assert commit_plan(plan=made, epoch=begin_term(now=NOW), now=LATER).claimed
        counts.append(len(asked))
        for _ in range(2):
            world.job(nodes=1)
    assert counts[0] == counts[1]
