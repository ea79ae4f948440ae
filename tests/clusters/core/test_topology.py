"""Where a gang goes in a tree of domains: tables that name the nodes, and an oracle by force."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.core.domains import shared_tier
from clusters.core.resources import GangShape, NodeShape
from clusters.core.topology import RANK, NodeRoom, Room

FULL = NodeShape(8, 64, 1000)


def node(name: str, *path: tuple[str, str], free: int = 8, usable: bool = True) -> NodeRoom:
    left = NodeShape(free, free * 8, free * 125)
    return NodeRoom(name, tuple(path), FULL, left, usable)


def gang(nodes: int, gpus: int = 8, *, exclusive: bool = False) -> GangShape:
    return GangShape(nodes, NodeShape(gpus, gpus, gpus), exclusive)


def leaves(*sizes: int, spines: int = 1) -> list[NodeRoom]:
    """Leaves l1, l2 ... of so many nodes, dealt over spines s1 ... in order."""
    per_spine = -(-len(sizes) // spines)
    return [
        node(f"l{leaf}n{n}", ("spine", f"s{1 + (leaf - 1) // per_spine}"), ("leaf", f"l{leaf}"))
        for leaf, size in enumerate(sizes, start=1)
        for n in range(1, size + 1)
    ]


def busy(nodes: list[NodeRoom], **free: int) -> list[NodeRoom]:
    return [node(n.name, *n.path, free=free[n.name]) if n.name in free else n for n in nodes]


TABLE = {
    "one leaf is enough": (leaves(4, 4), gang(4), "", "l1n1 l1n2 l1n3 l1n4", "leaf"),
    "the tightest leaf wins": (leaves(4, 2), gang(2), "", "l2n1 l2n2", "leaf"),
    "a leaf before a spine": (leaves(2, 2, 3, spines=3), gang(3), "", "l3n1 l3n2 l3n3", "leaf"),
    "two leaves of a spine before two spines": (
        leaves(3, 1, 2, 2, spines=2),
        gang(4),
        "",
        "l1n1 l1n2 l1n3 l2n1",
        "spine",
    ),
    "a whole cluster": (
        leaves(2, 2, spines=2),
        gang(4),
        "",
        "l1n1 l1n2 l2n1 l2n2",
        "cluster",
    ),
    "the rest goes where it leaves least": (
        leaves(4, 3, 1),
        gang(5),
        "spine",
        "l1n1 l1n2 l1n3 l1n4 l3n1",
        "spine",
    ),
    "few sub-domains are opened": (leaves(1, 1, 4, 2), gang(6), "", "l3n1 l3n2 l3n3 l3n4 l4n1 l4n2", "spine"),
    "one node is a host": (leaves(2, 2), gang(1), "leaf", "l1n1", "host"),
    "a part of a node goes to the fullest node": (
        busy(leaves(2, 2), l2n2=3, l1n2=5),
        gang(1, 2),
        "",
        "l2n2",
        "host",
    ),
    "equal nodes: the broken leaf": (busy(leaves(2, 2), l2n2=0), gang(1), "", "l2n1", "host"),
    "equal leaves: the broken spine": (
        busy(leaves(2, 2, 2, 2, spines=2), l3n1=0, l3n2=0),
        gang(2),
        "",
        "l4n1 l4n2",
        "leaf",
    ),
    "names count as people count": (
        [node(f"n{i}", ("leaf", "a")) for i in (10, 9, 2)],
        gang(2),
        "",
        "n2 n9",
        "leaf",
    ),
    "whole nodes only": (
        busy(leaves(2, 2), l1n1=7),
        gang(2, 1, exclusive=True),
        "",
        "l2n1 l2n2",
        "leaf",
    ),
    "a node that is down is none": (
        [node("a1", ("leaf", "a")), node("a2", ("leaf", "a"), usable=False),
         node("b1", ("leaf", "b")), node("b2", ("leaf", "b"))],
        gang(2), "", "b1 b2", "leaf",
    ),
    "no leaves here, so hosts of a spine do": (
        [node("a", ("spine", "s1")), node("b", ("spine", "s1")), node("c", ("spine", "s2"))],
        gang(2), "spine", "a b", "spine",
    ),
    "a leaf of one name under two spines is two leaves": (
        [node("a", ("spine", "s1"), ("leaf", "x")), node("b", ("spine", "s2"), ("leaf", "x"))],
        gang(2), "", "a b", "cluster",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_a_gang_takes_the_named_nodes(case: str) -> None:
    nodes, shape, required, expected, tier = TABLE[case]
    for given_nodes in (nodes, nodes[::-1]):
        block = Room(given_nodes).best_block(shape, required)
        assert block is not None
        assert (" ".join(block.nodes), block.tier) == (expected, tier)


@pytest.mark.parametrize(
    ("nodes", "shape", "required"),
    [
        (leaves(2, 2), gang(3), "leaf"),
        (leaves(2, 2, spines=2), gang(3), "spine"),
        (leaves(4), gang(2), "host"),
        (leaves(4), gang(2), "domain"),  # no tier domain here: only a host is as close
        (leaves(2, 2), gang(5), ""),
        (leaves(2), gang(1, 9), ""),
        (busy(leaves(2), l1n1=7), gang(2, 1, exclusive=True), ""),
        ([], gang(1), ""),
    ],
)
def test_what_does_not_fit_takes_nothing(
    nodes: list[NodeRoom], shape: GangShape, required: str
) -> None:
    assert Room(nodes).best_block(shape, required) is None


def test_a_required_tier_that_is_missing_is_met_by_a_lower_one_only() -> None:
    nodes = [node(f"{leaf}{n}", ("leaf", leaf)) for leaf in "ab" for n in (1, 2)]
    assert Room(nodes).best_block(gang(2), "spine") is not None
    assert Room(nodes).best_block(gang(3), "spine") is None
    assert Room(nodes).best_block(gang(3), "cluster") is not None


def test_cpus_and_memory_count_too() -> None:
    poor = NodeRoom("a", (), FULL, NodeShape(8, 4, 1000))
    slim = NodeRoom("b", (), FULL, NodeShape(8, 64, 4))
    assert Room([poor, slim]).best_block(GangShape(1, NodeShape(1, 5, 5), False)) is None


def test_excluded_nodes_are_left_alone() -> None:
    room = Room(leaves(2, 2))
    block = room.best_block(gang(2), "", frozenset({"l1n1"}))
    assert block is not None
    assert block.nodes == ("l2n1", "l2n2")


def test_fragmentation_says_how_much_smaller_the_largest_block_is() -> None:
    room = Room(leaves(2, 2, spines=2))
    assert room.free_blocks() == {"host": 8, "leaf": 16, "spine": 16, "cluster": 32}
    assert room.fragmentation("leaf") == 0
    room.take(["l1n1"], gang(1, 1))
    room.take(["l2n1"], gang(1, 1))
    assert room.free_blocks() == {"host": 8, "leaf": 8, "spine": 8, "cluster": 16}
    assert room.fragmentation("leaf") == 0.5
    assert room.fragmentation("domain") == 0
    room.take(["l1n2", "l2n2"], gang(2))
    assert room.free_gpus == 14
    assert room.fragmentation("leaf") == 1


TREES = st.lists(
    st.tuples(
        st.sampled_from(["", "s1", "s2"]),
        st.sampled_from(["", "l1", "l2", "l3"]),
        st.sampled_from(["", "d1", "d2"]),
        st.integers(0, 3),
        st.booleans(),
    ),
    min_size=1,
    max_size=7,
)


def _tree(rows: list[tuple[str, str, str, int, bool]]) -> list[NodeRoom]:
    total = NodeShape(3, 3, 3)
    return [
        NodeRoom(
            f"n{number}",
            tuple(
                (tier, name)
                for tier, name in (("spine", spine), ("leaf", leaf), ("domain", domain))
                if name
            ),
            total,
            NodeShape(free, free, free),
            usable,
        )
        for number, (spine, leaf, domain, free, usable) in enumerate(rows)
    ]


def _blocks(nodes: list[NodeRoom], shape: GangShape) -> list[tuple[int, tuple[str, ...]]]:
    """Every set of nodes that could hold the gang, with the rank of its tier."""
    able = [
        n for n in nodes
        if n.usable and n.free.gpus >= shape.per_node.gpus
        and (not shape.exclusive or n.free == n.total)
    ]  # fmt: skip
    return [
        (RANK[shared_tier([n.path for n in chosen])], tuple(n.name for n in chosen))
        for chosen in combinations(able, shape.nodes)
    ]


GANGS = st.tuples(st.integers(1, 4), st.integers(1, 3), st.booleans())
REQUIRED = st.sampled_from(["", "host", "domain", "leaf", "spine", "cluster"])


@settings(max_examples=400)
@given(TREES, st.lists(st.tuples(GANGS, REQUIRED), max_size=4), st.randoms(use_true_random=False))
def test_blocks_agree_with_force(rows: list, gangs: list, random: object) -> None:  # type: ignore[type-arg]
    nodes = _tree(rows)
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    room = Room(shuffled)
    for (count, gpus, exclusive), required in gangs:
        shape = GangShape(count, NodeShape(gpus, gpus, gpus), exclusive)
        allowed = [b for b in _blocks(nodes, shape) if b[0] <= RANK[required or "cluster"]]
        block = room.best_block(shape, required)
        assert (block is None) == (not allowed)
        if block is None:
            continue
        by_name = {n.name: n for n in nodes}
        assert len(set(block.nodes)) == count  # a gang is whole
        assert shared_tier([by_name[n].path for n in block.nodes]) == block.tier
        assert RANK[block.tier] == min(rank for rank, _ in allowed)  # no lower tier fits
        assert tuple(sorted(block.nodes)) in {tuple(sorted(names)) for _, names in allowed}
        room.take(block.nodes, shape)
        nodes = [_after(n, shape) if n.name in block.nodes else n for n in nodes]
        assert room.best_block(shape, required) == Room(nodes).best_block(shape, required)


def _after(node_: NodeRoom, shape: GangShape) -> NodeRoom:
    left = 0 if shape.exclusive else node_.free.gpus - shape.per_node.gpus
    return NodeRoom(node_.name, node_.path, node_.total, NodeShape(left, left, left), True)


FREE = st.lists(
    st.tuples(st.integers(0, 8), st.booleans(), st.integers(-1, 8)), min_size=1, max_size=7
)


@given(FREE, st.integers(1, 3), st.integers(1, 8), st.booleans(), st.sampled_from(["", "leaf"]))
def test_a_room_with_other_free_nodes_is_as_if_made_of_them(
    drawn: list[tuple[int, bool, int]], count: int, gpus: int, exclusive: bool, required: str
) -> None:
    """-1 leaves a node as it is. What was asked and taken of the first room before does not matter."""
    before = [
        node(f"n{i}", ("leaf", f"l{i % 3}"), free=free, usable=usable)
        for i, (free, usable, _) in enumerate(drawn)
    ]
    other = {f"n{i}": free for i, (_, _, free) in enumerate(drawn) if free >= 0}
    after = [
        node(n.name, *n.path, free=other.get(n.name, n.free.gpus), usable=n.usable) for n in before
    ]
    shape, room = gang(count, gpus, exclusive=exclusive), Room(before)
    room.fit(shape, required)
    left = {n.name: n.free for n in after if n.name in other}
    made, expected = room.with_free(left), Room(after)
    assert made.best_block(shape, required) == expected.best_block(shape, required)
    assert made.fit(shape, required) == expected.fit(shape, required)
    assert made.widest(shape, required) == expected.widest(shape, required)
    assert made.free_blocks() == expected.free_blocks()
    assert room.free_blocks() == Room(before).free_blocks()
