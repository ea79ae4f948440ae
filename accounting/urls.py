"""Addresses of money under `/api/v1/`."""

from django.urls import path

from accounting import api

urlpatterns = [
    path("prices", api.Prices.as_view(), name="prices"),
    path("ledger", api.Ledger.as_view(), name="ledger"),
]
