"""Addresses of requests for quota under `/api/v1/`. The rest is `federation.api.urls`'."""

from django.urls import path

from quotas.api import requests

urlpatterns = [
    path("quotas/requests", requests.Requests.as_view(), name="quota_requests"),
    path("quotas/requests/<uuid:request_id>", requests.OneRequest.as_view(), name="quota_request"),
    path("quotas/requests/<uuid:request_id>/approve", requests.Approve.as_view(), name="approve"),
    path("quotas/requests/<uuid:request_id>/reject", requests.Reject.as_view(), name="reject"),
    path(
        "quotas/requests/<uuid:request_id>/withdraw", requests.Withdraw.as_view(), name="withdraw"
    ),
]
