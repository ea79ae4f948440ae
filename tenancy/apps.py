"""The app `tenancy`: who asks."""

from importlib import import_module

from django.apps import AppConfig
from django.conf import settings


class TenancyConfig(AppConfig):
    """People, tenants, tokens, events and audit."""

    name = "tenancy"

    def ready(self) -> None:
        """Traces begin here where they are asked for: in every process, before its pages load."""
        if settings.TRACES:
            import_module("kit.traces").begin(version=settings.VERSION)
