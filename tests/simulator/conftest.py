from pathlib import Path

import pytest

from tests.simulator.harness import Lab, lab_cluster


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(lab_cluster(tmp_path))
