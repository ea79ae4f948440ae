"""The app `accounting`: who used how much and what it cost."""

from django.apps import AppConfig


class AccountingConfig(AppConfig):
    """See the docstring of the module."""

    name = "accounting"
