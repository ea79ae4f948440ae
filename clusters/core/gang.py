"""What a backend is told to run: one attempt of a job, bound to exact nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clusters.core.container import Container
from clusters.core.resources import GangShape, NodeShape


@dataclass(frozen=True)
class Gang:
    """One attempt as the backend needs it. Nothing in it is interpreted by a shell of ours.

    Attributes:
        fence: the backend's name of the attempt; unique for ever.
        title: the user's own name of the job, for people only.
        account: the UNIX account or namespace the job runs as.
        charge: the member's own billing account (Slurm account), or empty.
        queue: member queue (partition, Volcano queue), or empty for the member's default.
        service_class: the member's QOS or priority class, or empty.
        shape: nodes and what is asked of each.
        device: the GPU's name on this cluster (GRES type, resource name).
        nodes: the exact nodes, in rank order.
        time_limit_s: seconds; rounded up to the backend's grain.
        script: the batch script (Slurm), "" = none.
        container: what runs on each node where there are no scripts (Kubernetes), None = nothing.
        workdir, output, error: paths as the user gave them; empty = the backend's default.
        environment: variables for the job.
        tasks_per_node: processes that `srun` starts on each node (Slurm); they share its CPUs.
        signal, grace_s: the checkpoint signal and how long before the limit it is sent; "" = none.
        run_as: numbers of user and group of its containers, as `2001:3000`; "" = the image's own.
        labels: carried to the backend where it has a place for them.
    """

    fence: str
    title: str
    account: str
    charge: str
    queue: str
    service_class: str
    shape: GangShape
    device: str
    nodes: tuple[str, ...]
    time_limit_s: int
    script: str
    workdir: str
    output: str
    error: str
    environment: Mapping[str, str]
    signal: str = ""
    grace_s: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    tasks_per_node: int = 1
    container: Container | None = None
    run_as: str = ""

    def to_json(self) -> dict[str, object]:
        """The stored form, with its version `v`; written out, as `asdict` copies all of it deeply.

        What is as it always was before a field came is left out: older workers read it, too.
        """
        need, stored = self.shape.per_node, dict(vars(self))
        if self.tasks_per_node == 1:
            del stored["tasks_per_node"]
        if not self.run_as:
            del stored["run_as"]
        stored.pop("container")
        if self.container is not None:
            stored["container"] = self.container.to_json()
        return {
            "v": 1,
            **stored,
            "shape": {
                "nodes": self.shape.nodes,
                "per_node": {
                    "gpus": need.gpus,
                    "cpus": need.cpus,
                    "memory_mib": need.memory_mib,
                },
                "exclusive": self.shape.exclusive,
            },
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Gang":
        """The gang of a stored form of version 1.

        Raises:
            KeyError, TypeError: not a stored gang of version 1.
        """
        fields = {name: value for name, value in stored.items() if name != "v"}
        shape = fields["shape"]
        fields["shape"] = GangShape(
            shape["nodes"], NodeShape(**shape["per_node"]), shape["exclusive"]
        )
        fields["nodes"] = tuple(fields["nodes"])
        if "container" in fields:
            fields["container"] = Container.from_json(fields["container"])
        return cls(**fields)
