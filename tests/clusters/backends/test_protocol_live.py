"""The protocol's cases on real Slurm (alpha of the lab)."""

import pytest

from tests.clusters.backends.places import SlurmPlace
from tests.clusters.backends.protocol import CASES, Case
from tests.clusters.backends.site import Site
from tests.clusters.backends.test_contract_live import cluster, site

__all__ = ["cluster", "site"]  # fixtures
pytestmark = pytest.mark.live


@pytest.mark.parametrize("scenario", CASES, ids=lambda case: case.__name__)
def test_real_slurm(site: Site, scenario: Case) -> None:
    scenario(SlurmPlace(site))
