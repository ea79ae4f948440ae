"""The app `tenancy`: who asks."""

from django.apps import AppConfig


class TenancyConfig(AppConfig):
    """People, tenants, tokens, events and audit."""

    name = "tenancy"
