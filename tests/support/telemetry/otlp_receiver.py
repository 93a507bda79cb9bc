"""A receiver of OpenTelemetry's traces over real gRPC: what a collector's OTLP port is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class OtlpReceiver(trace_service_pb2_grpc.TraceServiceServicer):  # type: ignore[misc]  # generated, without types
    """Keeps what it gets. `hang`: takes requests and never answers."""

    hang: bool = False
    spans: list[Span] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    endpoint: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def Export(self, request: Any, context: Any) -> Any:
        if self.hang:
            self.over.wait(60)
        for of_resource in request.resource_spans:
            attributes = {item.key: item.value.string_value for item in of_resource.resource.attributes}
            self.services.add(attributes["service.name"])
            self.spans += [span for of_scope in of_resource.scope_spans for span in of_scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


@contextmanager
def otlp_receiver(*, hang: bool = False) -> Iterator[OtlpReceiver]:
    """Serves on a free port of loopback; `endpoint` is what OTEL_EXPORTER_OTLP_ENDPOINT has to be."""
    receiver = OtlpReceiver(hang=hang)
    server = grpc.server(ThreadPoolExecutor(4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)
    receiver.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        server.stop(None).wait(10)


def attributes_of(span: Span) -> dict[str, Any]:
    """Values by name."""
    return {item.key: getattr(item.value, item.value.WhichOneof("value") or "string_value") for item in span.attributes}
