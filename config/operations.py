"""For operators: is it alive, is it ready, what are the numbers. Read from SQL at each scrape."""

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from config.metrics import Scrape


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Whether this process answers; asks nobody else."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Whether requests can be served: the database answers and is migrated. 503 if not."""
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        words = f"the database does not answer: {type(error).__name__}"
        return JsonResponse({"status": "unavailable", "why": words}, status=503)
    if pending:
        words = f"{len(pending)} migrations are not applied"
        return JsonResponse({"status": "unavailable", "why": words}, status=503)
    return JsonResponse({"status": "ok"})


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format. Counts of the whole federation, no names of tenants or people."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Scrape(timezone.now()))  # noqa: TID251 - the edge
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
