"""REST: what an error code means. The `type` of every problem document leads here."""

from inspect import cleandoc

from rest_framework.request import Request
from rest_framework.response import Response

from kit.errors import REGISTRY, NotFoundError
from tenancy.api.endpoint import NUMBER, TEXT, Endpoint, document, operation
from tenancy.permissions import Public


class Problem(Endpoint):
    """One kind of problem."""

    @operation(
        Public,
        "What an error code means",
        gives=document(code=TEXT, status=NUMBER, title=TEXT, meaning=TEXT),
        name="get_problem",
    )
    def get(self, request: Request, code: str) -> Response:
        """Open to anybody."""
        kind = REGISTRY.get(code)
        if kind is None:
            raise NotFoundError(f"There is no error code {code}.")
        meaning = " ".join(cleandoc(kind.__doc__ or "").split())
        return Response(
            {"code": code, "status": kind.status, "title": kind.title, "meaning": meaning}
        )
