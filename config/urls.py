"""Every address of the web process."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from config import operations
from config.openapi import Schema
from federation.api.urls import job_urls
from federation.urls import page_urls
from tenancy.views import page_urls as access_urls
from tenancy.views import public

admin.autodiscover()

# Addresses are tried in order, so what is called most comes first: the API, and in it jobs. What is
# below a tenant stands before the tenant's own path, which may hold slashes, and `clusters/probe`
# before a cluster by name.
API: list[URLPattern | URLResolver] = [
    *job_urls,
    path("schema", Schema.as_view(), name="schema"),
    path("", include("clusters.urls")),
    path("", include("federation.api.urls")),
    path("", include("accounting.urls")),
    path("", include("quotas.urls")),
    path("", include("tenancy.api.urls")),
]
urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include((API, "api"))),
    *access_urls,
    *page_urls,
    path("favicon.ico", public(RedirectView.as_view(url=static("muster/icon.svg"))), name="icon"),
    path("admin/", admin.site.urls),
    path("healthz", operations.healthz, name="healthz"),
    path("readyz", operations.readyz, name="readyz"),
    path("metrics", operations.metrics, name="metrics"),
]
