"""The Volcano backend: the protocol's verbs over the Kubernetes API."""

from collections.abc import Mapping, Sequence
from typing import Any

from clusters.backends.volcano.attempt import LEAVES, OVER, phase_of
from clusters.backends.volcano.attempts import is_ours, label
from clusters.backends.volcano.client import KubernetesClient, path_of
from clusters.backends.volcano.dead import stranded
from clusters.backends.volcano.errors import EXISTS, GONE
from clusters.backends.volcano.limits import limit_command, read_limits, set_limits
from clusters.backends.volcano.probe import probe, unreached
from clusters.backends.volcano.translate import FENCE, MARK, owner_mark, rank, vcjob
from clusters.backends.volcano.warm import warm
from clusters.core.backend import (
    NOT_RUNNING,
    BackendAmbiguousError,
    BackendError,
    BackendRejectedError,
    ProbeReport,
    Submitted,
)
from clusters.core.gang import Gang
from clusters.core.limits import LimitsSeen
from clusters.core.observation import Observation

Json = dict[str, Any]

CORE, BATCH, BUS = "api/v1", "apis/batch.volcano.sh/v1alpha1", "apis/bus.volcano.sh/v1alpha1"
SCHEDULING, TOPOLOGY = "apis/scheduling.volcano.sh/v1beta1", "apis/topology.volcano.sh/v1alpha1"
# Of the first pods so many lines each: enough to see why a gang failed, little enough to show.
MOST_LOGS, LOG_LINES, LOG_BYTES = 8, "200", str(64 << 10)
SIGNAL = "muster/signal"


class VolcanoBackend:
    """One Kubernetes cluster with Volcano. Jobs live in the namespaces of option `namespaces`."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client
        self._options = client.connection.options
        self._mark = owner_mark(self._options)
        spaces = (space.strip() for space in self._options.get("namespaces", "").split(","))
        self._namespaces = sorted({space for space in spaces if space})

    def close(self) -> None:
        """Close the connections it keeps alive."""
        self._client.close()

    def observe(
        self, now_ms: int, fences: Sequence[str], since_ms: int | None = None
    ) -> Observation:
        """Everything, by lists or by what changed since (`warm`). `fences` and `since_ms` need no
        look-up of their own: a job stays there until it is deleted.
        """
        return warm(self._client).observe(self._client, self._where(), now_ms)

    def _where(self) -> dict[str, list[str]]:
        """The paths of all that is observed, by kind."""
        spaces = self._namespaces
        return {
            "nodes": [path_of(CORE, "nodes")],
            "hypernodes": [path_of(TOPOLOGY, "hypernodes")],
            "queues": [path_of(SCHEDULING, "queues")],
            "jobs": [path_of(BATCH, "jobs", space) for space in spaces],
            "podgroups": [path_of(SCHEDULING, "podgroups", space) for space in spaces],
            "pods": [path_of(CORE, "pods")],
        }

    def probe(self, now_ms: int) -> ProbeReport:
        """What this cluster can do for us, each gap with its fix; see `probe.probe`."""
        try:
            seen = self.observe(now_ms, [])
            return probe(self._client, seen, self._namespaces, now_ms)
        except BackendError as error:
            return unreached(error)

    def submit(self, gang: Gang, *, is_repeat: bool = True, known_as: str = "") -> Submitted:
        """Make the job once: its name is the attempt's, and Kubernetes takes no second one.

        So a create that finds the name taken has happened before, if the labels are ours; an object
        of somebody else's is left alone. What was `known_as` a uid once is never made anew.

        Raises:
            BackendAmbiguousError: the answer was lost; call again with `is_repeat`.
            BackendUnavailableError: not reached.
            BackendRejectedError: refused in the cluster's own words, or the name is not ours.
        """
        found = self._find(gang.fence, gang.account) if is_repeat else None
        if found is None and known_as:
            return Submitted(known_as)
        if found is None:
            found = self._make(gang)
        if not self._is_ours(found, gang.fence):
            words = f"a job named {gang.fence} is there that is not Muster's"
            raise BackendRejectedError(words, code="not_ours")
        return Submitted(found["metadata"]["uid"])

    def _make(self, gang: Gang) -> Json:
        """The new job, or the one that has its name."""
        job = vcjob(gang, self._options, self._client.connection.name)
        path = path_of(BATCH, "jobs", gang.account)
        try:
            self._client.create(path, job, dryRun="All")  # the webhooks' word, before anything is
            return self._client.create(path, job)
        except BackendRejectedError as error:
            if error.code != EXISTS and gang.queue and self._is_shut(gang.queue):
                raise BackendRejectedError(error.words, code="queue_closed") from error
            if error.code != EXISTS:
                raise
            found = self._find(gang.fence, gang.account)
        if found is None:
            raise BackendAmbiguousError("it was there, and is gone", code=GONE)
        return found

    def _is_shut(self, queue: str) -> bool:
        """Whether the queue is there and takes no jobs: it was closed after the job was bound."""
        path = path_of(SCHEDULING, "queues")
        found = self._client.items(path, fieldSelector=f"metadata.name={queue}")
        states = [(one.get("status") or {}).get("state") for one in found]
        return any(state and state != "Open" for state in states)

    def cancel(self, fence: str, account: str) -> None:
        """Abort the attempt's job; what is over, absent or not ours is left alone.

        A Command is gone before it is carried out, so that only the job's phase tells: who asks again
        until the phase shows it, loses nothing (volcano-observed 6). Asked again while it leaves, its
        pods on nodes that are known dead are taken away: nobody else would (`dead`).
        """
        job = self._find(fence, account)
        if job is None or not self._is_ours(job, fence):
            return
        phase = phase_of(job)
        if phase in LEAVES or phase == "Failed":  # that is said while its pods still leave
            self._release(fence, account)
        if phase in OVER or phase == "Aborting":
            return
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": fence}
        target["uid"] = job["metadata"]["uid"]
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": "mst-abort-"},
            "action": "AbortJob",
            "target": target,
            "reason": "Muster",
        }
        self._client.create(path_of(BUS, "commands", account), body)

    def _release(self, fence: str, account: str) -> None:
        """Take away the pods that leave and whose node is dead, so that their job can end."""
        pods, now_ms = self._pods(account, fence), self._client.date_ms
        for pod in stranded(pods, self._node, now_ms or 0):
            meta = pod["metadata"]
            try:
                self._client.remove(path_of(CORE, "pods", account, meta["name"]), meta["uid"])
            except BackendRejectedError as error:
                if error.code != GONE:
                    raise

    def _node(self, name: str) -> Json | None:
        """One node, by the right to list them."""
        found = self._client.items(path_of(CORE, "nodes"), fieldSelector=f"metadata.name={name}")
        return found[0] if found else None

    def signal(self, fence: str, account: str, name: str) -> None:
        """Write the signal on the attempt's pods: nothing of ours enters a container.

        Each pod sees its own annotations as a file (`translate.SEEN`), where the container watches
        for `muster/signal`: the signal's name and a number that rises with every one that is sent.

        Raises:
            BackendRejectedError: no pod of it runs.
        """
        running = [pod for pod in self._pods(account, fence) if _runs(pod)]
        if not running:
            raise BackendRejectedError(f"{fence} does not run", code=NOT_RUNNING)
        for pod in running:
            meta = pod["metadata"]
            last = (meta.get("annotations") or {}).get(SIGNAL, "").rpartition(" ")[2]
            told = f"{name} {int(last) + 1 if last.isdecimal() else 1}"
            body = {"metadata": {"uid": meta["uid"], "annotations": {SIGNAL: told}}}
            self._client.merge(path_of(CORE, "pods", account, meta["name"]), body)

    def logs(self, fence: str) -> str:
        """The end of what each of its first pods wrote, under the pod's name."""
        told = []
        for space in self._namespaces:
            for pod in sorted(
                self._pods(space, fence), key=lambda pod: rank(pod["metadata"]["name"])
            )[:MOST_LOGS]:
                name = pod["metadata"]["name"]
                path = f"{path_of(CORE, 'pods', space, name)}/log"
                end = self._client.text(path, tailLines=LOG_LINES, limitBytes=LOG_BYTES)
                told.append(f"==> {name} <==\n{end}")
        return "\n".join(told)

    def limits(self) -> LimitsSeen:
        """The most GPUs that each queue may hold; see `limits`."""
        return read_limits(self._client)

    def set_limits(self, wanted: Mapping[str, Mapping[str, int]], name: str) -> dict[str, str]:
        """Set those of queues, which are the accounts here (capability `limits`)."""
        return set_limits(self._client, wanted)

    def limit_command(self, name: str, account: str, gpus: Mapping[str, int]) -> str:
        """What an admin of the cluster types to set the same by hand."""
        return limit_command(account, gpus)

    def drain(self, nodes: Sequence[str], reason: str) -> None:
        """Cordon nodes: what runs there goes on. The reason stands in an annotation."""
        for node in nodes:
            self._cordon(node, is_shut=True, reason=reason)

    def undrain(self, nodes: Sequence[str]) -> None:
        """Uncordon nodes."""
        for node in nodes:
            self._cordon(node, is_shut=False, reason=None)

    def reclassify(self, fence: str, account: str, service_class: str) -> None:
        """Give the job another priority class; pods that run keep the one they began with."""
        job = self._find(fence, account)
        if job is not None and self._is_ours(job, fence):
            body = {"spec": {"priorityClassName": service_class}}
            self._client.merge(path_of(BATCH, "jobs", account, fence), body)

    def _cordon(self, node: str, *, is_shut: bool, reason: str | None) -> None:
        body = {
            "metadata": {"annotations": {"muster/drained": reason}},
            "spec": {"unschedulable": is_shut or None},
        }
        self._client.merge(path_of(CORE, "nodes", name=node), body)

    def _find(self, fence: str, account: str) -> Json | None:
        try:
            return self._client.get(path_of(BATCH, "jobs", account, fence))
        except BackendRejectedError as error:
            if error.code != GONE:
                raise
            return None

    def _pods(self, namespace: str, fence: str) -> list[Json]:
        """The pods of an attempt of ours."""
        ours = f"{FENCE}={fence},{MARK}={self._mark}"
        return self._client.items(path_of(CORE, "pods", namespace), labelSelector=ours)

    def _is_ours(self, job: Mapping[str, Any], fence: str) -> bool:
        return is_ours(job, self._mark) and label(job, FENCE) == fence


def _runs(pod: Mapping[str, Any]) -> bool:
    is_going = bool(pod["metadata"].get("deletionTimestamp"))
    return not is_going and (pod.get("status") or {}).get("phase") == "Running"
