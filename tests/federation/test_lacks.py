"""Capability flags reach the deciding core, with a constant number of queries."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.core.capabilities import LACK_FIXES
from clusters.models import Cluster
from federation.core.cycle import decide
from federation.models import Job
from federation.selectors.snapshot import take_snapshot, waiting_job
from tests.federation.world import NOW, World

pytestmark = pytest.mark.django_db


def plain_job(world: World) -> Job:
    job = world.job()  # with a checkpoint signal
    Job.objects.filter(pk=job.pk).update(spec={**job.spec, "checkpoint": None})
    job.refresh_from_db()
    return job


def test_a_signal_is_read_only_where_a_cluster_cannot_pass_one() -> None:
    world = World()
    plain, wants = plain_job(world), world.job()
    with CaptureQueriesContext(connection) as before:
        snapshot = take_snapshot(NOW)
    assert [job.ask.signalled for job in snapshot.jobs] == [False, False]
    assert {binding.job for binding in decide(snapshot).bindings} == {plain.pk, wants.pk}
    Cluster.objects.update(capabilities={"signal": False, "accounting": True})
    with CaptureQueriesContext(connection) as after:
        snapshot = take_snapshot(NOW)
    assert len(after) == len(before)
    assert [job.ask.signalled for job in snapshot.jobs] == [False, True]
    plan = decide(snapshot)
    assert {binding.job for binding in plan.bindings} == {plain.pk}
    assert plan.reasons[wants.pk][0].unit == "signal"
    assert waiting_job(wants).ask.signalled
    assert not waiting_job(plain).ask.signalled


def test_a_job_goes_only_where_it_can_be_started_in_one_of_its_forms() -> None:
    world = World()
    script, image, both = (
        world.job(forms=forms) for forms in (["script"], ["image"], ["script", "image"])
    )
    for backend, lacking in (("slurm", image), ("volcano", script)):
        Cluster.objects.update(backend=backend)
        plan = decide(take_snapshot(NOW))
        assert {one.job for one in plan.bindings} == {script.pk, image.pk, both.pk} - {lacking.pk}
        (reason,) = plan.reasons[lacking.pk]
        assert reason.code == "backend_cannot_run"
        assert reason.unit == {"slurm": "script", "volcano": "image"}[backend]
        assert reason.unit in waiting_job(both).ask.forms
        assert LACK_FIXES[reason.unit].startswith(f"Give the job a run.{reason.unit}")


def test_a_cluster_without_accounting_gets_no_job_unless_its_admin_chose_so() -> None:
    world = World()
    job = world.job()
    Cluster.objects.update(capabilities={"accounting": False})
    plan = decide(take_snapshot(NOW))
    assert not plan.bindings
    assert plan.reasons[job.pk][0].code == "backend_cannot_run"
    Cluster.objects.update(options={"accounting": "off"})
    assert len(decide(take_snapshot(NOW)).bindings) == 1
