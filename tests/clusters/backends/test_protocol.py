"""The protocol's cases on the simulated Slurm and on the simulated Volcano."""

import pytest

from tests.clusters.backends.places import SlurmPlace, VolcanoPlace
from tests.clusters.backends.protocol import CASES, Case
from tests.clusters.backends.site import Site
from tests.clusters.backends.test_contract_simulator import endpoints, site
from tests.clusters.backends.volcano.test_dead import Dated
from tests.clusters.backends.volcano.test_dead import Site as VolcanoSite

__all__ = ["endpoints", "site"]  # fixtures


@pytest.mark.parametrize("scenario", CASES, ids=lambda case: case.__name__)
def test_simulated_slurm(site: Site, scenario: Case) -> None:
    scenario(SlurmPlace(site))


@pytest.mark.parametrize("scenario", CASES, ids=lambda case: case.__name__)
def test_simulated_volcano(scenario: Case) -> None:
    home = VolcanoSite()
    connection = home.connection(namespaces="team")
    place = VolcanoPlace(
        connection,
        home.nodes,
        "team-g",
        Dated(home.lab.cluster, {}),
        lambda: home.lab.wait(1),
    )
    scenario(place)
    place.close()
