"""Wires the apps into processes."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
