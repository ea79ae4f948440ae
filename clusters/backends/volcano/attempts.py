"""Attempts of ours by their jobs, PodGroups and pods, each told anew only when something of it moved.

Pods of ours that are gone are remembered while their job is there, as a pod that was killed leaves
nothing behind (volcano-observed 19).
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from clusters.backends.volcano.attempt import OVER, PodSeen, attempt_seen, phase_of, pod_seen
from clusters.backends.volcano.translate import FENCE, MARK
from clusters.core.observation import GangSeen

Json = Mapping[str, Any]
Place = tuple[str, str]  # namespace and fence


@dataclass(frozen=True, slots=True)
class Own:
    """A pod of an attempt of ours, and the uid of its job ("" = it does not say)."""

    place: Place
    uid: str
    job: str
    pod: PodSeen

    def is_of(self, job: Json) -> bool:
        """Whether it is a pod of this very job, and not of one before it of the same name."""
        return self.job in ("", _uid(job))


def own(pod: Json) -> Own:
    """A pod that bears our labels."""
    meta = pod["metadata"]
    place = meta.get("namespace") or "", label(pod, FENCE)
    return Own(place, meta["uid"], next(iter(_owners(pod)), ""), pod_seen(pod))


def label(thing: Json, name: str) -> str:
    """A label's value, "" without it."""
    return str((thing["metadata"].get("labels") or {}).get(name, ""))


def is_ours(thing: Json, mark: str) -> bool:
    """Whether the labels say that this Muster made it."""
    return label(thing, MARK) == mark and bool(label(thing, FENCE))


def slim(thing: Json) -> Json:
    """An object without what nobody reads: who wrote which field, and the templates of pods."""
    meta = {name: value for name, value in thing["metadata"].items() if name != "managedFields"}
    kept = {**thing, "metadata": meta}
    spec = thing.get("spec") or {}
    if "tasks" in spec:
        tasks = [
            {name: value for name, value in task.items() if name != "template"}
            for task in spec["tasks"]
        ]
        kept["spec"] = {**spec, "tasks": tasks}
    return kept


class Attempts:
    """All that is known of our attempts, and of jobs of others that bear such a name as ours."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._jobs: dict[Place, Json] = {}
        self._others: dict[Place, Json] = {}
        self._groups: dict[str, Json] = {}  # by the uid of the job that owns it
        self._pods: defaultdict[Place, dict[str, Own]] = defaultdict(dict)
        self._gone: set[tuple[Place, str]] = set()  # since the last look: nobody has said when
        self._told: dict[Place, GangSeen] = {}
        self._leaving: set[Place] = set()
        self._whose: dict[str, Place] = {}  # our jobs by uid

    def read_job(self, job: Json) -> Json | None:
        """What is kept of a job: of ours, or of one that only bears such a name."""
        bears = str(job["metadata"]["name"]).startswith("mst-")
        return slim(job) if bears or is_ours(job, self._mark) else None

    def hear_job(self, old: Json | None, new: Json | None) -> None:
        """A job is there, changed or gone; with it goes what is remembered of pods that are gone."""
        if old is not None:
            place, uid = _place(old), _uid(old)
            self._jobs.pop(place, None)
            self._others.pop(place, None)
            self._told.pop(place, None)
            self._whose.pop(uid, None)
            if new is None or _uid(new) != uid:
                pods = self._pods.get(place, {})
                for gone in [one for one, own in pods.items() if own.pod.gone_ms is not None]:
                    del pods[gone]
        if new is None:
            return
        place = _place(new)
        if not is_ours(new, self._mark):
            self._others[place] = new
            return
        self._jobs[place] = new
        self._whose[_uid(new)] = place

    def hear_group(self, old: Json | None, new: Json | None) -> None:
        """A PodGroup is there, changed or gone."""
        for owner in _owners(old):
            self._groups.pop(owner, None)
        for owner in _owners(new):
            self._groups[owner] = new or {}
        for owner in (*_owners(old), *_owners(new)):
            if owner in self._whose:
                self._told.pop(self._whose[owner], None)

    def hear_pod(self, old: Own | None, new: Own | None) -> None:
        """A pod of ours is there, changed or gone: then it is kept as it was last."""
        if old is not None and (new is None or (old.place, old.uid) != (new.place, new.uid)):
            self._gone.add((old.place, old.uid))
            self._told.pop(old.place, None)
        if new is not None:
            self._pods[new.place][new.uid] = new
            self._gone.discard((new.place, new.uid))
            self._told.pop(new.place, None)

    def gangs(self, now_ms: int) -> tuple[GangSeen, ...]:
        """Our attempts, in the order of their names. `now_ms` is the cluster's clock."""
        self._bury(now_ms)
        for place in self._leaving:  # what leaves is judged by the clock, too
            self._told.pop(place, None)
        self._leaving.clear()
        for place in self._jobs.keys() - self._told.keys():
            job = self._jobs[place]
            pods = [own.pod for own in self._pods.get(place, {}).values() if own.is_of(job)]
            self._told[place] = attempt_seen(job, self._groups.get(_uid(job)), pods, now_ms)
            if any(pod.leaves for pod in pods):
                self._leaving.add(place)
        return tuple(self._told[place] for place in sorted(self._told))

    def namesakes(self) -> tuple[GangSeen, ...]:
        """Jobs that are not ours and bear such a name, as far as they are not over."""
        return tuple(
            attempt_seen(job, self._groups.get(_uid(job)), ())
            for _, job in sorted(self._others.items(), key=lambda item: item[0])
            if phase_of(job) not in OVER
        )

    def _bury(self, now_ms: int) -> None:
        """Those that are missing were gone by now, if nobody told sooner."""
        for place, uid in self._gone:
            pods, job = self._pods[place], self._jobs.get(place)
            last = pods.pop(uid, None)
            if last is not None and job is not None and last.is_of(job):
                pods[uid] = replace(last, pod=replace(last.pod, gone_ms=now_ms))
            if not pods:
                del self._pods[place]
        self._gone.clear()


def _place(job: Json) -> Place:
    return job["metadata"].get("namespace") or "", job["metadata"]["name"]


def _uid(job: Json) -> str:
    return str(job["metadata"]["uid"])


def _owners(thing: Json | None) -> list[str]:
    if thing is None:
        return []
    return [owner["uid"] for owner in thing["metadata"].get("ownerReferences") or ()]
