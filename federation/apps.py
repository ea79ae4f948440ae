"""The app `federation`: which gang runs where and when."""

from django.apps import AppConfig


class FederationConfig(AppConfig):
    """See the docstring of the module."""

    name = "federation"
