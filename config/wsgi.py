"""The `web` process: Django under gunicorn.

Requests that bear a token (most are: programs') go past what only people's pages need: sessions,
cookies, messages, static files. They keep no cookie, so nothing can be forged in their name.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.wsgi import get_wsgi_application

from kit import collector

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
Handler = Callable[[dict[str, Any], Any], Iterable[bytes]]


def _handler(middleware: Sequence[str]) -> Handler:
    """A handler of its own with this middleware; it is read once, while the handler is made."""
    whole, settings.MIDDLEWARE = settings.MIDDLEWARE, list(middleware)
    try:
        return WSGIHandler()
    finally:
        settings.MIDDLEWARE = whole


pages = get_wsgi_application()
programs = _handler([name for name in settings.MIDDLEWARE if name not in settings.PAGES_ONLY])


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """The one entrance."""
    bears_token = environ.get("HTTP_AUTHORIZATION", "").startswith("Bearer ")
    is_program = bears_token and environ["PATH_INFO"].startswith("/api/")
    return (programs if is_program else pages)(environ, start_response)


collector.settle()
