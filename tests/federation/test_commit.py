"""A plan becomes true binding by binding; what changed since the snapshot is left alone."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from clusters.core.gang import Gang
from clusters.models import Cluster, ClusterAccount, Command, Node
from federation.core.cycle import decide
from federation.core.plan import Plan
from federation.models import ArbiterTerm, Attempt, Decision, Job, Telling
from federation.selectors.snapshot import take_snapshot
from federation.services import reasons
from federation.services.commit import Committed, TermLostError, begin_term, commit_plan
from federation.services.move import move_tenant
from quotas.models import Quota
from tenancy.models import Event, Tenant
from tenancy.services.tree import update_tenant
from tests import make
from tests.federation.world import FLAVOR, NOW, World

pytestmark = pytest.mark.django_db


def plan_now() -> Plan:
    return decide(take_snapshot(NOW))


def commit(plan: Plan | None = None) -> Committed:
    return commit_plan(plan=plan or plan_now(), epoch=begin_term(now=NOW), now=NOW)


def test_a_binding_is_an_attempt_an_order_an_event_and_a_changed_job() -> None:
    world = World()
    job = world.job(nodes=2)
    assert commit() == Committed(1, 0, 0, (world.clusters["c1"].id,), jobs=(job.id,))
    job.refresh_from_db()
    attempt, command = Attempt.objects.get(), Command.objects.get()
    assert (job.state, job.class_now, job.version, job.attempts_made) == (
        "dispatching", "guaranteed", 2, 1,
    )  # fmt: skip
    assert (attempt.nodes, attempt.tier, attempt.account) == (["n1", "n2"], "leaf", "mia_there")
    assert (attempt.gpus_per_node, attempt.cpus_per_node, attempt.state) == (8, 32, "dispatching")
    assert (command.key, command.kind, command.state) == (
        f"submit:{attempt.id}",
        "submit",
        "waiting",
    )
    gang = Gang.from_json(command.payload)
    assert gang.fence == attempt.fence == command.fence
    assert (gang.account, gang.charge, gang.service_class, gang.queue) == (
        "mia_there", "acct", "high", "gpu",
    )  # fmt: skip
    assert (gang.device, gang.nodes, gang.time_limit_s) == ("h100", ("n1", "n2"), 3600)
    assert (gang.signal, gang.grace_s, gang.title) == ("USR1", 120, "llm")
    assert gang.environment == {
        "NCCL_DEBUG": "WARN",
        "MUSTER_JOB_ID": str(job.uuid),
        "MUSTER_ATTEMPT": "1",
        "MUSTER_CLUSTER": "c1",
        "MUSTER_FLAVOR": FLAVOR,
        "MUSTER_CLASS": "guaranteed",
        "MUSTER_TIER": "leaf",
        "MUSTER_NODES": "n1,n2",
        "MUSTER_GPUS_PER_NODE": "8",
    }
    event = Event.objects.get()
    assert (event.kind, event.cause, event.subject) == ("job.dispatching", "bound", str(job.uuid))
    assert event.tenant_id == world.tenant.id
    assert event.data["nodes"] == ["n1", "n2"]
    assert Decision.objects.get().bound[0]["job"] == str(job.uuid)


def test_a_job_goes_to_the_queue_of_its_tenant_flavor_and_class() -> None:
    world = World()
    Cluster.objects.update(options={f"queue.{world.tenant.path}": "team-{flavor}-{class}"})
    world.job(nodes=1)
    assert commit().bound == 1
    gang = Gang.from_json(Command.objects.get().payload)
    assert gang.queue == f"team-{FLAVOR}-guaranteed"


def test_a_job_is_charged_to_the_account_of_its_tenant() -> None:
    world = World()
    named = {"charge": "all", f"charge.{world.tenant.path}": "theirs"}
    Cluster.objects.update(options=named)
    world.job()
    commit()
    assert Gang.from_json(Command.objects.get().payload).charge == "theirs"


def test_what_was_promised_is_not_promised_again() -> None:
    world = World()
    world.job(nodes=3)
    world.job(nodes=2)
    assert commit().bound == 1
    for _ in range(2):
        assert commit().bound == 0
    assert Attempt.objects.count() == Command.objects.count() == 1
    held = Attempt.objects.get()
    Attempt.objects.update(state="running", nodes_seen=held.nodes)
    assert commit().bound == 0
    Attempt.objects.update(state="ended")
    Job.objects.filter(attempts_made=1).update(state="succeeded")
    assert commit().bound == 1


def test_a_second_attempt_has_a_fence_of_its_own() -> None:
    world = World()
    world.job()
    commit()
    Attempt.objects.update(state="ended")
    Job.objects.update(state="queued", avoid_nodes=["c1/n1"])
    commit()
    one, two = Attempt.objects.order_by("number")
    assert one.fence.removesuffix("1") == two.fence.removesuffix("2")
    assert (two.number, two.nodes) == (2, ["n2"])


CHANGES: dict[str, Callable[[World, Job], object]] = {
    "job": lambda _, job: Job.objects.filter(id=job.id).update(version=F("version") + 1),
    "job (held)": lambda _, job: Job.objects.filter(id=job.id).update(state="held", held_by="owner"),
    "job (cancel asked)": lambda _, job: Job.objects.filter(id=job.id).update(cancel_asked_at=NOW),
    "job (has an open attempt)": lambda world, job: Attempt.objects.create(
        job=job, number=9, fence="mst-aaaaaaaaaaaa-a9", cluster=world.clusters["c1"],
        flavor_id=FLAVOR, service_class="spot", nodes=["n9"], gpus_per_node=1, cpus_per_node=1,
        memory_mib_per_node=0, exclusive=False, tier="host", account="mia", bound_at=NOW,
    ),
    "cluster": lambda *_: Cluster.objects.filter(name="c1").update(revision=F("revision") + 1),
    "cluster (draining)": lambda *_: Cluster.objects.filter(name="c1").update(state="draining"),
    "account": lambda *_: ClusterAccount.objects.filter(cluster__name="c1").delete(),
    "tenant": lambda *_: Tenant.objects.filter(path="acme").update(is_open=False),
    "tenant (moved)": lambda world, _: move_tenant(
        actor=None, tenant=world.tenant, parent=None, now=NOW
    ),
    "tenant (another is moved beside it)": lambda *_: move_tenant(
        actor=None, tenant=make.tenant("rival"), parent=make.tenant("acme"), now=NOW
    ),
    "quota": lambda *_: Quota.objects.update(revision=F("revision") + 1),
    "quota (a new row above)": lambda *_: Quota.objects.create(
        tenant=Tenant.objects.get(path="acme"), flavor_id=FLAVOR, guaranteed=1
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_since_the_snapshot_is_stale(what: str) -> None:
    world = World()
    job = world.job()
    plan = plan_now()
    CHANGES[what](world, job)
    before = Job.objects.values().get()
    assert commit(plan) == Committed(0, 1, 0, ())
    assert Job.objects.values().get() == before
    assert not Command.objects.exists()
    assert Decision.objects.get().stale == [{"job": job.id, "changed": what.split()[0]}]


def test_the_other_bindings_commit() -> None:
    world = World(clusters=("c1", "c2"))
    moved = world.job(only_clusters=["c1"])
    others = [world.job(only_clusters=["c2"]) for _ in range(3)]
    plan = plan_now()
    Cluster.objects.filter(name="c1").update(revision=99)
    bound = tuple(job.id for job in others)
    assert commit(plan) == Committed(3, 1, 0, (world.clusters["c2"].id,), jobs=bound)
    assert set(Attempt.objects.values_list("job_id", flat=True)) == {job.id for job in others}
    assert commit().bound == 1  # decided again on the new revision
    assert Attempt.objects.get(job=moved).cluster.name == "c1"


def test_an_older_epoch_writes_nothing() -> None:
    world = World()
    world.job()
    world.job(nodes=9)
    epoch = begin_term(now=NOW)
    assert begin_term(now=NOW) == epoch + 1
    with pytest.raises(TermLostError), transaction.atomic():
        commit_plan(plan=plan_now(), epoch=epoch, now=NOW)
    assert not Attempt.objects.exists()
    assert set(Job.objects.values_list("state", flat=True)) == {"queued"}


def test_a_plan_written_twice_is_written_once() -> None:
    world = World()
    world.job()
    plan = plan_now()
    assert commit(plan).bound == 1
    assert commit(plan) == Committed(0, 1, 0, ())
    assert Attempt.objects.count() == 1


def test_reasons_and_queue_are_written_when_they_change() -> None:
    world = World()
    big, bigger = world.job(nodes=5, name='say "ü"\n'), world.job(nodes=6)
    assert commit().told == 2
    big.refresh_from_db()
    assert big.reasons == [
        {
            "cluster": "c1",
            "flavor": FLAVOR,
            "code": "gang_too_large",
            "message": "It needs 5 nodes with 8 GPUs each; c1 has 4 such nodes.",
            "needed": 5,
            "available": 4,
            "unit": "nodes",
            "until": None,
        }
    ]
    assert big.version == 1  # being told is no change of the job
    ranked = ArbiterTerm.objects.get()
    assert ranked.queue == [big.id, bigger.id]
    later = NOW + timedelta(seconds=9)
    plan = decide(take_snapshot(later))
    again = commit_plan(plan=plan, epoch=ranked.epoch, now=later)
    assert again == Committed(0, 0, 0, ())
    term = ArbiterTerm.objects.get()
    assert (term.ranked_at, term.cycled_at) == (ranked.ranked_at, later)
    Cluster.objects.update(state="draining")
    assert commit().told == 2
    assert {job.reasons[0]["code"] for job in Job.objects.all()} == {"cluster_draining"}


def test_what_was_told_is_looked_at_once_a_second_and_news_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    first, second = (world.job(nodes=5 + n) for n in range(2))
    monkeypatch.setattr(reasons, "MOST_TOLD", 1)
    epoch = begin_term(now=NOW)

    def told_at(moment: datetime) -> tuple[int, list[int], list[str]]:
        plan = decide(take_snapshot(moment))
        told = commit_plan(plan=plan, epoch=epoch, now=moment).told
        codes = [
            job.reasons[0]["code"] if job.reasons else "" for job in Job.objects.order_by("id")
        ]
        return told, ArbiterTerm.objects.get().queue, codes

    assert told_at(NOW) == (1, [first.id, second.id], ["gang_too_large", ""])
    third = world.job(nodes=7)
    Cluster.objects.update(state="draining")
    soon = NOW + timedelta(milliseconds=200)
    old = [first.id, second.id]
    assert told_at(soon) == (1, old, ["gang_too_large", "cluster_draining", ""])
    assert told_at(soon) == (1, old, ["gang_too_large", *["cluster_draining"] * 2])
    assert told_at(soon)[0] == 0
    later = NOW + timedelta(seconds=1)
    assert told_at(later) == (1, [*old, third.id], ["cluster_draining"] * 3)
    assert told_at(NOW)[0] == 0  # also when the clock is set back
    assert ArbiterTerm.objects.get().told_at == NOW


def test_what_was_told_is_told_of_the_job_as_it_was() -> None:
    world, memory, epoch = World(), reasons.Memory(), begin_term(now=NOW)
    job = world.job(nodes=5)

    def told_at(second: int) -> int:
        moment = NOW + timedelta(seconds=second)
        plan = decide(take_snapshot(moment))
        return commit_plan(plan=plan, epoch=epoch, now=moment, memory=memory).told

    assert [told_at(second) for second in (0, 1, 2)] == [1, 0, 0]
    Job.objects.update(options=[{**job.options[0], "nodes": 6}], version=F("version") + 1)
    assert Job.objects.get().reasons == []
    assert told_at(2) == 1  # at once, as news
    assert Job.objects.get().reasons[0]["needed"] == 6
    Cluster.objects.update(state="draining")
    assert told_at(3) == 1
    Cluster.objects.update(state="active")
    Job.objects.update(options=[{**job.options[0], "nodes": 2}], version=F("version") + 1)
    assert told_at(4) == 0
    assert (Job.objects.get().state, Telling.objects.count()) == ("dispatching", 0)
    Attempt.objects.update(state="ended")
    Job.objects.update(state="queued")
    Cluster.objects.update(state="draining")
    assert told_at(4) == 1
    assert Job.objects.get().reasons[0]["code"] == "cluster_draining"


def test_a_plan_that_is_not_written_is_not_remembered() -> None:
    world, memory = World(), reasons.Memory()
    world.job(nodes=5)
    plan = plan_now()
    with pytest.raises(TermLostError):
        commit_plan(plan=plan, epoch=begin_term(now=NOW) + 1, now=NOW, memory=memory)
    told = commit_plan(plan=plan, epoch=begin_term(now=NOW), now=NOW, memory=memory).told
    assert told == Telling.objects.count() == 1


def test_the_digest_of_what_was_told_is_the_databases() -> None:
    """Names with any letters: no reason is written again when nothing changed."""
    world = World(clusters=())
    cluster = world.add_cluster("c1", nodes=1)
    Cluster.objects.filter(id=cluster.id).update(name='c "1" \\ é \u2028')
    world.job(nodes=2)
    assert commit().told == 1
    assert commit().told == 0


def test_what_is_silent_or_reserved_or_foreign_is_not_free() -> None:
    world = World()
    world.job(gpus=8)
    Node.objects.update(foreign_gpus=1)
    assert commit().bound == 0
    Node.objects.filter(name="n3").update(foreign_gpus=0)
    Cluster.objects.update(last_seen_at=NOW - timedelta(minutes=5))
    assert commit().bound == 0
    assert Job.objects.get().reasons[0]["code"] == "cluster_unreachable"
    Cluster.objects.update(last_seen_at=NOW - timedelta(seconds=5))
    assert commit().bound == 1  # a short silence changes nothing


def test_the_number_of_statements_does_not_depend_on_the_number_of_jobs() -> None:
    world = World()
    counts = []
    for size in (1, 12):
        for _ in range(size):
            world.job(gpus=1)
            world.job(nodes=9)
        epoch = begin_term(now=NOW)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            plan = decide(take_snapshot(NOW))
            committed = commit_plan(plan=plan, epoch=epoch, now=NOW)
        assert committed.bound == committed.told == size
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_a_closed_tenant_finishes_what_runs_and_starts_nothing_until_it_is_open() -> None:
    world = World()
    world.job(nodes=2)
    assert commit().bound == 1
    Attempt.objects.update(state="running", nodes_seen=Attempt.objects.get().nodes)
    Job.objects.update(state="running")
    running = Job.objects.values().get()
    world.job(nodes=1)
    above = Tenant.objects.get(path="acme")
    update_tenant(actor=None, tenant=above, changes={"is_open": False}, now=NOW)
    assert commit().bound == 0
    assert [one["code"] for one in Job.objects.get(state="queued").reasons] == ["tenant_closed"]
    assert Job.objects.values().get(id=running["id"]) == running
    assert not Command.objects.exclude(kind="submit").exists()
    update_tenant(actor=None, tenant=above, changes={"is_open": True}, now=NOW)
    assert commit().bound == 1
