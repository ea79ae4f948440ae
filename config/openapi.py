"""The OpenAPI document: where it is served, and the named schemas it carries."""

from typing import Any

from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView

from tenancy.api.endpoint import COMPONENTS
from tenancy.permissions import Public

# Served by the stream process (`config.stream`), which is no part of Django's routes.
EVENTS = {
    "get": {
        "operationId": "stream_events",
        "summary": "Changes that the caller may see, as they happen",
        "description": "Server-sent events. A client that was away goes on behind the last id.",
        "tags": ["events"],
        "parameters": [
            {
                "in": "query",
                "name": "since",
                "schema": {"type": "integer", "minimum": 0},
                "description": "Go on behind this event; without it, from now on.",
            },
            {
                "in": "header",
                "name": "Last-Event-ID",
                "schema": {"type": "integer", "minimum": 0},
                "description": "As `since`; browsers send it when they connect again.",
            },
        ],
        "security": [{"token": []}, {"session": []}],
        "responses": {
            "200": {
                "description": "One frame a change: `id` and, as `data`, the event as JSON.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            "4XX": {
                "description": "",
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            },
        },
    }
}


def add_components(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """A postprocessing hook: the event stream, and the named schemas that endpoints refer to."""
    result["paths"] = dict(sorted({**result["paths"], "/api/v1/events": EVENTS}.items()))
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(sorted(COMPONENTS.items()))
    return result


class Schema(SpectacularAPIView):
    """`GET /api/v1/schema`, as YAML or (`Accept: application/json`) JSON. Open to anybody."""

    permission_classes = [Public]

    @extend_schema(exclude=True)
    def get(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """The document."""
        return super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
