"""Clusters of both kinds as places where the protocol's cases run."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import httpx

from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.core.backend import Backend, Connection
from clusters.core.container import Container
from clusters.core.gang import Gang
from clusters.core.resources import GangShape, NodeShape
from tests.clusters.backends.site import Site
from tests.clusters.backends.transports import LosesAnswers, is_submit
from tests.clusters.backends.volcano.test_translate import GANG

_NUMBERS = count()


@dataclass
class SlurmPlace:
    """A Slurm, simulated or real."""

    site: Site

    def backend(self) -> Backend:
        return self.site.backend()

    def losing(self) -> Backend:
        return self.site.backend(LosesAnswers(self.site.transport, is_submit))

    def gang(self, label: str, nodes: int, seconds: int, exit_code: int = 0) -> Gang:
        script = f"trap : CONT\nsleep {seconds}\nexit {exit_code}"
        return self.site.gang(label, self.site.nodes()[:nodes], script)

    def intrude(self, gang: Gang) -> str:
        theirs = str(self.site.outsider(gang.fence, self.site.nodes()[-1], "sleep 90"))
        self.site.until(lambda: self.site.look().foreign.running == 1, "the stranger's job runs")
        return theirs

    def is_there(self, backend_id: str) -> bool:
        is_running = self.site.look().foreign.running == 1
        self.site.end_outsider(int(backend_id))
        return is_running

    def wait(self) -> None:
        time.sleep(self.site.pause_s)


def is_job(request: httpx.Request) -> bool:
    """Whether it makes a vcjob for good."""
    is_dry = "dryRun" in request.url.params
    return request.method == "POST" and request.url.path.endswith("/jobs") and not is_dry


@dataclass
class VolcanoPlace:
    """A Volcano, simulated or played inside a real API server, by its connection and nodes."""

    connection: Connection
    nodes: Sequence[str]
    queue: str
    transport: httpx.BaseTransport
    pause: Callable[[], None]
    made: list[VolcanoBackend] = field(default_factory=list)

    def backend(
        self, transport: httpx.BaseTransport | None = None, mark: str = "muster"
    ) -> Backend:
        options = {**self.connection.options, "mark": mark}
        client = KubernetesClient(
            replace(self.connection, options=options), transport=transport or self.transport
        )
        self.made.append(VolcanoBackend(client))
        return self.made[-1]

    def losing(self) -> Backend:
        return self.backend(LosesAnswers(self.transport, is_job))

    def gang(self, label: str, nodes: int, seconds: int, exit_code: int = 0) -> Gang:
        command = ("bash", "-c", f"sleep {seconds}\nexit {exit_code}")
        return replace(
            GANG,
            fence=f"mst-{label}{next(_NUMBERS)}-a1",
            account=self.connection.options["namespaces"],
            queue=self.queue,
            service_class="",
            shape=GangShape(nodes, NodeShape(8, 8, 65_536), exclusive=False),
            device="nvidia.com/gpu:h100",
            nodes=tuple(self.nodes[:nodes]),
            container=Container("train:1", command),
            grace_s=1,
        )

    def intrude(self, gang: Gang) -> str:
        theirs = replace(gang, nodes=(self.nodes[-1],))
        return self.backend(mark="another").submit(theirs).backend_id

    def is_there(self, backend_id: str) -> bool:
        namesakes = self.backend().observe(0, []).namesakes
        return backend_id in {one.backend_id for one in namesakes}

    def wait(self) -> None:
        self.pause()

    def close(self) -> None:
        for one in self.made:
            one.close()
        self.transport.close()
