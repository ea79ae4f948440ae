"""One attempt on a Volcano cluster, told from its Job, its PodGroup and its pods.

The Job alone says too little: it is `Running` with no pod running, `Completed` with pods that failed
or were killed, `Pending` for ever with an image that is missing, `Aborted` whoever asked for it, and
the counts of its pods are gone when it ends (volcano-observed 0). So the pods decide what came of
it, those too that were seen once and are gone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clusters.backends.volcano.nodes import RESOURCES
from clusters.backends.volcano.quantities import asked
from clusters.backends.volcano.translate import FENCE, rank
from clusters.core.observation import GangSeen, GangState, Run
from kit.intervals import to_ms

Json = Mapping[str, Any]

VERSION, SAVED = "volcano.sh/job-version", "muster/checkpoint"
STUCK_MS = 60_000
READING_MS = 10_000  # what a reading takes at most: `gone_ms` is when it began
# Reasons of a container that waits for an image that does not come.
_NO_IMAGE = frozenset({
    "ErrImageNeverPull", "ErrImagePull", "ImageInspectError", "ImagePullBackOff", "InvalidImageName",
    "RegistryUnavailable",
})  # fmt: skip
_WAITS = {"", "Pending"}
LEAVES = {"Aborting", "Terminating", "Completing", "Restarting"}
OVER = {"Aborted", "Completed", "Failed", "Terminated"}
# Why a pod was taken off its node (condition DisruptionTarget), as the end of the attempt.
_DISRUPTED = {
    "DeletionByTaintManager": GangState.NODE_FAILED,
    "DeletionByPodGC": GangState.NODE_FAILED,
    "TerminationByKubelet": GangState.NODE_FAILED,
    "PreemptionByScheduler": GangState.PREEMPTED,
    "EvictionByEvictionAPI": GangState.PREEMPTED,
}
# Which of several pods' ends is the attempt's: the first cause, not what followed from it.
_CAUSES = (GangState.NODE_FAILED, GangState.PREEMPTED, GangState.TIMED_OUT, GangState.FAILED)


@dataclass(frozen=True, slots=True)
class PodSeen:
    """One pod as it was last seen. Times in ms by the cluster's clock, None when not (yet) true.

    `gone_ms` is when its object was seen to be gone; what `leaves` should be so by `due_ms`. `cause`
    is why it ended badly, if it did.
    `saved` is the step that the pod's own annotation says to be saved, for `checkpoint_note`.
    """

    name: str
    version: int
    node: str
    phase: str
    gpus: int
    scheduled_ms: int | None = None
    finished_ms: int | None = None
    gone_ms: int | None = None
    leaves: bool = False
    due_ms: int | None = None
    exit_code: int | None = None
    cause: GangState | None = None
    words: str = ""
    saved: str = ""

    @property
    def holds(self) -> bool:
        """Whether it holds GPUs: bound to a node, not ended, not gone."""
        is_over = self.gone_ms is not None or self.phase in ("Succeeded", "Failed")
        return bool(self.node) and not is_over

    @property
    def lacks_image(self) -> bool:
        """Whether it cannot start for want of its image."""
        return self.words.partition(":")[0] in _NO_IMAGE

    def is_stuck(self, now_ms: int) -> bool:
        """Whether its node does not confirm that it ended, long after it should have."""
        return self.holds and self.due_ms is not None and now_ms > self.due_ms + STUCK_MS

    def released_ms(self, ended_ms: int | None) -> int | None:
        """When it gave its GPUs back, as far as it is known yet.

        What was only seen to be gone had gone by the end of its job (`ended_ms`, None = not yet); where
        that came much later, as when Volcano's controllers were away, by the end of that reading.
        """
        if self.finished_ms is not None or self.gone_ms is None or ended_ms is None:
            return self.finished_ms
        return min(self.gone_ms + READING_MS, ended_ms)


def moment(text: object) -> int | None:
    """Milliseconds of a time as Kubernetes writes it (whole seconds), None where there is none."""
    if not isinstance(text, str) or not text:
        return None
    return to_ms(datetime.fromisoformat(text))


def phase_of(job: Json) -> str:
    """The phase of a job, "" = Volcano has not seen it yet."""
    return ((job.get("status") or {}).get("state") or {}).get("phase") or ""


def pod_seen(raw: Json, gone_ms: int | None = None) -> PodSeen:
    """A pod of an attempt."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    ended = [
        one["state"]["terminated"]
        for one in status.get("containerStatuses") or ()
        if one.get("state", {}).get("terminated")
    ]
    finished = [at for one in ended if (at := moment(one.get("finishedAt"))) is not None]
    codes = [one["exitCode"] for one in ended if one.get("exitCode")]
    cause, words = _cause(status, conditions, codes)
    return PodSeen(
        name=meta["name"],
        version=int((meta.get("annotations") or {}).get(VERSION, 0)),
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "",
        gpus=_gpus(spec),
        scheduled_ms=(
            moment(scheduled.get("lastTransitionTime"))
            if scheduled.get("status") == "True"
            else None
        ),
        finished_ms=max(finished, default=None),
        gone_ms=gone_ms,
        leaves=bool(meta.get("deletionTimestamp")),
        due_ms=moment(meta.get("deletionTimestamp")),
        exit_code=codes[0] if codes else (0 if ended else None),
        cause=cause,
        words=words,
        saved=str((meta.get("annotations") or {}).get(SAVED, ""))[:16],
    )


def _gpus(spec: Json) -> int:
    found = 0
    for one in spec.get("containers") or ():
        requests = (one.get("resources") or {}).get("requests") or {}
        found += sum(asked(requests, name).gpus for name in RESOURCES if name in requests)
    return found


def _cause(
    status: Json, conditions: Mapping[str, Json], codes: Sequence[int]
) -> tuple[GangState | None, str]:
    """Why it ended badly, or what it waits for, in the cluster's words."""
    disrupted = conditions.get("DisruptionTarget") or {}
    if disrupted.get("status") == "True":
        reason = disrupted.get("reason", "")
        words = ": ".join(filter(None, (reason, disrupted.get("message"))))
        return _DISRUPTED.get(reason, GangState.PREEMPTED), words
    if status.get("reason") == "DeadlineExceeded":
        return GangState.TIMED_OUT, "its time limit was over"
    if status.get("phase") == "Failed":
        return GangState.FAILED, f"exit code {codes[0]}" if codes else _said(status)
    return None, _waiting(status, conditions)


def _said(status: Json) -> str:
    return ": ".join(filter(None, (status.get("reason"), status.get("message")))) or "it failed"


def _waiting(status: Json, conditions: Mapping[str, Json]) -> str:
    for one in status.get("containerStatuses") or ():
        waits = one.get("state", {}).get("waiting")
        if waits:
            return ": ".join(filter(None, (waits.get("reason"), waits.get("message"))))
    scheduled = conditions.get("PodScheduled") or {}
    return scheduled.get("message", "") if scheduled.get("status") == "False" else ""


def attempt_seen(
    job: Json, group: Json | None, pods: Iterable[PodSeen], now_ms: int = 0
) -> GangSeen:
    """The attempt, at `now_ms`. `pods` are all that were seen of it, also those that are gone.

    Pods of an older version of the job belong to an earlier run of the same attempt.
    """
    meta, status, spec = job["metadata"], job.get("status") or {}, job["spec"]
    found = sorted(pods, key=lambda pod: rank(pod.name))
    newest = max((pod.version for pod in found), default=0)
    now = [pod for pod in found if pod.version == newest]
    wanted = sum(task.get("replicas", 1) for task in spec["tasks"])
    phase = phase_of(job)
    state, reason = attempt_state(phase, now, wanted, group)
    ended_ms = _ended_ms(status) if state.is_final else None
    pinned = tuple(filter(None, (meta.get("annotations") or {}).get("muster/nodes", "").split(",")))
    runs = _runs(found, newest, state, ended_ms)
    last = runs[-1] if runs and now else None
    bad = sorted(
        (pod for pod in now if pod.exit_code), key=lambda pod: (pod.finished_ms or 0, pod.name)
    )
    return GangSeen(
        fence=(meta.get("labels") or {}).get(FENCE, meta["name"]),
        backend_id=meta["uid"],
        state=state,
        reason=reason,
        account=meta["namespace"],
        nodes=last.nodes if last else (),
        gpus=sum(pod.gpus for pod in now),
        submitted_ms=moment(meta.get("creationTimestamp")),
        started_ms=last.start_ms if last else None,
        ended_ms=last.end_ms if last else ended_ms,
        exit_code=bad[0].exit_code if bad else (0 if state is GangState.SUCCEEDED else None),
        runs=runs,
        pinned=pinned,
        broken=_broken(state, now, now_ms),
        comment=_note(now),
    )


def _broken(state: GangState, pods: Sequence[PodSeen], now_ms: int) -> GangState | None:
    """How a gang will end that has lost a pod and that nobody there will end.

    A node does not confirm that its pod ended, or the controllers were away when one failed, so that
    no policy acted on it (volcano-observed 0.2, 0.3).
    """
    if any(pod.is_stuck(now_ms) for pod in pods):
        return GangState.NODE_FAILED
    lost = {pod.cause for pod in pods} if state is GangState.RUNNING else set()
    return next((cause for cause in _CAUSES if cause in lost), None)


def _note(pods: Sequence[PodSeen]) -> str:
    """The furthest step that a pod of the attempt says to have saved, in the words of a comment."""
    steps = [pod.saved for pod in pods if pod.saved.isdecimal()]
    return f"muster-checkpoint={max(steps, key=int)}" if steps else ""


def attempt_state(
    phase: str, pods: Sequence[PodSeen], wanted: int, group: Json | None
) -> tuple[GangState, str]:
    """The table: the job's phase and its pods (of its newest version), to our state and words."""
    holding = [pod for pod in pods if pod.holds]
    running = [pod for pod in holding if pod.phase == "Running" and not pod.leaves]
    if phase in LEAVES:
        return GangState.ENDING, phase
    if phase in _WAITS or phase == "Running":
        return _alive(phase, holding, running, pods, wanted, group)
    if holding:  # `Failed` is said while its pods still leave
        return GangState.ENDING, f"{phase}, {len(holding)} pods still leave"
    return _final(phase, pods, wanted)


def _alive(
    phase: str,
    holding: Sequence[PodSeen],
    running: Sequence[PodSeen],
    pods: Sequence[PodSeen],
    wanted: int,
    group: Json | None,
) -> tuple[GangState, str]:
    bad = next((pod for pod in pods if pod.cause is not None), None)
    if bad is not None:  # no policy acted on it: the controllers were away
        return (GangState.RUNNING if holding else GangState.ENDING), f"{bad.name}: {bad.words}"
    done = sum(pod.phase == "Succeeded" for pod in pods)
    if running and len(running) + done >= wanted:
        return GangState.RUNNING, ""
    if holding:
        late = [pod for pod in holding if pod not in running] or holding
        worst = min(late, key=lambda pod: (not pod.lacks_image, not pod.words))
        words = f"{worst.name} on {worst.node}: {worst.words or worst.phase}"
        code = "image_unavailable: " if worst.lacks_image else ""
        return GangState.STARTING, f"{code}{len(running)} of {wanted} pods run; {words}"
    if phase == "Running":
        return GangState.ENDING, "none of its pods runs"
    return GangState.PENDING, _group_words(group)


def _group_words(group: Json | None) -> str:
    """Why the gang waits. Conditions are never taken back, so the last one that is true counts."""
    status = (group or {}).get("status") or {}
    told = [one for one in status.get("conditions") or () if one.get("status") == "True"]
    told.sort(key=lambda one: one.get("lastTransitionTime", ""))
    words = told[-1].get("message") or told[-1].get("reason") if told else ""
    return ": ".join(filter(None, (status.get("phase"), words)))


def _final(phase: str, pods: Sequence[PodSeen], wanted: int) -> tuple[GangState, str]:
    causes = [pod for pod in pods if pod.cause is not None]
    for cause in _CAUSES:
        found = next((pod for pod in causes if pod.cause is cause), None)
        if found is not None:
            return cause, f"{found.name}: {found.words}"
    if phase == "Completed":
        done = sum(pod.phase == "Succeeded" for pod in pods)
        if done >= wanted:
            return GangState.SUCCEEDED, ""
        return GangState.CANCELLED, f"completed by command: {done} of {wanted} pods succeeded"
    if phase in ("Terminated", "Failed") and not any(pod.node for pod in pods):
        return GangState.FAILED, "Volcano gave up making its pods"
    return GangState.CANCELLED, phase


def _ended_ms(status: Json) -> int | None:
    return moment((status.get("state") or {}).get("lastTransitionTime"))


def _runs(
    pods: Sequence[PodSeen], newest: int, state: GangState, ended_ms: int | None
) -> tuple[Run, ...]:
    """One stay for each version of the job whose pods were on nodes.

    It lasts from the first pod that was bound until the last one gave its GPUs back: a gang is held
    whole. A pod that is killed goes without a word: the end that its job tells, a moment after the
    last of them, is nearer than when somebody looked again.
    """
    runs = []
    for version in sorted({pod.version for pod in pods}):
        stay = [pod for pod in pods if pod.version == version and pod.scheduled_ms is not None]
        if not stay:
            continue
        start_ms = min(pod.scheduled_ms for pod in stay if pod.scheduled_ms is not None)
        ends = [
            pod.released_ms(ended_ms if version == newest else pod.gone_ms)
            if not pod.holds
            else None
            for pod in stay
        ]
        known = [end for end in ends if end is not None]
        end_ms = max(known) if len(known) == len(stay) else ended_ms
        if end_ms is not None:
            end_ms = max(end_ms, start_ms)
        how = state if version == newest else GangState.CANCELLED
        nodes = tuple(dict.fromkeys(pod.node for pod in stay))
        runs.append(Run(start_ms, end_ms, sum(pod.gpus for pod in stay), nodes, how))
    return tuple(runs)
