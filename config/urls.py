"""Every address of the web process."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from config import operations
from config.openapi import Schema
from federation.urls import page_urls
from tenancy.views import page_urls as access_urls
from tenancy.views import public

admin.autodiscover()

# What is below a tenant is matched before the tenant's own path, which may hold slashes, and
# `clusters/probe` before a cluster by name.
API: list[URLPattern | URLResolver] = [
    path("schema", Schema.as_view(), name="schema"),
    path("", include("clusters.urls")),
    path("", include("federation.api.urls")),
    path("", include("accounting.urls")),
    path("", include("quotas.urls")),
    path("", include("tenancy.api.urls")),
]
urlpatterns: list[URLPattern | URLResolver] = [
    *access_urls,
    *page_urls,
    path("favicon.ico", public(RedirectView.as_view(url=static("muster/icon.svg"))), name="icon"),
    path("admin/", admin.site.urls),
    path("api/v1/", include((API, "api"))),
    path("healthz", operations.healthz, name="healthz"),
    path("readyz", operations.readyz, name="readyz"),
    path("metrics", operations.metrics, name="metrics"),
]
