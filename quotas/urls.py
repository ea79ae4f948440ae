"""Addresses of requests for quota and of undoing under `/api/v1/`. The rest is `federation.api.urls`'."""

from django.urls import path

from quotas.api import changes, requests

urlpatterns = [
    path("quotas/changes/<int:entry_id>/undo", changes.Undo.as_view(), name="undo_quotas"),
    path("quotas/requests", requests.Requests.as_view(), name="quota_requests"),
    path("quotas/requests/<uuid:request_id>", requests.OneRequest.as_view(), name="quota_request"),
    path("quotas/requests/<uuid:request_id>/approve", requests.Approve.as_view(), name="approve"),
    path("quotas/requests/<uuid:request_id>/reject", requests.Reject.as_view(), name="reject"),
    path(
        "quotas/requests/<uuid:request_id>/withdraw", requests.Withdraw.as_view(), name="withdraw"
    ),
]
