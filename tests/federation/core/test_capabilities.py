"""What a cluster cannot do keeps jobs away that need it, with words and a fix."""

from dataclasses import replace

import pytest

from clusters.core.backend import Finding
from clusters.core.capabilities import ESSENTIAL, LACK_FIXES, LACK_WORDS, flavor_gaps, gaps, lacks
from clusters.core.observation import (
    ForeignLoad,
    NodeSeen,
    NodeState,
    Observation,
    QueueSeen,
)
from federation.core.cycle import decide
from federation.core.fixes import fix_for
from federation.core.snapshot import ClusterState
from tests.federation.core.build import cluster, job, nodes, placed, snapshot

OPEN = cluster("c1", {"h100": nodes(4)})
OTHER = cluster("c2", {"h100": nodes(4)})


def without(*names: str) -> object:
    return replace(OPEN, lacks=frozenset(names))


@pytest.mark.parametrize(
    ("lacking", "signalled", "stays_away"),
    [
        ((), True, False),
        (("signal",), False, False),
        (("signal",), True, True),
        (("accounting",), False, True),
        (("devices",), False, True),
        (("accounting", "signal"), True, True),
    ],
)
def test_a_job_goes_only_where_all_that_it_needs_works(
    lacking: tuple[str, ...], signalled: bool, stays_away: bool
) -> None:
    one = job(1, signalled=signalled)
    plan = decide(snapshot([one], [without(*lacking)]))  # type: ignore[list-item]
    assert bool(plan.bindings) is not stays_away
    elsewhere = decide(snapshot([one], [without(*lacking), OTHER]))  # type: ignore[list-item]
    assert placed(elsewhere)[1].startswith("c2/" if stays_away else "c1/")
    if stays_away:
        (reason,) = next(iter(plan.reasons.values()))
        assert reason.code == "backend_cannot_run"
        assert reason.unit == lacking[0]
        assert reason.message == f"c1 {LACK_WORDS[lacking[0]]}."
        fix = fix_for({"code": reason.code, "unit": reason.unit})
        assert fix is not None
        assert fix["description"] == LACK_FIXES[lacking[0]]


def test_a_missing_account_is_told_before_what_the_cluster_lacks() -> None:
    view = replace(OPEN, people=frozenset(), lacks=frozenset({"accounting"}))
    plan = decide(snapshot([job(1)], [view]))
    (reason,) = plan.reasons[1]
    assert (reason.code, reason.unit) == ("backend_cannot_run", None)
    assert "no account" in reason.message


def test_a_cut_off_cluster_takes_nothing_and_says_so() -> None:
    plan = decide(snapshot([job(1)], [replace(OPEN, state=ClusterState.CUT_OFF)]))
    (reason,) = plan.reasons[1]
    assert not plan.bindings
    assert (reason.code, reason.message) == (
        "cluster_draining",
        "c1 is cut off: nothing new goes there.",
    )


def test_only_what_was_found_off_counts_and_an_admin_may_do_without_accounting() -> None:
    assert lacks({}, {}) == frozenset()
    off = {"accounting": False, "signal": False, "logs": False, "devices": True}
    assert lacks(off, {}) == {"accounting", "signal"}
    assert lacks(off, {"accounting": "off"}) == {"signal"}
    findings = [Finding(name, False, "off") for name in (*ESSENTIAL, "logs")]
    assert [gap.capability for gap in gaps(findings, {})] == list(ESSENTIAL)
    chosen = [gap.capability for gap in gaps(findings, {"accounting": "off"})]
    assert chosen == [name for name in ESSENTIAL if name != "accounting"]
    assert set(LACK_WORDS) == set(LACK_FIXES)


def test_flavors_are_compared_with_the_nodes_that_their_queue_reaches() -> None:
    seen = Observation(
        begun_ms=0,
        cluster_ms=0,
        nodes=(
            NodeSeen("n1", NodeState.UP, "h100", 8, 64, 1000, (), ("batch",)),
            NodeSeen("n2", NodeState.UP, "a100", 8, 64, 1000, (), ("old",)),
        ),
        queues=(QueueSeen("batch", True, 1, None), QueueSeen("old", True, 1, None)),
        reservations=(),
        gangs=(),
        foreign=ForeignLoad(),
        accounting_answered=True,
    )
    rows = [
        {"flavor": "a", "device": "h100", "queue": ""},
        {"flavor": "b", "device": "a100", "queue": "batch"},
        {"flavor": "c", "device": "a100", "queue": "none"},
    ]
    found = list(flavor_gaps(rows, seen))
    assert [problem.pointer for problem in found] == ["/flavors/1/device", "/flavors/2/queue"]
    assert found[0].detail.endswith("It has: h100.")
    assert "batch, old" in found[1].detail
