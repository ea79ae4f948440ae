"""REST: the aggregated queue."""

from rest_framework.request import Request
from rest_framework.response import Response

from federation.api.documents import PLACE, queue_document
from federation.selectors.jobs import last_attempts
from federation.selectors.queue import Place, foreign_counts, queue_page
from tenancy.api.endpoint import (
    LARGEST_KEY,
    NUMBER,
    PAGING,
    TEXT,
    Endpoint,
    document,
    list_of,
    operation,
    page_after,
    page_of,
    page_response,
    user_of,
    wrong_parameter,
)
from tenancy.permissions import CanRead

FOREIGN = document(cluster=TEXT, running=NUMBER, pending=NUMBER, pending_gpus=NUMBER)


class Queue(Endpoint):
    """What runs and what waits, over all clusters."""

    @operation(
        CanRead,
        "The aggregated queue",
        gives=page_of(PLACE, foreign=list_of(FOREIGN)),
        query=PAGING,
        name="get_queue",
    )
    def get(self, request: Request) -> Response:
        """Bound gangs, then waiting ones in the order of the last cycle, then what came since."""
        page = page_after(request, str)
        after = _cursor(page.after) if isinstance(page.after, str) else None
        rows = queue_page(user_of(request), after=after, limit=page.limit)
        attempts = last_attempts(place.job.id for place in rows)

        def render(place: Place) -> object:
            return queue_document(place.job, place.position, attempts.get(place.job.id))

        foreign = [
            {
                "cluster": count.cluster,
                "running": count.running,
                "pending": count.pending,
                "pending_gpus": count.pending_gpus,
            }
            for count in foreign_counts()
        ]
        return page_response(
            request, page, rows, render, lambda row: f"{row.part}:{row.key}", foreign=foreign
        )


def _cursor(text: str) -> tuple[int, int]:
    part, _, key = text.partition(":")
    if part in ("0", "1", "2") and key.isascii() and key.isdigit() and int(key[:20]) <= LARGEST_KEY:
        return int(part), int(key[:20])
    raise wrong_parameter("cursor", "cursor must be one that a `next` address carried.")
