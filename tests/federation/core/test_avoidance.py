"""What kept an earlier attempt from running is avoided, but never at the price of waiting for ever."""

import pytest

from federation.core.cycle import decide
from federation.core.snapshot import ClusterView
from tests.federation.core.build import cluster, job, node, nodes, placed, snapshot

FOUR = cluster("c1", {"h100": nodes(4, leaf_size=4)})
TWO_LEAVES = cluster("c1", {"h100": [node("n1", "l1"), node("n2", "l1"), node("n3", "l2")]})
SECOND = cluster("c2", {"h100": nodes(4, leaf_size=4)})


@pytest.mark.parametrize(
    ("gang", "avoid", "clusters", "expected"),
    [
        ("2x8", ("c1/n1",), [FOUR], {1: "c1/h100/guaranteed/leaf: n2 n3"}),
        # the gang needs them all: a node that is back is taken again
        ("4x8", ("c1/n1",), [FOUR], {1: "c1/h100/guaranteed/leaf: n1 n2 n3 n4"}),
        # nodes of another cluster do not matter here
        ("4x8", ("c9/n1",), [FOUR], {1: "c1/h100/guaranteed/leaf: n1 n2 n3 n4"}),
        # a cluster that refused the job comes last, and is tried again when there is no other
        ("1x8", ("c1/*",), [FOUR, SECOND], {1: "c2/h100/guaranteed/host: n1"}),
        ("1x8", ("c1/*",), [FOUR], {1: "c1/h100/guaranteed/host: n1"}),
    ],
)
def test_avoided(
    gang: str, avoid: tuple[str, ...], clusters: list[ClusterView], expected: dict[int, str]
) -> None:
    plan = decide(snapshot([job(1, gang, avoid_nodes=avoid)], clusters))
    assert placed(plan) == expected


def test_a_required_tier_counts_when_asking_whether_the_gang_can_do_without() -> None:
    plan = decide(
        snapshot([job(1, "2x8", avoid_nodes=("c1/n1",), required_tier="leaf")], [TWO_LEAVES])
    )
    assert placed(plan) == {1: "c1/h100/guaranteed/leaf: n1 n2"}
