"""Signing in and out, and what every page declares about who may see it."""

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.views import LoginView, LogoutView, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import resolve_url
from django.urls import URLPattern, path

from kit.errors import NotFoundError, PermissionDeniedError, UnknownParameterError
from tenancy.models import User

View = Callable[..., HttpResponseBase]
SIGNED_IN, PUBLIC = "signed_in", "public"


def signed_in(view: View) -> View:
    """Declares: for people who are signed in; what they may see, the selectors decide.

    Others are sent to the sign-in page (a live refresh is told to go there as a whole). What a
    person may not see is 404; what they may see but not do, 403.
    """

    @wraps(view)
    def handle(request: HttpRequest, **names: object) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _to_sign_in(request)
        try:
            return view(request, **names)
        except (NotFoundError, UnknownParameterError) as error:
            raise Http404(error.detail) from error
        except PermissionDeniedError as error:
            raise PermissionDenied(error.detail) from error

    handle.permission = SIGNED_IN  # type: ignore[attr-defined]
    return handle


def public(view: View) -> View:
    """Declares: for anybody."""
    view.permission = PUBLIC  # type: ignore[attr-defined]
    return view


def person(request: HttpRequest) -> User:
    """The user of a page that is for signed-in people."""
    user = request.user
    if not isinstance(user, User):
        raise PermissionDenied
    return user


def admin(request: HttpRequest, refusal: str) -> User:
    """The user of a page that is for admins.

    Raises:
        PermissionDeniedError: says the `refusal` to anybody else.
    """
    user = person(request)
    if not user.is_superuser:
        raise PermissionDeniedError(refusal)
    return user


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    back = request.get_full_path() if request.method == "GET" else resolve_url("overview")
    response = redirect_to_login(back)
    if request.headers.get("HX-Request") != "true":
        return response
    return HttpResponse(status=204, headers={"HX-Redirect": response.url})


sign_in = public(LoginView.as_view(template_name="login.html", redirect_authenticated_user=True))
sign_out = public(LogoutView.as_view())

page_urls: list[URLPattern] = [
    path("login", sign_in, name="login"),
    path("logout", sign_out, name="logout"),
]
