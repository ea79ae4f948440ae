"""Quotas mirrored to real accounts, and then raised: the limit there does not follow by itself."""

from collections.abc import Iterator

import pytest

from clusters.models import Cluster, Flavor
from clusters.services.configure import update_cluster
from federation.selectors.member_limits import held_counts
from federation.selectors.quota_sums import uses_now
from quotas.services.mirror import apply_mirror, look_at_mirror
from quotas.services.rows import set_quota
from tests import make
from tests.live.slurm.books import agree
from tests.live.slurm.federation import H100, ORGANISATION, Muster, utc_now
from tests.stack import eventually

pytestmark = pytest.mark.live
TEAM, ACCOUNT = f"{ORGANISATION}/limited", "vision"


@pytest.fixture
def charged(muster: Muster) -> Iterator[Cluster]:
    """The cluster, where the team's jobs are charged to an account of their own."""
    before = Cluster.objects.get(name="alpha").options
    yield configured({**before, f"charge.{TEAM}": ACCOUNT})
    configured(before)
    muster.labs["alpha"].drop_limits(ACCOUNT, "ml")


def configured(options: dict[str, str]) -> Cluster:
    return update_cluster(
        actor=None,
        cluster=Cluster.objects.get(name="alpha"),
        changes={"options": options},
        expected_etag=None,
        now=utc_now(),
    )


def owe(gpus: int) -> None:
    set_quota(
        actor=None,
        tenant=make.tenant(TEAM),
        flavor=Flavor.objects.get(name=H100),
        cluster=None,
        guaranteed=gpus,
        borrowing_limit=0,
        why="live test",
        now=utc_now(),
    )


def mirrored(cluster: Cluster) -> None:
    apply_mirror(actor=None, cluster=cluster, uses=uses_now(), why="live test", now=utc_now())


def test_a_job_that_the_limit_holds_back_says_so_and_runs_when_it_is_raised(
    muster: Muster, charged: Cluster
) -> None:
    owe(8)
    mirrored(charged)
    owe(16)
    job = muster.submit(muster.body(TEAM, nodes=2))
    muster.until(job, "pending")
    eventually(lambda: muster.job(job)["reasons"] != [], within_s=60, every_s=0.2)
    (reason,) = muster.job(job)["reasons"]
    assert (reason["code"], reason["cluster"], reason["needed"]) == ("limit_reached", "alpha", 16)
    assert f"GPUs of the account {ACCOUNT} (AssocGrpGRES)" in reason["message"]
    assert "/clusters/alpha/quota-mirror" in reason["fix"]["description"]
    assert held_counts() == {charged.pk: 1}
    seen = look_at_mirror(cluster=charged, uses=uses_now(), now=utc_now())
    lines = {line.account: line for line in seen.lines}
    assert (lines[ACCOUNT].there, lines[ACCOUNT].wanted, lines[ACCOUNT].holds_back) == (8, 16, True)
    mirrored(charged)
    muster.until(job, "succeeded", within_s=120)
    assert len(muster.attempts(job)) == 1
    assert held_counts() == {}
    agree(muster, TEAM, [job])


def test_one_that_is_never_let_through_fails_with_that_reason(
    muster: Muster, charged: Cluster
) -> None:
    owe(8)
    mirrored(charged)
    owe(16)
    gang = {"start_timeout": 5, "max_restarts": 0}
    done = muster.until(muster.submit(muster.body(TEAM, nodes=2, gang=gang)), "failed")
    assert done["outcome"] == (
        "Never started whole on alpha, and no restart was left."
        " A limit of its own accounts held it back there (AssocGrpGRES)."
    )
