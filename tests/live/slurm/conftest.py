"""The two lab clusters. Without them these tests are skipped, and say how to have them."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test.utils import setup_databases, teardown_databases
from pytest_django.plugin import DjangoDbBlocker

from tests.live.slurm.federation import Muster, homes_in
from tests.live.slurm.lab import HOW, LabCluster, lab_directory
from tests.stack import Stack

pytest.register_assert_rewrite("tests.live.slurm.books")


@pytest.fixture(scope="session")
def lab() -> Path:
    directory = lab_directory()
    if directory is None:
        pytest.skip(HOW)
    return directory


@pytest.fixture(scope="session")
def alpha(lab: Path) -> LabCluster:
    return LabCluster(lab / "clusters" / "alpha")


@pytest.fixture(scope="session")
def beta(lab: Path) -> LabCluster:
    return LabCluster(lab / "clusters" / "beta")


@pytest.fixture(scope="session")
def database(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A test database for the whole session: what the processes do is committed and stays."""
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, aliases={"default"})
        try:
            yield
        finally:
            teardown_databases(made, verbosity=0)


@pytest.fixture(scope="session")
def service(
    lab: Path,
    alpha: LabCluster,
    beta: LabCluster,
    database: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Muster]:
    """All processes, once for all tests."""
    directory = tmp_path_factory.mktemp("stack")
    environment = {"MUSTER_OBSERVE_INTERVAL_MS": "700", "MUSTER_SILENT_AFTER_MS": "3000"}
    stack = Stack(directory, environment)
    with homes_in(lab) as homes:
        muster = Muster(stack, {"alpha": alpha, "beta": beta}, homes)
        try:
            # whoever ends the run also ends the processes, which are in sessions of their own
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            stack.start()
            for cluster in (alpha, beta):
                cluster.drop_jobs()
                muster.register(cluster)
            for account in ("mia", "ben"):
                muster.make_home(account)
                muster.welcome(account, clusters=("alpha", "beta"))
            stack.wait_until_ready()
            yield muster
        finally:
            for person in muster.people.values():
                person.client.close()
            stack.stop()


@pytest.fixture
def muster(service: Muster) -> Muster:
    """The service over two idle clusters."""
    service.clear()
    return service
