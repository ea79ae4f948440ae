"""The same scenes played twice: by the simulator in memory, and inside the real API server.

What is compared is what a client sees of Volcano's own doing: the job's status with its whole
history of phases, its pods, and whether its PodGroup is there. Times, versions and uids are each
server's own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.live.kubernetes.lab import Json, LabCluster, eventually, make, path_of
from tests.live.kubernetes.played import played
from tests.simulator.volcano.harness import ABORT, Lab, gang, task
from tests.simulator.volcano.test_life import shape, without

pytestmark = pytest.mark.live
STEP_S, LONGEST_S = 0.25, 30.0
# When a phase was left is chance by a cycle: how long it ran, and the count of kills.
LOOSE = ("version", "runningDuration")


@dataclass
class Stage:
    """A server that a scene is played on: calls, and time that goes by."""

    client: httpx.Client
    namespace: str
    passes: Callable[[float], None] | None = None  # moves a clock by hand; None: it runs by itself

    def make(self, job: Json) -> None:
        make(self.client, {"apiVersion": "v1", **job}, self.namespace)

    def job(self, name: str) -> Json:
        return self._get(f"{path_of('Job', self.namespace)}/{name}")

    def phase(self, name: str) -> str:
        return str(self.job(name).get("status", {}).get("state", {}).get("phase", ""))

    def pods(self, name: str) -> list[tuple[str, str]]:
        path = f"{path_of('Pod', self.namespace)}?labelSelector=volcano.sh/job-name={name}"
        found = [
            (pod["metadata"]["name"], pod["status"]["phase"]) for pod in self._get(path)["items"]
        ]
        return sorted(found)

    def groups(self, name: str) -> list[str]:
        found = self._get(path_of("PodGroup", self.namespace))["items"]
        ours = [group for group in found if group["metadata"]["name"].startswith(f"{name}-")]
        return [str(group.get("status", {}).get("phase", "")) for group in ours]

    def command(self, action: str, name: str) -> None:
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name}
        target["uid"] = self.job(name)["metadata"]["uid"]
        meta = {"generateName": "cmd-"}
        whole = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": meta}
        make(self.client, {**whole, "action": action, "target": target}, self.namespace)

    def delete_pod(self, name: str) -> None:
        answer = self.client.delete(f"{path_of('Pod', self.namespace)}/{name}")
        assert answer.status_code == 200, answer.text

    def until(self, holds: Callable[[], bool], what: str) -> None:
        if self.passes is None:
            eventually(holds, what, within_s=LONGEST_S)
            return
        for _ in range(round(LONGEST_S / STEP_S)):
            if holds():
                return
            self.passes(STEP_S)
        raise AssertionError(f"not within {LONGEST_S:g} s: {what}")

    def until_phase(self, name: str, phase: str, pods: int | None = None) -> None:
        """Wait for the phase, and for how many pods are left then."""

        def there() -> bool:
            return self.phase(name) == phase and pods in (None, len(self.pods(name)))

        self.until(there, f"{name} is {phase}")

    def seen(self, name: str) -> Json:
        """What is to be compared."""
        status = without(shape(self.job(name)["status"]), *LOOSE)
        return {"status": status, "pods": self.pods(name), "groups": self.groups(name)}

    def _get(self, path: str) -> Json:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


def failing(name: str, **spec: Any) -> Json:
    """Three pods of which the first fails after 2 s, the others run 6."""
    first = task("x", 1, grace=1, run_for="2s", exit_code="3")
    return gang(name, first, task("w", 2, grace=1, run_for="6s"), queue="default", **spec)


def lasting(name: str, **spec: Any) -> Json:
    return gang(name, task(replicas=3, grace=1), queue="default", **spec)


def ordinary_life(stage: Stage, name: str) -> None:
    stage.make(gang(name, task(replicas=3, run_for="2s"), queue="default"))
    stage.until_phase(name, "Completed")


def a_pod_fails_and_all_abort(stage: Stage, name: str) -> None:
    stage.make(failing(name, policies=ABORT))
    stage.until_phase(name, "Aborted", pods=1)


def a_pod_fails_without_a_policy(stage: Stage, name: str) -> None:
    stage.make(failing(name))
    stage.until_phase(name, "Failed")


def an_abort(stage: Stage, name: str) -> None:
    stage.make(lasting(name))
    stage.until_phase(name, "Running")
    stage.command("AbortJob", name)
    stage.until_phase(name, "Aborted", pods=0)


def a_resume_that_has_no_retry_left(stage: Stage, name: str) -> None:
    an_abort(stage, name)
    stage.command("ResumeJob", name)
    stage.until_phase(name, "Failed")


def a_pod_is_deleted_by_hand(stage: Stage, name: str) -> None:
    stage.make(lasting(name, policies=ABORT))
    stage.until_phase(name, "Running")
    stage.delete_pod(f"{name}-w-1")
    stage.until_phase(name, "Aborted", pods=0)


def an_image_that_is_missing(stage: Stage, name: str) -> None:
    first = task("x", 1, image="missing")
    stage.make(gang(name, first, task("w", 2), queue="default"))

    def others_run() -> bool:
        status = stage.job(name).get("status", {})
        counts = (status.get("running"), status.get("pending"))
        return counts == (2, 1) and stage.groups(name) == ["Running"]

    stage.until(others_run, "all but one run")


def too_large(stage: Stage, name: str) -> None:
    stage.make(gang(name, task(replicas=17), queue="default"))
    stage.until(lambda: len(stage.pods(name)) == 17, "its pods wait")
    stage.until_phase(name, "Pending")


SCENES = [
    ordinary_life,
    a_pod_fails_and_all_abort,
    a_pod_fails_without_a_policy,
    an_abort,
    a_resume_that_has_no_retry_left,
    a_pod_is_deleted_by_hand,
    an_image_that_is_missing,
    too_large,
]


@pytest.fixture(scope="module")
def real(gamma: LabCluster, admin: httpx.Client, namespace: str) -> Iterator[Stage]:
    with played(gamma, admin):
        yield Stage(admin, namespace)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_it_is_the_same_in_memory_and_in_the_real_server(
    real: Stage, scene: Callable[[Stage, str], None]
) -> None:
    name = scene.__name__.replace("_", "-")[:20].strip("-")
    lab = Lab()
    in_memory = Stage(lab.client, "team", lab.wait)
    scene(in_memory, name)
    scene(real, name)
    try:
        assert real.seen(name) == in_memory.seen(name)
    finally:
        real.client.delete(f"{path_of('Job', real.namespace)}/{name}")
        eventually(lambda: real.pods(name) == [], "its pods are gone")
