"""Nodes that are kept for a gang: what is free of them is set aside, and what comes free as well."""

from hypothesis import given
from hypothesis import strategies as st

from clusters.core.resources import GangShape, NodeShape
from clusters.core.topology import NodeRoom, Room

FULL = NodeShape(8, 8, 8)


def node(name: str, free: int = 8, *, usable: bool = True) -> NodeRoom:
    return NodeRoom(name, (("leaf", "l"),), FULL, NodeShape(free, free, free), usable)


def gang(nodes: int, gpus: int, *, exclusive: bool = False) -> GangShape:
    return GangShape(nodes, NodeShape(gpus, gpus, gpus), exclusive)


def test_what_is_free_is_set_aside_and_counted() -> None:
    room = Room([node("a"), node("b", 3), node("c", 0)])
    assert not room.holds(["a", "b"], gang(2, 4))
    assert room.keep(["a", "b", "c"], gang(3, 4)) == 4 + 3
    assert room.free_gpus == 4
    assert room.holds(["a"], gang(1, 4))
    assert not room.holds(["b"], gang(1, 1))


def test_a_whole_node_is_set_aside_whole() -> None:
    room = Room([node("a"), node("b", 7)])
    assert room.holds(["a"], gang(1, 1, exclusive=True))
    assert not room.holds(["b"], gang(1, 1, exclusive=True))
    assert room.keep(["a", "b"], gang(2, 1, exclusive=True)) == 15
    assert room.free_gpus == 0


def test_a_node_that_is_down_holds_nothing() -> None:
    assert not Room([node("a", usable=False)]).holds(["a"], gang(1, 0))


@given(
    st.lists(st.integers(0, 8), min_size=3, max_size=3),
    st.integers(1, 8),
    st.integers(1, 8),
    st.booleans(),
)
def test_counts_made_before_catch_up(free: list[int], kept: int, asked: int, alone: bool) -> None:
    room = Room([node(name, gpus) for name, gpus in zip("abc", free, strict=True)])
    for nodes in (1, 2, 3):
        room.fit(gang(nodes, asked))
        room.fit(gang(nodes, asked, exclusive=True))
    aside = room.keep("ab", gang(2, kept, exclusive=alone))
    left = [0 if alone else max(0, gpus - kept) for gpus in free[:2]] + free[2:]
    assert aside == sum(free) - sum(left)
    anew = Room([node(name, gpus) for name, gpus in zip("abc", left, strict=True)])
    for nodes in (1, 2, 3):
        assert room.best_block(gang(nodes, asked)) == anew.best_block(gang(nodes, asked))
        whole = gang(nodes, asked, exclusive=True)
        assert room.fit(whole) == anew.fit(whole)
