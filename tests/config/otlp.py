"""A receiver of OTLP over HTTP that keeps what it is sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from gzip import decompress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """What is asked of a span."""

    service: str
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    attributes: dict[str, str]


@dataclass
class Spans:
    """All spans that came, and where to send them."""

    url: str = ""
    all: list[Span] = field(default_factory=list)

    def of(self, name: str, value: str) -> list[Span]:
        """Those with an attribute that is, or holds, the value."""
        return [span for span in self.all if value in span.attributes.get(name, "")]

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            about = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.all += [
                    Span(
                        about["service.name"],
                        span.name,
                        span.trace_id,
                        span.span_id,
                        span.parent_span_id,
                        {one.key: one.value.string_value for one in span.attributes},
                    )
                    for span in scope.spans
                ]


@contextmanager
def receiver() -> Iterator[Spans]:
    """Receives on a free port of this machine."""
    spans = Spans()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_packed = self.headers.get("Content-Encoding") == "gzip"
            spans.take(decompress(body) if is_packed else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    spans.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield spans
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
