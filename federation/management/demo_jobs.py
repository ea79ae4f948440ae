"""The jobs that `demo_check` submits, and what must become of each. Data only.

Times are a job's own: in the demo a minute of them passes in a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RUN_LABEL = "demo"
CANCEL, HOLD = "cancel", "hold"


@dataclass(frozen=True)
class DemoJob:
    """One job: who submits it where, what it asks, what the check does to it, how it must end.

    `seconds` None runs until it is cancelled. `alone_with` names a job that it must never run
    together with, because the two exceed their cluster.
    """

    name: str
    person: str
    tenant: str
    flavors: tuple[str, ...]
    nodes: int
    gpus_per_node: int
    service_class: str
    seconds: int | None
    topology: Mapping[str, str] = field(default_factory=dict)
    exclusive: bool = False
    priority: str = "normal"
    exit_code: int = 0
    forms: tuple[str, ...] = ("script",)
    act: str = ""
    ends: str = "succeeded"
    alone_with: str = ""

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.nodes * self.gpus_per_node

    def body(self, run: str) -> dict[str, Any]:
        """The body of `POST /jobs`; `run` labels every job of one check."""
        return {
            "name": self.name,
            "tenant": self.tenant,
            "class": self.service_class,
            "priority": self.priority,
            "flavors": list(self.flavors),
            "gang": {
                "nodes": self.nodes,
                "gpus_per_node": self.gpus_per_node,
                "exclusive": self.exclusive,
            },
            "topology": dict(self.topology),
            "time_limit": "02:00:00",
            "run": self.run(),
            "labels": {RUN_LABEL: run},
        }

    def run(self) -> dict[str, Any]:
        """A batch script, an image, or both; simulated clusters read the comment and run nothing."""
        fate = "forever" if self.seconds is None else f"seconds={self.seconds}"
        code = f" exit={self.exit_code}" if self.exit_code else ""
        comment = f"# simulate: {fate}{code}\n"
        script = {"script": f"#!/bin/bash\n{comment}srun torchrun train.py\n"}
        command = ["bash", "-c", f"\n{comment}torchrun train.py"]
        image = {"image": "registry.example/acme/trainer:24.11", "command": command, "shm": "16Gi"}
        return (script if "script" in self.forms else {}) | (image if "image" in self.forms else {})


H100, A100, L40S = ("h100-sxm-80",), ("a100-sxm-80",), ("l40s-48",)
JOBS = (
    DemoJob(
        "chat-70b", "noor", "acme/language/chat", A100, 16, 8, "guaranteed", 420,
        topology={"preferred": "spine"},
    ),
    DemoJob(
        "video-dit", "mia", "acme/vision/video", H100, 4, 8, "guaranteed", 240,
        topology={"required": "leaf"}, exclusive=True,
    ),
    DemoJob(
        "grasp-policy", "omar", "acme/robotics/grasp", H100, 2, 8, "guaranteed", 240,
        topology={"required": "domain"},
    ),
    DemoJob(
        "grasp-sweep", "omar", "acme/robotics/grasp", L40S, 4, 4, "spot", 300, forms=("image",)
    ),
    DemoJob(
        "video-eval", "mia", "acme/vision/video", L40S + H100, 2, 4, "guaranteed", 180,
        forms=("script", "image"),
    ),
    DemoJob("any-gpu", "mia", "acme/vision/pretrain", H100 + A100, 1, 8, "auto", 180),
    DemoJob(
        "chat-broken", "noor", "acme/language/chat", A100, 1, 8, "auto", 60,
        exit_code=3, ends="failed",
    ),
    DemoJob(
        "grasp-endless", "omar", "acme/robotics/grasp", A100, 1, 8, "spot", None,
        act=CANCEL, ends="cancelled",
    ),
    DemoJob("chat-held", "noor", "acme/language/chat", A100, 2, 8, "auto", 120, act=HOLD),
    DemoJob(
        "pretrain-a", "mia", "acme/vision/pretrain", H100, 12, 8, "spot", 300,
        alone_with="pretrain-b",
    ),
    DemoJob(
        "pretrain-b", "mia", "acme/vision/pretrain", H100, 12, 8, "spot", 300,
        alone_with="pretrain-a",
    ),
)  # fmt: skip
