"""GPUs that an admin names by a resource and labels."""

import pytest

from clusters.backends.volcano.nodes import RESOURCES
from clusters.core.devices import GPU_RESOURCES, Device, devices_of
from clusters.core.options import option_problems

OPTIONS = {
    "device.train": "nvidia.com/gpu, pool=train",
    "device.h100-train": "nvidia.com/gpu,pool=train,accelerator=h100",
    "tolerate.train": "team, nvidia.com/gpu",
}


def test_the_one_with_the_most_labels_comes_first() -> None:
    more = (("pool", "train"), ("accelerator", "h100"))
    assert devices_of(OPTIONS) == (
        Device("h100-train", "nvidia.com/gpu", more),
        Device("train", "nvidia.com/gpu", (("pool", "train"),), ("team", "nvidia.com/gpu")),
    )


def test_a_node_needs_the_resource_and_every_label() -> None:
    device, gives = devices_of(OPTIONS)[0], {"nvidia.com/gpu": "8"}
    labels = {"pool": "train", "accelerator": "h100", "zone": "a"}
    assert device.is_on(labels, gives)
    assert not device.is_on(labels, {"amd.com/gpu": "8"})
    assert not device.is_on(labels | {"pool": "serve"}, gives)


def test_whatever_counts_as_gpus_can_be_named() -> None:
    assert tuple(RESOURCES) == GPU_RESOURCES


def test_good_options() -> None:
    assert list(option_problems("/options", OPTIONS, "volcano")) == []


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("device.train", "nvidia.com/gpu", "invalid_option"),  # every node has that already
        ("device.train", "example.org/fpga,pool=train", "invalid_option"),
        ("device.train", "nvidia.com/gpu,pool", "invalid_option"),
        ("device.train", "nvidia.com/gpu,pool=a,pool=b", "invalid_option"),
        ("device.train", "nvidia.com/gpu,pool=two words", "invalid_option"),
        ("device.train", "", "invalid_option"),
        ("device.nvidia.com/gpu", "nvidia.com/gpu,pool=train", "unknown_option"),
        ("tolerate.train", "team", "invalid_option"),  # no such device
    ],
)
def test_bad_options(name: str, value: str, code: str) -> None:
    found = option_problems("/options", {name: value}, "volcano")
    assert [one.code for one in found] == [code]
