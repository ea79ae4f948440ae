"""OpenTelemetry traces: loaded only where an address to send them to is set.

The official instrumentations make the spans: a request, a task (a nudge's task continues the trace
of the arbiter that sent it), a query. Each change of a job's state is a span of its own in them,
with the ids of its log line, so that a job is found by its id or its fence. The SDK reads the
other `OTEL_*` variables by itself (sampling, headers, protocol details).
"""

import logging
import os
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.instrumentation.django import DjangoInstrumentor
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from kit import spans
from kit.logs import process_name

# The event stream and beat do the same thing every second: that would be noise.
TRACED = ("web", "arbiter", "worker-")
UNTRACED_PATHS = "healthz,readyz,metrics,static"


class Changes(logging.Handler):
    """Makes a span of each log line that bears ids of its own, below the span it was logged in."""

    def __init__(self, provider: TracerProvider) -> None:
        super().__init__()
        self._tracer = provider.get_tracer("muster")

    def emit(self, record: logging.LogRecord) -> None:
        """`muster.job`, `muster.fence` and so on are its attributes."""
        ids = getattr(record, "ids", None)
        if ids:
            attributes = {f"muster.{name}": str(value) for name, value in ids.items()}
            self._tracer.start_span(record.getMessage(), attributes=attributes).end()


def begin(*, version: str) -> None:
    """Traces this process from now on, if it is one that is traced; before its pages are loaded.

    Spans go to `OTEL_EXPORTER_OTLP_ENDPOINT` from a thread of their own; when nobody answers there,
    they are dropped and the log says so.
    """
    name = process_name(sys.argv)
    if not name.startswith(TRACED):
        return
    service = os.environ.get("OTEL_SERVICE_NAME", f"muster-{name}")
    resource = Resource.create({SERVICE_NAME: service, SERVICE_VERSION: version})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    DjangoInstrumentor().instrument(tracer_provider=provider, excluded_urls=UNTRACED_PATHS)
    CeleryInstrumentor().instrument(  # type: ignore[no-untyped-call]
        tracer_provider=provider
    )
    PsycopgInstrumentor().instrument(tracer_provider=provider)
    logging.getLogger().addHandler(Changes(provider))
    spans.use(provider.get_tracer("muster").start_as_current_span)
