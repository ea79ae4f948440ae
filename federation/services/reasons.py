"""Tells waiting jobs why they wait and where they stand: only what changed is written."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import md5
from itertools import islice

from django.db import connection

from federation.core.lifecycle import JobState
from federation.core.plan import Plan, Reason
from federation.models import ArbiterTerm

MOST_TOLD = 10_000
MOST_REFRESHED = 2_000
REFRESHED_EVERY = timedelta(milliseconds=900)  # so that no cycle of one a second is left out
DEEP = 4_000  # that many jobs more, and all of it is looked at a second later
_TOLD_NOTHING = md5(b"[]", usedforsecurity=False).hexdigest()


def tell(*, plan: Plan, last: datetime | None, now: datetime) -> int:
    """Writes why jobs wait and the order of the queue; to how many a reason was told.

    Jobs that were told nothing yet are told in every cycle, the oldest first. What may change every
    second is looked at about once a second, more seldom in a deep queue (`last` is when it was): the
    order, and the reasons of the others, of which the first in the queue are written. Of both no
    more than a cycle can bear: the rest in later cycles.
    """
    texts = _Texts()
    chosen = list(islice(_new(plan), MOST_TOLD))
    seldom = REFRESHED_EVERY * (1 + len(plan.basis.jobs) // DEEP)
    is_due = last is None or not timedelta(0) <= now - last < seldom
    if is_due:
        chosen += _changed(plan, texts)[:MOST_REFRESHED]
    if chosen:
        _update_reasons({job: texts.of(plan.reasons[job]) for job in chosen})
    if is_due:
        _write_queue(plan.queue, now)
    else:
        ArbiterTerm.objects.filter(id=1).update(cycled_at=now)
    return len(chosen)


def _new(plan: Plan) -> Iterator[int]:
    """The jobs that were told nothing yet, the oldest first."""
    new = sorted([job.id for job in plan.basis.jobs if job.told == _TOLD_NOTHING])
    return (job for job in new if job in plan.reasons)


def _changed(plan: Plan, texts: "_Texts") -> list[int]:
    """The jobs that were told something else, those that stand in no queue first."""
    told = {job.id: job.told for job in plan.basis.jobs if job.told != _TOLD_NOTHING}
    changed: list[int] = []
    if not told:
        return changed
    for alike in plan.reasons.shared():
        jobs = [job for job in alike if job in told]
        if jobs:
            digest = texts.digest(plan.reasons[jobs[0]])
            changed += [job for job in jobs if told[job] != digest]
    place = {job: place for place, job in enumerate(plan.queue)}
    return sorted(changed, key=lambda job: (place.get(job, -1), job))


class _Texts:
    """Reasons as PostgreSQL writes the JSON, so that their digest tells a change.

    What many jobs are told is one value, which the plan keeps: it is known by its identity.
    """

    def __init__(self) -> None:
        self._lists: dict[int, str] = {}
        self._items: dict[int, str] = {}

    def of(self, told: tuple[Reason, ...]) -> str:
        """What a job is told."""
        text = self._lists.get(id(told))
        if text is None:
            text = self._lists[id(told)] = f"[{', '.join(map(self._item, told))}]"
        return text

    def digest(self, told: tuple[Reason, ...]) -> str:
        """What the snapshot gives as the digest of the same text."""
        return md5(self.of(told).encode(), usedforsecurity=False).hexdigest()

    def _item(self, reason: Reason) -> str:
        text = self._items.get(id(reason))
        if text is None:
            text = json.dumps(reason.to_json(), ensure_ascii=False)
            self._items[id(reason)] = text
        return text


def _update_reasons(texts: Mapping[int, str]) -> None:
    """Sends each text once, whatever the number of jobs it is for."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts.values()), start=1)}
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH words AS MATERIALIZED (SELECT number, body"
            " FROM jsonb_array_elements(%s::jsonb) WITH ORDINALITY AS given(body, number)),"
            " told AS (SELECT id, body FROM unnest(%s::bigint[], %s::int[]) AS told(id, number)"
            " JOIN words USING (number))"
            " UPDATE federation_job SET reasons = told.body FROM told"
            " WHERE federation_job.id = told.id AND state = %s",
            [
                f"[{','.join(numbers)}]",
                _array_of(texts),
                _array_of(numbers[text] for text in texts.values()),
                JobState.QUEUED.value,
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
