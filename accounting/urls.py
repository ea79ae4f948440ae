"""Addresses of money under `/api/v1/`."""

from django.urls import path

from accounting.api.adjustments import Adjustments
from accounting.api.money import Ledger, Prices

urlpatterns = [
    path("prices", Prices.as_view(), name="prices"),
    path("ledger", Ledger.as_view(), name="ledger"),
    path("adjustments", Adjustments.as_view(), name="adjustments"),
]
