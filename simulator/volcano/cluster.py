"""A Volcano cluster in operation: the API, and Volcano's parts driven by what changes and by time.

Controllers act at once after each change, the scheduler once in its period, kubelets when a stage
of a pod is over. Everything below is told the time.
"""

import heapq
from collections.abc import Awaitable, Callable
from pathlib import Path

from simulator.config import Cluster
from simulator.kubernetes.deletion import collect
from simulator.kubernetes.errors import ApiError, Json
from simulator.kubernetes.objects import Key, at, is_going, key_of, ms_of
from simulator.kubernetes.resources import BY_PLURAL
from simulator.kubernetes.store import Change, Store
from simulator.kubernetes.verbs import Api
from simulator.kubernetes.watching import Clock, Scissors
from simulator.runtime import Timed
from simulator.volcano import kubelets, nodes, saving
from simulator.volcano.applying import apply
from simulator.volcano.furnishing import gate, things
from simulator.volcano.jobs import View, goes_at_ms, sync
from simulator.volcano.making import podgroup_name
from simulator.volcano.queues import defaulted, ordered
from simulator.volcano.scheduler import Seen, cycle
from simulator.volcano.topology import counted
from simulator.volcano.tries import Tries
from simulator.volcano.webhooks import admit
from simulator.volcano.writes import Create, Note, Write, delete

_JOB = "volcano.sh/job-name"
_EXTRAS = ("configmaps", "services", "networkpolicies")
_MOST_PASSES = 1000


class VolcanoCluster(Timed):
    """One simulated Volcano cluster, to be served by `simulator.kubernetes.app`."""

    def __init__(self, config: Cluster) -> None:
        """Make the cluster that the configuration describes."""
        super().__init__(config)
        self.scissors = Scissors()
        self.clock = Clock(self.now_ms, self._wait)
        self._begin(self.clock_ms())

    def _begin(self, now_ms: int) -> None:
        self.store = Store(seed=self.config.seed)
        self.api = Api(self.store, admit)
        self.gate = gate(self.config)
        self.tries = Tries()
        self._at_ms = now_ms
        self._jobs: dict[Key, None] = {}
        self._commands: list[Json] = []
        self._gone: dict[Key, list[Json]] = {}
        self._pods: dict[Key, dict[Key, None]] = {}
        self._fresh: list[tuple[str, Json]] = []
        self._alarms: list[tuple[int, int, Callable[[], None]]] = []
        self._alarm_count = 0
        self._stages: dict[str, str] = {}
        self._given_up: dict[str, None] = {}
        # Off the whole second, on which terminating pods go: as in life, the two seldom meet.
        self._next_cycle_ms = now_ms + self.config.volcano.schedule_period_ms * 2 // 5
        self._quiet_at = self._said_at = -1
        self._changes = 0
        self._said: list[Write] = []
        self.paused = False
        self.store.hearers.append(self._hear)
        self._furnish(now_ms)
        self._saved = self.store.revision
        self.settle()

    def _furnish(self, now_ms: int) -> None:
        """What is there at the beginning: what was saved, or what the configuration says."""
        if saving.read(self.config, self.store):
            self._recall()
            return
        for plural, thing in things(self.config, now_ms):
            self.store.create(BY_PLURAL[plural], thing, now_ms)

    def _recall(self) -> None:
        """Look at all that is there, as parts that start do. What ran goes on where it was."""
        for plural in ("nodes", "queues", "hypernodes", "commands", "jobs", "podgroups", "pods"):
            resource = BY_PLURAL[plural]
            for thing in self.store.items[resource].values():
                self._hear(Change(self.store.revision, "ADDED", resource, None, thing))

    def save(self) -> None:
        """Write the state file, if there is one and anything changed."""
        if self._saved != self.store.revision:
            saving.write(self.config, self.store)
            self._saved = self.store.revision

    def _wait(self, ms: int) -> Awaitable[None]:
        return self.pause(ms)

    def reset(self) -> None:
        """Begin anew."""
        if self.config.state_file is not None:
            Path(self.config.state_file).unlink(missing_ok=True)
        self.faults.clear()
        self.late.clear()
        self.scissors.cut(abrupt=False)
        self._begin(self._at_ms)

    def now_ms(self) -> int:
        """The cluster's time; the cluster is brought up to it."""
        now_ms = max(self.clock_ms(), self._at_ms)
        self.settle()
        while True:
            due_ms = min(self._alarms[0][0] if self._alarms else now_ms + 1, self._cycle_ms())
            if due_ms > now_ms:
                break
            self._at_ms = max(self._at_ms, due_ms)
            self._strike()
            self.settle()
        self._at_ms = now_ms
        return now_ms

    def _cycle_ms(self) -> int:
        """When the scheduler runs next; while nothing changes it sleeps."""
        if self.store.revision == self._quiet_at:
            period = self.config.volcano.schedule_period_ms
            while self._next_cycle_ms <= self._at_ms:
                self._next_cycle_ms += period
            return max(self._next_cycle_ms, self.clock_ms() + 1)
        return self._next_cycle_ms

    def _strike(self) -> None:
        """All that is due at this moment: a cycle, then kubelets; what ends waits for the next."""
        if self._cycle_ms() <= self._at_ms:
            self._next_cycle_ms += self.config.volcano.schedule_period_ms
            if not self.paused:
                self._schedule()
        while self._alarms and self._alarms[0][0] <= self._at_ms:
            heapq.heappop(self._alarms)[2]()

    def _schedule(self) -> None:
        """A cycle. Where nothing but events has changed, it says again what it said before."""
        if self._said_at != self._changes:
            self._said = cycle(self._seen(), self._at_ms)
        before = self._changes
        self._apply(self._said)
        if self._changes == before:
            self._said_at = before
            if not self._said:
                self._quiet_at = self.store.revision

    def _seen(self) -> Seen:
        kinds = ("nodes", "pods", "podgroups", "queues", "hypernodes", "priorityclasses")
        return Seen(*([*self.store.all(BY_PLURAL[kind])] for kind in kinds))

    def settle(self) -> None:
        """Let the controllers work until there is nothing to do at this moment."""
        for _ in range(_MOST_PASSES):
            if not self._pass():
                return
        raise RuntimeError("the controllers do not come to rest")

    def _pass(self) -> bool:
        busy = bool(self._fresh or self._commands or self._jobs)
        fresh, self._fresh = self._fresh, []
        for plural, thing in fresh:
            self._apply(self._welcome(plural, thing))
        commands, self._commands = self._commands, []
        for command in commands:
            self._obey(command)
        for key in list(self._jobs):
            del self._jobs[key]
            self._sync(key, "")
        return self._collected() or busy

    def _collected(self) -> bool:
        """Whether the garbage collector and the namespace controller found something to do."""
        return collect(self.store, self._at_ms)

    def _welcome(self, plural: str, thing: Json) -> list[Write]:
        known = self.store.items[BY_PLURAL[plural]].get(key_of(thing))
        if known is None:
            return []
        if plural == "queues":
            return defaulted(known)
        if plural == "hypernodes":
            return counted(known, list(self.store.all(BY_PLURAL["nodes"])))
        return nodes.look_after(known, self._at_ms)

    def _apply(self, writes: list[Write]) -> list[ApiError]:
        errors = [apply(self.api, write, self._at_ms) for write in writes]
        return [error for error in errors if error is not None]

    def _obey(self, command: Json) -> None:
        """A Command is gone before its action is tried; one without a fit target stays (06)."""
        kind = at(command, "target", "kind")
        if kind not in {"Job", "Queue"}:
            return
        self._apply([delete("commands", command)])
        name, action = command["target"].get("name", ""), str(command.get("action", ""))
        if kind == "Queue":
            queue = self.store.find(BY_PLURAL["queues"], "", name)
            if queue is not None:
                self._apply(ordered(queue, action, has_groups=self._has_groups(name)))
            return
        key = (command["metadata"]["namespace"], name)
        job = self.store.find(BY_PLURAL["jobs"], *key)
        if job is None:
            return
        said = f"Start to execute command {action}, and clean it up to make sure executed not more "
        self._apply([Note(job, "Normal", "CommandIssued", said + "than once.")])
        # A job that was never looked at is seen first.
        self._sync(key, "")
        self._sync(key, action)

    def _has_groups(self, queue: str) -> bool:
        groups = self.store.all(BY_PLURAL["podgroups"])
        return any(group["spec"].get("queue") == queue for group in groups)

    def _sync(self, key: Key, order: str) -> None:
        job = self.store.find(BY_PLURAL["jobs"], *key)
        if job is None or self.faults.controller_down:
            return
        wants = sync(self._view(job, order), self._at_ms)
        errors = self._apply(wants)
        if errors:
            said = f"Error creating pods: [{'; '.join(_told(error) for error in errors)}]"
            self._apply([Note(job, "Warning", "FailedCreate", said)])
            next_ms = self.tries.failed(key, self._at_ms)
            if self.tries.is_over(key):
                self._given_up[job["metadata"]["uid"]] = None
                self.tries.gave_up(key)
                next_ms = self._at_ms
            self._later(next_ms, lambda: self._mark(key))
        elif any(isinstance(write, Create) for write in wants):
            self.tries.worked(key)
        due_ms = goes_at_ms(job)
        if due_ms is not None:
            self._later(due_ms, lambda: self._mark(key))

    def _mark(self, key: Key) -> None:
        self._jobs[key] = None

    def _view(self, job: Json, order: str) -> View:
        key = key_of(job)
        pods = BY_PLURAL["pods"]
        extras = [
            (resource.plural, self.store.get(resource, place))
            for resource, place in self.store.dependents(job["metadata"]["uid"])
            if resource.plural in _EXTRAS
        ]
        return View(
            job,
            [self.store.get(pods, place) for place in self._pods.get(key, ())],
            self.store.find(BY_PLURAL["podgroups"], key[0], podgroup_name(job)),
            extras,
            self._gone.pop(key, []),
            order,
            self.tries.waits(key, self._at_ms),
            job["metadata"]["uid"] in self._given_up,
        )

    def _hear(self, change: Change) -> None:
        """A change, and who has to look at it."""
        plural, thing = change.resource.plural, change.new
        self._changes += plural != "events"
        match plural:
            case "jobs":
                self._mark(key_of(thing))
            case "pods":
                self._hear_pod(change)
            case "podgroups" | "configmaps" | "services" | "networkpolicies":
                self._mark_owner(thing)
            case "commands" if change.type == "ADDED":
                self._commands.append(thing)
            case "queues" | "hypernodes" if change.type == "ADDED":
                self._fresh.append((plural, thing))
            case "nodes":
                self._hear_node(change)

    def _mark_owner(self, thing: Json) -> None:
        for reference in thing["metadata"].get("ownerReferences") or []:
            if reference["kind"] == "Job":
                self._mark((thing["metadata"]["namespace"], reference["name"]))

    def _hear_pod(self, change: Change) -> None:
        pod = change.new
        place = key_of(pod)
        name = (pod["metadata"].get("labels") or {}).get(_JOB)
        if name:
            job = (place[0], name)
            if change.type == "DELETED":
                self._pods.get(job, {}).pop(place, None)
                self._gone.setdefault(job, []).append(pod)
            else:
                self._pods.setdefault(job, {})[place] = None
            self._mark(job)
        if change.type == "DELETED":
            self._stages.pop(pod["metadata"]["uid"], None)
        else:
            self._plan(pod)

    def _plan(self, pod: Json) -> None:
        """Set the alarm for the end of the stage that a pod has come to."""
        node = self.store.find(BY_PLURAL["nodes"], "", str(at(pod, "spec", "nodeName")))
        plan = kubelets.plan(pod, node)
        uid = pod["metadata"]["uid"]
        stage = "" if plan is None else f"{plan.stage}/{plan.due_ms}"
        if self._stages.get(uid) == stage or plan is None:
            self._stages[uid] = stage
            return
        self._stages[uid] = stage
        ms = round(plan.seconds * 1000 / self.config.speed)
        due_ms = self._began_ms(pod, plan.stage) + ms if plan.due_ms is None else plan.due_ms
        key = key_of(pod)
        self._later(due_ms, lambda: self._play(key, uid, stage))

    def _began_ms(self, pod: Json, stage: str) -> int:
        """When its stage began: now, or before the state was saved that it was read from."""
        started = at(pod, "status", "startTime")
        if stage != "running" or not started or ms_of(started) > self._at_ms - 1000:
            return self._at_ms
        return ms_of(started)

    def _play(self, key: Key, uid: str, stage: str) -> None:
        pod = self.store.find(BY_PLURAL["pods"], *key)
        if pod is not None and pod["metadata"]["uid"] == uid and self._stages.get(uid) == stage:
            self._apply(kubelets.act(pod, stage.partition("/")[0], self._at_ms))

    def _hear_node(self, change: Change) -> None:
        name = change.new["metadata"]["name"]
        if change.type == "DELETED":
            self._later(self._at_ms + nodes.COLLECTED_AFTER_MS, lambda: self._collect(name))
            return
        self._fresh.append(("nodes", change.new))
        if change.type == "MODIFIED":
            self._later(self._at_ms, lambda: self._rethink(name))
        since = (change.new["metadata"].get("annotations") or {}).get(kubelets.SILENT)
        if since:
            due_ms = int(since) + nodes.UNKNOWN_AFTER_MS
            self._later(due_ms, lambda: self._fresh.append(("nodes", change.new)))

    def _pods_on(self, node: str) -> list[Json]:
        pods = self.store.all(BY_PLURAL["pods"])
        return [pod for pod in pods if at(pod, "spec", "nodeName") == node]

    def _rethink(self, name: str) -> None:
        """The node is another: its kubelet speaks or not, its taints evict or not."""
        node = self.store.find(BY_PLURAL["nodes"], "", name)
        for pod in self._pods_on(name):
            self._plan(pod)
            due_ms = nodes.evicted_at_ms(pod, node) if node is not None else None
            if due_ms is not None and due_ms <= self._at_ms:
                self._apply(nodes.evict(pod, self._at_ms))
            elif due_ms is not None:
                self._later(due_ms, lambda: self._rethink(name))

    def _collect(self, name: str) -> None:
        if self.store.find(BY_PLURAL["nodes"], "", name) is None:
            for pod in self._pods_on(name):
                if not is_going(pod) or at(pod, "status", "phase") != "Failed":
                    self._apply(nodes.collect(pod, self._at_ms))

    def _later(self, due_ms: int, act: Callable[[], None]) -> None:
        self._alarm_count += 1
        heapq.heappush(self._alarms, (due_ms, self._alarm_count, act))


def _told(error: ApiError) -> str:
    body = error.body
    name = at(body, "details", "name") or ""
    return (
        f"failed to create pod {name}, err: &errors.StatusError{{ErrStatus:v1.Status{{Status:"
        f'"Failure", Message:{str(error)!r}, Reason:"{body.get("reason", "")}", Code:{error.code}}}}}'
    )
