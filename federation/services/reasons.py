"""Tells waiting jobs why they wait and where they stand: only what changed is written."""

import json
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import md5
from itertools import islice
from typing import NamedTuple

from django.db import connection
from django.db.models import TextField
from django.db.models.functions import MD5, Cast

from federation.core.lifecycle import JobState
from federation.core.plan import Plan, Reason
from federation.core.snapshot import WaitingJob
from federation.models import ArbiterTerm, Telling

MOST_TOLD = 10_000
MOST_REFRESHED = 2_000
REFRESHED_EVERY = timedelta(milliseconds=900)  # so that no cycle of one a second is left out
DEEP = 4_000  # that many jobs more, and all of it is looked at a second later


class Said(NamedTuple):
    """What a job was told: in which of its versions, and the digest of the reasons."""

    version: int
    digest: str


class Memory:
    """What this leader told the jobs that wait; what another one told before is read once.

    Jobs that left the queue are forgotten when they are the most of it: they come back as another
    version, or are told anew.
    """

    def __init__(self) -> None:
        self._said: dict[int, Said] | None = None

    def of(self, jobs: Sequence[WaitingJob]) -> Mapping[int, Said]:
        """What the jobs, and some that do not wait, were told last, perhaps in another version."""
        if self._said is None:
            self._said = _read()
        elif len(self._said) > 2 * len(jobs) + MOST_TOLD:
            self._said = {job.id: self._said[job.id] for job in jobs if job.id in self._said}
        return self._said

    def keep(self, told: Mapping[int, Said]) -> None:
        """Know what was told since; to be called when it is committed."""
        self._said = self._said or {}
        self._said.update(told)


def tell(*, plan: Plan, memory: Memory, last: datetime | None, now: datetime) -> Mapping[int, Said]:
    """Writes why jobs wait and the order of the queue; who was told what.

    Jobs that were told nothing yet are told in every cycle, the oldest first. What may change every
    second is looked at about once a second, more seldom in a deep queue (`last` is when it was): the
    order, and the reasons of the others, of which the first in the queue are written. Of both no
    more than a cycle can bear: the rest in later cycles.
    """
    texts, jobs = _Texts(), plan.basis.jobs
    said = memory.of(jobs)
    new = {
        job.id: job.version
        for job in jobs
        if (it := said.get(job.id)) is None or it.version != job.version
    }
    chosen = list(islice((job for job in sorted(new) if job in plan.reasons), MOST_TOLD))
    seldom = REFRESHED_EVERY * (1 + len(jobs) // DEEP)
    is_due = last is None or not timedelta(0) <= now - last < seldom
    if is_due:
        chosen += _changed(plan, said, new, texts)[:MOST_REFRESHED]
    told = {
        key: Said(new[key] if key in new else said[key].version, texts.digest(plan.reasons[key]))
        for key in chosen
    }
    if told:
        _write(told, texts.by_digest)
    if is_due:
        _write_queue(plan.queue, now)
    else:
        ArbiterTerm.objects.filter(id=1).update(cycled_at=now)
    return told


def _changed(
    plan: Plan, said: Mapping[int, Said], new: Container[int], texts: "_Texts"
) -> list[int]:
    """The jobs that were told something else before, those that stand in no queue first."""
    changed: list[int] = []
    for alike in plan.reasons.shared():
        jobs = [job for job in alike if job not in new]
        if jobs:
            digest = texts.digest(plan.reasons[jobs[0]])
            changed += [job for job in jobs if said[job].digest != digest]
    place = {job: place for place, job in enumerate(plan.queue)} if changed else {}
    return sorted(changed, key=lambda job: (place.get(job, -1), job))


class _Texts:
    """Reasons as PostgreSQL writes the JSON, so that their digest tells a change.

    What many jobs are told is one value, which the plan keeps: it is known by its identity.
    """

    def __init__(self) -> None:
        self.by_digest: dict[str, str] = {}
        self._digests: dict[int, str] = {}
        self._items: dict[int, str] = {}

    def digest(self, told: tuple[Reason, ...]) -> str:
        """The digest of what a job is told, as `_read` has it; its text is kept."""
        digest = self._digests.get(id(told))
        if digest is None:
            text = f"[{', '.join(map(self._item, told))}]"
            digest = md5(text.encode(), usedforsecurity=False).hexdigest()
            self._digests[id(told)] = digest
            self.by_digest[digest] = text
        return digest

    def _item(self, reason: Reason) -> str:
        text = self._items.get(id(reason))
        if text is None:
            text = json.dumps(reason.to_json(), ensure_ascii=False)
            self._items[id(reason)] = text
        return text


def _read() -> dict[int, Said]:
    rows = Telling.objects.filter(job__state=JobState.QUEUED).order_by()
    digests = rows.annotate(digest=MD5(Cast("reasons", TextField())))
    return {
        job: Said(version, digest)
        for job, version, digest in digests.values_list("job_id", "version", "digest")
    }


def _write(told: Mapping[int, Said], texts: Mapping[str, str]) -> None:
    """Sends each text once, whatever the number of jobs it is for."""
    digests = dict.fromkeys(said.digest for said in told.values())
    numbers = {digest: number for number, digest in enumerate(digests, start=1)}
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH words AS MATERIALIZED (SELECT number, body"
            " FROM jsonb_array_elements(%s::jsonb) WITH ORDINALITY AS given(body, number))"
            " INSERT INTO federation_telling (job_id, version, reasons)"
            " SELECT job, version, body"
            " FROM unnest(%s::bigint[], %s::int[], %s::int[]) AS told(job, version, number)"
            " JOIN words USING (number) ON CONFLICT (job_id)"
            " DO UPDATE SET version = excluded.version, reasons = excluded.reasons",
            [
                f"[{','.join(map(texts.__getitem__, digests))}]",
                _array_of(told),
                _array_of(said.version for said in told.values()),
                _array_of(numbers[said.digest] for said in told.values()),
            ],
        )


def _write_queue(queue: Collection[int], now: datetime) -> None:
    """Writes the queue's order when it changed, and that a cycle ended."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE federation_arbiterterm SET cycled_at = %s, told_at = %s, queue = given.queue,"
            " ranked_at ="
            " CASE WHEN federation_arbiterterm.queue = given.queue THEN ranked_at ELSE %s END"
            " FROM (SELECT %s::bigint[] AS queue) AS given",
            [now, now, now, _array_of(queue)],
        )


def _array_of(numbers: Iterable[int]) -> str:
    """PostgreSQL's text of an array; the driver takes ten times as long to write a long list."""
    return f"{{{','.join(map(str, numbers))}}}"
