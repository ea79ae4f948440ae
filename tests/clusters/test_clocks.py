"""Whatever clock a cluster shows, it is read or refused in words, and nothing breaks."""

import httpx
import pytest

from clusters.core.observation import MOST_SKEW_MS
from clusters.models import Cluster, Observation
from clusters.services.observe import observe
from clusters.services.probe import ProbeFailedError, probe_cluster
from kit.intervals import to_ms
from tests import make
from tests.clusters.backends.fake import reply
from tests.clusters.members import Member, installed
from tests.clusters.test_deliver import LIFE, PINNED
from tests.make import NOW

NOW_S = to_ms(NOW) // 1000


def read(req_time: object) -> Cluster:
    """The cluster after one reading in which its `diag` tells this time."""
    cluster = make.cluster("aurora", options=PINNED)

    def first(request: httpx.Request) -> httpx.Response | None:
        is_diag = request.url.path.endswith("/diag")
        return reply(statistics={"req_time": req_time}) if is_diag else None

    with installed(aurora=Member(first)):
        observe(cluster_id=cluster.id, fences=[], holder="test", life=LIFE, clock=lambda: NOW)
        cluster.refresh_from_db()
        if cluster.failing_since is not None:
            with pytest.raises(ProbeFailedError, match="does not tell the time"):
                probe_cluster(actor=None, cluster=cluster, now=NOW)
    return cluster


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("told_s", "skew_ms"),
    [(NOW_S - 3, -3000), (1, -MOST_SKEW_MS), (2 * NOW_S, MOST_SKEW_MS)],
    ids=["a little off", "since 1970", "far ahead"],
)
def test_a_clock_that_is_off_is_read(told_s: int, skew_ms: int) -> None:
    cluster = read(told_s)
    assert (cluster.failing_since, cluster.clock_skew_ms) == (None, skew_ms)
    assert Observation.objects.filter(cluster=cluster).exists()


@pytest.mark.django_db
@pytest.mark.parametrize("told", [None, 0, "soon", {"set": False, "number": 5}])
def test_a_cluster_that_tells_no_time_is_not_read(told: object) -> None:
    cluster = read(told)
    assert cluster.failing_since == NOW
    assert cluster.failure == "its diag does not tell the time"
    assert not Observation.objects.filter(cluster=cluster).exists()
