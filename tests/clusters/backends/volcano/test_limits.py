"""Limits of queues, read and set on the simulated API server."""

import shlex
from collections.abc import Iterator
from dataclasses import replace

import pytest

from clusters.backends.volcano.warm import forget
from clusters.core.limits import LimitHolder
from simulator.config import Token
from tests.clusters.backends.volcano.test_backend import Site
from tests.simulator.volcano.harness import QUEUES, lab_cluster

GPUS = "gpu:nvidia.com/gpu"


@pytest.fixture
def site() -> Iterator[Site]:
    forget()
    yield Site()
    forget()


def make(site: Site, name: str, **spec: object) -> None:
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    queue = {**body, "metadata": {"name": name}, "spec": spec}
    answer = site.lab.client.post(QUEUES, json=queue)
    assert answer.status_code == 201, answer.text


def test_the_most_of_a_queue_is_read_and_set_and_nothing_else_of_it_moves(site: Site) -> None:
    make(site, "vision", capability={"cpu": "64"}, reclaimable=False)
    make(site, "below", parent="vision", capability={"nvidia.com/gpu": "8"})
    backend = site.backend()
    seen = backend.limits()
    assert (seen.obstacle, seen.account("root"), GPUS in seen.counted) == (None, None, True)
    assert seen.account("vision") == LimitHolder("vision")
    assert seen.account("below") == LimitHolder("below", parent="vision", gpus={GPUS: 8})
    for _ in range(2):
        assert backend.set_limits({"vision": {GPUS: 32}}, seen.name) == {"vision": ""}
    assert backend.limits().account("vision") == LimitHolder("vision", gpus={GPUS: 32})
    spec = site.lab.get(f"{QUEUES}/vision")["spec"]
    assert spec["capability"] == {"cpu": "64", "nvidia.com/gpu": "32"}
    assert spec["reclaimable"] is False


def test_what_is_refused_is_told_and_the_others_are_set(site: Site) -> None:
    make(site, "owed", deserved={"nvidia.com/gpu": "64"})
    make(site, "free")
    told = site.backend().set_limits({"owed": {GPUS: 8}, "gone": {GPUS: 8}, "free": {GPUS: 8}}, "")
    assert "must be <= capability" in told["owed"]
    assert "not found" in told["gone"]
    assert told["free"] == ""


def test_without_the_right_it_says_which_file_gives_it() -> None:
    config = lab_cluster()
    assert config.volcano is not None
    rights = [["scheduling.volcano.sh", "queues", "list"]]
    less = Token("less", "system:serviceaccount:muster:muster", rights)
    volcano = replace(config.volcano, tokens=[*config.volcano.tokens, less])
    obstacle = Site(replace(config, volcano=volcano)).backend(b"less").limits().obstacle
    assert obstacle is not None
    assert obstacle.fix.endswith("deploy/member/volcano/queues.yaml")


def test_the_command_does_the_same(site: Site) -> None:
    words = shlex.split(site.backend().limit_command("", "vision", {GPUS: 32}))
    assert words[:4] == ["kubectl", "patch", "queues.scheduling.volcano.sh", "vision"]
    assert words[-1] == '{"spec": {"capability": {"nvidia.com/gpu": "32"}}}'
