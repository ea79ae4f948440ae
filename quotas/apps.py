"""The app `quotas`: who may have how much."""

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """See the docstring of the module."""

    name = "quotas"
