"""The app `clusters`: what there is."""

from django.apps import AppConfig


class ClustersConfig(AppConfig):
    """See the docstring of the module."""

    name = "clusters"
