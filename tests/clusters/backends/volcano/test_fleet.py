"""What Kubernetes' nodes and Volcano's HyperNodes say, in our words."""

from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.backends.volcano.nodes import node_seen, resource_of
from clusters.backends.volcano.quantities import amount, asked, held
from clusters.backends.volcano.topology import paths
from clusters.core.devices import devices_of
from clusters.core.observation import NodeState
from clusters.core.resources import NodeShape


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8), (8, 8), ("500m", Fraction(1, 2)), ("64Gi", 64 * 2**30), ("1e3", 1000),
        ("1.5G", 15 * 10**8), ("0", 0), ("2097152Ki", 2**31), ("5E", 5 * 10**18), ("1E2", 100),
        ("-1", -1), (".5" + "0", None), ("", None), ("8 Gi", None), ("lots", None), ("1KiB", None),
        (None, None), ("1e999", None),
    ],
)  # fmt: skip
def test_amounts(text: object, number: Fraction | int | None) -> None:
    if number is None:
        with pytest.raises(ValueError, match="no quantity"):
            amount(text)
    else:
        assert amount(text) == number


@given(st.text(max_size=12))
def test_any_text_is_an_amount_or_told(text: str) -> None:
    with suppress(ValueError):
        assert amount(text) == -amount(text) * -1


def test_what_is_there_is_rounded_down_and_what_is_asked_up() -> None:
    some = {"nvidia.com/gpu": "8", "cpu": "7500m", "memory": "1025Ki"}
    assert held(some, "nvidia.com/gpu") == NodeShape(8, 7, 1)
    assert asked(some, "nvidia.com/gpu") == NodeShape(8, 8, 2)
    assert held({}, "nvidia.com/gpu") == NodeShape(0, 0, 0)


def node(name: str = "n0", **changes: Any) -> dict[str, Any]:
    """A healthy node with eight GPUs; `labels`, `spec`, `status` and `deleted` change it."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    amounts = {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1Ti"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    meta: dict[str, Any] = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    meta["labels"] |= changes.get("labels", {})
    if changes.get("deleted"):
        meta["deletionTimestamp"] = "2026-11-29T17:38:25Z"
    return {
        "metadata": meta,
        "spec": changes.get("spec", {}),
        "status": status | changes.get("status", {}),
    }


def ready(status: str, **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": status, **more}]}


def taint(key: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {"taints": [{"key": key, "effect": effect, "value": "v"}]}


def test_a_node() -> None:
    model = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    seen = node_seen(node(labels=model), (("leaf", "leaf000"),))
    assert (seen.name, seen.state, seen.reason) == ("n0", NodeState.UP, "")
    assert (seen.gpus, seen.cpus, seen.memory_mib) == (8, 96, 2**20)
    assert seen.device == "nvidia.com/gpu:NVIDIA-H100-80GB-HBM3"
    assert resource_of(seen.device) == resource_of("nvidia.com/gpu") == "nvidia.com/gpu"
    assert seen.path == (("leaf", "leaf000"),)


@pytest.mark.parametrize(
    ("resource", "labels", "device"),
    [
        ("amd.com/gpu", {"amd.com/gpu.product-name": "MI300X"}, "amd.com/gpu:MI300X"),
        ("amd.com/gpu", {"amd.com/gpu.device-id": "74a5"}, "amd.com/gpu:74a5"),
        ("huawei.com/Ascend910", {"node.kubernetes.io/npu.chip.name": "910B1"},
         "huawei.com/Ascend910:910B1"),
        ("habana.ai/gaudi", {}, "habana.ai/gaudi"),
        ("nvidia.com/gpu", {}, "nvidia.com/gpu"),
        ("example.org/fpga", {}, ""),
    ],
)  # fmt: skip
def test_every_vendors_gpus(resource: str, labels: dict[str, str], device: str) -> None:
    amounts = {resource: "4", "cpu": "8", "memory": "8Gi"}
    seen = node_seen(node(labels=labels, status={"capacity": amounts, "allocatable": amounts}), ())
    assert (seen.device, seen.gpus) == (device, 4 if device else 0)


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({"spec": {"unschedulable": True}}, NodeState.DRAINING, "cordoned"),
        ({"spec": taint("maintenance")}, NodeState.DRAINING, "taint maintenance=v:NoSchedule"),
        ({"spec": taint("sick", "NoExecute")}, NodeState.DRAINING, "taint sick=v:NoExecute"),
        ({"spec": taint("node.kubernetes.io/disk-pressure")}, NodeState.DRAINING, "disk-pressure"),
        ({"spec": taint("old", "PreferNoSchedule")}, NodeState.UP, ""),
        ({"spec": taint("nvidia.com/gpu")}, NodeState.UP, ""),
        ({"status": ready("False", reason="KubeletNotReady")}, NodeState.DOWN, "KubeletNotReady"),
        ({"status": ready("Unknown", reason="NodeStatusUnknown")}, NodeState.UNKNOWN, "NodeStatus"),
        ({"status": {"conditions": []}}, NodeState.UNKNOWN, "has not said"),
        ({"deleted": True}, NodeState.DOWN, ""),
        ({"labels": {"kubernetes.io/hostname": "other"}}, NodeState.DRAINING, "not its name"),
        # a dead node that is cordoned, too, is dead
        ({"status": ready("False"), "spec": {"unschedulable": True}}, NodeState.DOWN, ""),
    ],
)  # fmt: skip
def test_whether_a_node_takes_work(changes: dict[str, Any], state: NodeState, words: str) -> None:
    seen = node_seen(node(**changes), (), frozenset({"nvidia.com/gpu"}))
    assert (seen.state, words in seen.reason) == (state, True)


def test_an_admins_name_for_gpus_of_one_resource() -> None:
    options = {"device.train": "nvidia.com/gpu,pool=train", "tolerate.train": "team"}
    devices = devices_of(options)
    ours = node(labels={"pool": "train"}, spec=taint("team"))
    seen = node_seen(ours, (), devices=devices)
    assert (seen.device, seen.gpus, seen.state) == ("train", 8, NodeState.UP)
    other = node(labels={"pool": "serve"}, spec=taint("team"))
    seen = node_seen(other, (), devices=devices)
    assert (seen.device, seen.state) == ("nvidia.com/gpu", NodeState.DRAINING)


def test_gpus_that_the_device_plugin_took_out_are_not_there() -> None:
    less = {"nvidia.com/gpu": "6", "cpu": "96", "memory": "1Ti"}
    seen = node_seen(node(status={"allocatable": less}), ())
    assert (seen.gpus, seen.state, seen.reason) == (6, NodeState.UP, "2 of 8 GPUs are not healthy")


def hyper(
    name: str, tier: int, *members: tuple[str, dict[str, Any]], **more: str
) -> dict[str, Any]:
    listed = [{"type": kind, "selector": selector} for kind, selector in members]
    return {"metadata": {"name": name}, "spec": {"tier": tier, "members": listed, **more}}


def exact(kind: str, name: str) -> tuple[str, dict[str, Any]]:
    return kind, {"exactMatch": {"name": name}}


def test_leaves_and_a_spine_as_in_the_recordings() -> None:
    """HyperNodes leaf000..003 (tier 1, four nodes each) and spine (tier 2), 16 nodes."""
    nodes: dict[str, dict[str, str]] = {f"volc-n{n:03d}": {} for n in range(16)}
    leaves = [
        hyper(f"leaf{n:03d}", 1, *(exact("Node", f"volc-n{4 * n + m:03d}") for m in range(4)))
        for n in range(4)
    ]
    spine = hyper("spine", 2, *(exact("HyperNode", f"leaf{n:03d}") for n in range(4)))
    found = paths([spine, *leaves], nodes, {})
    assert found["volc-n005"] == (("spine", "spine"), ("leaf", "leaf001"))
    assert {path[1][1] for path in found.values()} == {f"leaf{n:03d}" for n in range(4)}


def test_members_by_expression_and_by_labels() -> None:
    nodes = {"h100-00-1": {"rack": "a"}, "h100-01-1": {"rack": "a"}, "cpu-1": {}}
    tree = [
        hyper("nvl-00", 1, ("Node", {"regexMatch": {"pattern": "^h100-00-[0-9]+$"}})),
        hyper("rack-a", 2, ("Node", {"labelMatch": {"matchLabels": {"rack": "a"}}})),
    ]
    assert paths(tree, nodes, {"tier.domain": "1", "tier.leaf": "2"}) == {
        "h100-00-1": (("leaf", "rack-a"), ("domain", "nvl-00")),
        "h100-01-1": (("leaf", "rack-a"),),
        "cpu-1": (),
    }


def test_a_name_of_ours_for_a_tier_counts_before_its_number() -> None:
    tree = [hyper("x", 7, exact("Node", "n"), tierName="domain")]
    assert paths(tree, {"n": {}}, {}) == {"n": (("domain", "x"),)}


@pytest.mark.parametrize(
    "tree",
    [
        [hyper("a", 1, exact("HyperNode", "b"), exact("Node", "n")),
         hyper("b", 2, exact("HyperNode", "a"))],
        [hyper("a", 1, exact("HyperNode", "a"), exact("Node", "n"))],
        [hyper("a", 1, exact("Node", "n"), exact("Node", "gone"), exact("HyperNode", "gone"))],
        [hyper("a", 1, exact("Node", "n"), ("Node", {"regexMatch": {"pattern": "("}}))],
        [hyper("a", 1, exact("Node", "n")), hyper("z", 1, exact("Node", "n"))],
        [hyper("a", 1, exact("Node", "n"), ("Node", {}))],
    ],
    ids=["circle", "itself", "missing members", "no expression", "two of a tier", "no selector"],
)  # fmt: skip
def test_what_volcano_accepts_though_it_is_useless(tree: list[dict[str, Any]]) -> None:
    assert ("leaf", "a") in paths(tree, {"n": {}}, {})["n"]


def test_without_hypernodes_there_are_no_domains() -> None:
    assert paths([], {"n": {}}, {}) == {"n": ()}
