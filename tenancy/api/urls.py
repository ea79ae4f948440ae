"""Addresses of people and tenants under `/api/v1/`. A tenant's path may hold slashes, so what is
below a tenant is matched first (here and in `federation.api.urls`)."""

from django.urls import path

from tenancy.api import people, problems, tenants

urlpatterns = [
    path("me", people.Me.as_view(), name="me"),
    path("problems/<slug:code>", problems.Problem.as_view(), name="problem"),
    path("tokens", people.Tokens.as_view(), name="tokens"),
    path("tokens/<uuid:token_id>", people.OneToken.as_view(), name="token"),
    path("audit", people.Audit.as_view(), name="audit"),
    path("tenants", tenants.Tenants.as_view(), name="tenants"),
    path("tenants/<path:path>/members", tenants.Members.as_view(), name="members"),
    path("tenants/<path:path>", tenants.OneTenant.as_view(), name="tenant"),
]
