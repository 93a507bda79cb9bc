"""Sends OpenTelemetry's spans to the endpoint in the standard environment variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and others).

A thread of the SDK sends them from a bounded queue. An endpoint that does not answer costs spans, and delays no work. Without such a
variable, no package of OpenTelemetry is loaded.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from tiering.extras import install_hint
from tiering.telemetry.metrics import VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_log = structlog.get_logger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

CLOSE_SECONDS = 1.0
"""Seconds for which a process that ends waits until its last spans are sent."""


def open_provider(service: str, instance: str, environment: Mapping[str, str] | None = None) -> TracerProvider | None:
    """Returns a provider for the endpoint in the environment; None without an endpoint, with traces off, or without the packages.

    `service` is the service name unless OTEL_SERVICE_NAME has another one.
    """
    variables = os.environ if environment is None else environment
    if not any(variables.get(name) for name in ENDPOINTS) or variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if variables.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
        return None
    try:
        return _provider(variables, service, instance)
    except ImportError as error:
        _log.warning("no traces: an endpoint is set, but OpenTelemetry is not installed", missing=str(error), hint=install_hint("otel"))
    except Exception as error:
        _log.warning("no traces: the exporter could not be set up", error=str(error))
    return None


def close_provider(provider: TracerProvider) -> None:
    """Sends the remaining spans, for at most CLOSE_SECONDS."""
    sending = threading.Thread(target=provider.shutdown, name="last spans", daemon=True)
    sending.start()
    sending.join(CLOSE_SECONDS)


def _provider(variables: Mapping[str, str], service: str, instance: str) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    attributes = {"service.version": VERSION, "service.instance.id": instance}
    if not variables.get("OTEL_SERVICE_NAME") and "service.name=" not in variables.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        attributes["service.name"] = service
    # OpenTelemetry's own hook would wait for a dead endpoint at the end of the process.
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(variables)))
    return provider


def _exporter(variables: Mapping[str, str]) -> Any:
    protocol = variables.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or variables.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "grpc"
    if protocol.startswith("http"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

        return HttpExporter()
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

    return GrpcExporter()
