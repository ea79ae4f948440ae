"""How a request proves who it is, and what every route must declare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from kit.errors import NotAuthenticatedError, PermissionDeniedError
from kit.job_token import fence_of
from tenancy.models import Scope, User
from tenancy.selectors.access import EVERY_SCOPE, Principal, token_principal

if TYPE_CHECKING:
    from rest_framework.views import APIView  # it reads the settings, which name this module


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer <token>`."""

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        """The user and the principal; None when there is no such header.

        Raises:
            NotAuthenticatedError: the token is not valid now.
        """
        header = request.META.get("HTTP_AUTHORIZATION", "")
        kind, _, token = header.partition(" ")
        if not header or kind.lower() != "bearer":
            return None
        principal = token_principal(token.strip(), timezone.now())  # noqa: TID251 - the edge
        if principal is None:
            raise NotAuthenticatedError("The token is unknown, expired or revoked.")
        return principal.user, principal

    def authenticate_header(self, request: Request) -> str:
        """What a 401 asks for."""
        return 'Bearer realm="muster"'


class BrowserAuthentication(SessionAuthentication):
    """The browser's session, with CSRF."""

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        """The session's user with every scope; None without a session."""
        found = super().authenticate(request)
        if found is None:
            return None
        user: User = found[0]
        return user, Principal(user, EVERY_SCOPE)


@dataclass(frozen=True, slots=True)
class JobCaller:
    """Not a person but a job asks: the attempt with this fence."""

    fence: str


class JobAuthentication(BaseAuthentication):
    """`Authorization: Bearer <MUSTER_JOB_TOKEN>`; only where a path names it, nowhere else."""

    def authenticate(self, request: Request) -> tuple[None, JobCaller] | None:
        """The calling job; None when the header holds no token of a job."""
        kind, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        fence = fence_of(token.strip()) if kind.lower() == "bearer" else None
        return None if fence is None else (None, JobCaller(fence))

    def authenticate_header(self, request: Request) -> str:
        """What a 401 asks for."""
        return 'Bearer realm="muster"'


class DenyUndeclared(BasePermission):
    """The default: a route that declares no permission answers nobody."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Always false."""
        return False


class Public(BasePermission):
    """Anybody, signed in or not."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Always true."""
        return True


class _Scoped(BasePermission):
    """Signed in, through a way that carries the scope. Tenants are checked by selectors."""

    scope: ClassVar[str]

    def has_permission(self, request: Request, view: APIView) -> bool:
        """True, or the error that says what is missing.

        Raises:
            NotAuthenticatedError: nobody is signed in.
            PermissionDeniedError: the token lacks the scope.
        """
        principal = principal_of(request)
        if self.scope not in principal.scopes:
            raise PermissionDeniedError(f"The token lacks the scope {self.scope!r}.")
        return True


class CanRead(_Scoped):
    """Scope `read`."""

    scope = Scope.READ


class CanSubmit(_Scoped):
    """Scope `submit`."""

    scope = Scope.SUBMIT


class CanManage(_Scoped):
    """Scope `admin`; which tenants the caller manages is checked by `managed_tenant`."""

    scope = Scope.ADMIN


class IsAdmin(_Scoped):
    """Scope `admin` and the global role admin."""

    scope = Scope.ADMIN

    def has_permission(self, request: Request, view: APIView) -> bool:
        """True for admins.

        Raises:
            NotAuthenticatedError: nobody is signed in.
            PermissionDeniedError: not an admin, or a token without the scope.
        """
        if not principal_of(request).is_admin:
            raise PermissionDeniedError("Only an admin may do this.")
        return super().has_permission(request, view)


class IsJob(BasePermission):
    """A job with its own token; people may not do what is a job's to do."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """True, or the error that says what is missing.

        Raises:
            NotAuthenticatedError: nobody asks.
            PermissionDeniedError: a person does.
        """
        if isinstance(request.auth, JobCaller):
            return True
        principal_of(request)
        raise PermissionDeniedError(
            "Only the job itself proves its checkpoints, with the MUSTER_JOB_TOKEN it was given."
        )


def principal_of(request: Any) -> Principal:
    """Who asks.

    Raises:
        NotAuthenticatedError: nobody is signed in.
    """
    principal = request.auth
    if not isinstance(principal, Principal):
        raise NotAuthenticatedError("Send a bearer token, or sign in.")
    return principal
