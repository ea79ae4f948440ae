"""The OpenAPI document: where it is served, and the named schemas it carries."""

from typing import Any

from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView

from tenancy.api.endpoint import COMPONENTS
from tenancy.permissions import Public


def add_components(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """A postprocessing hook: the named schemas that endpoints refer to."""
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
