import pytest
from django.db.migrations.recorder import MigrationRecorder

from federation.models import ArbiterTerm
from tests.api.world import World, client


def test_alive_and_ready(world: World) -> None:
    for path in ("/healthz", "/readyz"):
        answer = world.nobody.client.get(path)
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")


def test_not_ready_while_a_migration_is_missing(world: World) -> None:
    MigrationRecorder.Migration.objects.filter(app="federation").delete()
    answer = world.nobody.client.get("/readyz")
    assert answer.status_code == 503
    assert "migrations" in answer.json()["why"]


def test_alive_without_a_database() -> None:
    assert client().get("/healthz").status_code == 200  # pytest allows no query here


@pytest.mark.parametrize(
    "line",
    [
        'muster_jobs{state="queued"} 1.0',
        'muster_jobs{state="running"} 1.0',
        'muster_jobs{state="held"} 1.0',
        "muster_arbiter_epoch 7.0",
        'muster_outbox_commands{cluster="aurora"} 1.0',
        'muster_cluster_failing{cluster="aurora"} 0.0',
        'muster_usage_intervals{why="running"} 0.0',
    ],
)
def test_metrics_are_read_from_the_tables(world: World, line: str) -> None:
    world.job()
    world.bob.post(f"/jobs/{world.job().uuid}/hold")
    running = world.job()
    world.bind(running)
    world.bob.post(f"/jobs/{running.uuid}/cancel")
    running.state = "running"
    running.save(update_fields=["state"])
    ArbiterTerm.objects.update_or_create(id=1, defaults={"epoch": 7})
    text = world.nobody.client.get("/metrics").content.decode()
    assert line in text.splitlines()
