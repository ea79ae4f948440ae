"""Tells waiting jobs why they wait: only what changed is written, in one statement."""

import json
from collections.abc import Iterable, Mapping
from hashlib import md5

from django.db import connection

from federation.core.lifecycle import JobState
from federation.core.plan import Plan, Reason

MOST_REFRESHED = 2_000
_TOLD_NOTHING = md5(b"[]", usedforsecurity=False).hexdigest()


def write_reasons(*, plan: Plan) -> int:
    """Writes the reasons that changed; how many jobs.

    Jobs that were told nothing yet all are; of the others, whose numbers may change every second,
    the first in the queue, and the rest in later cycles.
    """
    texts = _texts(plan.reasons)
    digests = {
        text: md5(text.encode(), usedforsecurity=False).hexdigest() for text in texts.values()
    }
    told = {job.id: job.told for job in plan.basis.jobs}
    place = {job: number for number, job in enumerate(plan.queue)}
    changed = [job for job, text in texts.items() if told[job] != digests[text]]
    first = [job for job in changed if told[job] == _TOLD_NOTHING]
    again = [job for job in changed if told[job] != _TOLD_NOTHING]
    again.sort(key=lambda job: (place.get(job, -1), job))
    chosen = first + again[:MOST_REFRESHED]
    if chosen:
        _update_reasons({job: texts[job] for job in chosen})
    return len(chosen)


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
                array_of(texts),
                array_of(numbers[text] for text in texts.values()),
                JobState.QUEUED.value,
            ],
        )


def array_of(numbers: Iterable[int]) -> str:
    """PostgreSQL's text of an array; the driver takes ten times as long to write a long list."""
    return f"{{{','.join(map(str, numbers))}}}"


def _texts(reasons: Mapping[int, tuple[Reason, ...]]) -> dict[int, str]:
    """By job, the reasons as PostgreSQL writes the JSON, so that its digest tells a change."""
    lists: dict[int, str] = {}
    items: dict[int, str] = {}
    texts = {}
    for job, told in reasons.items():
        text = lists.get(id(told))
        if text is None:
            text = lists[id(told)] = f"[{', '.join(_items(told, items))}]"
        texts[job] = text
    return texts


def _items(told: Iterable[Reason], items: dict[int, str]) -> Iterable[str]:
    for reason in told:
        text = items.get(id(reason))
        if text is None:
            text = items[id(reason)] = json.dumps(reason.to_json(), ensure_ascii=False)
        yield text
