"""The two lab clusters. Without them these tests are skipped, and say how to have them."""

from pathlib import Path

import pytest

from tests.live.slurm.lab import HOW, LabCluster, lab_directory


@pytest.fixture(scope="session")
def lab() -> Path:
    directory = lab_directory()
    if directory is None:
        pytest.skip(HOW)
    return directory


@pytest.fixture
def alpha(lab: Path) -> LabCluster:
    return LabCluster(lab / "clusters" / "alpha")


@pytest.fixture
def beta(lab: Path) -> LabCluster:
    return LabCluster(lab / "clusters" / "beta")
