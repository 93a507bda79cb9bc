"""Traces of rounds for OpenTelemetry: a span for the round, and below it its plan, lease, read, write, commit and ack.

They are sent where the standard environment variables say (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like), by a thread of the SDK's from a
bounded queue: an endpoint that does not answer costs spans, and no round a moment. Without such a variable nothing is loaded.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from tiering.clock import Clock
from tiering.instants import to_microseconds
from tiering.model.rounds import Assignment
from tiering.round.steps.actions import RoundOutcome
from tiering.round.watch import TiererWatch
from tiering.telemetry.metrics import project_version

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_log = structlog.get_logger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

CLOSE_SECONDS = 1.0
"""How long the end of a tierer waits for its last spans to be sent."""


@dataclass
class _Part:
    """One part of a round, in microseconds since the epoch. Its work may have been done in several pieces."""

    start_us: int
    end_us: int
    spent_ms: int


@dataclass
class _RunningTrace:
    started_us: int
    parts: dict[str, _Part] = field(default_factory=dict)


class RoundTraces(TiererWatch):
    """Makes the spans of a round when it is over. Thread-safe: a round is heard of from its own thread alone."""

    def __init__(self, provider: TracerProvider, clock: Clock) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("lakeward", project_version())
        self._clock = clock
        self._running: dict[str, _RunningTrace] = {}

    def round_started(self, assignment: Assignment) -> None:
        self._running[assignment.round_id] = _RunningTrace(self._now_us())

    def phase_done(self, assignment: Assignment, phase: str, spent_ms: int, elapsed_ms: int) -> None:
        trace = self._running.get(assignment.round_id)
        if trace is None:
            return
        now_us = self._now_us()
        part = trace.parts.setdefault(phase, _Part(now_us - elapsed_ms * 1_000, now_us, 0))
        part.end_us = now_us
        part.spent_ms += spent_ms

    def round_ended(self, assignment: Assignment, outcome: RoundOutcome, duration_ms: int) -> None:
        from opentelemetry import trace as api
        from opentelemetry.context import Context

        trace = self._running.pop(assignment.round_id, None)
        if trace is None:
            return
        about: dict[str, Any] = {
            "round_id": assignment.round_id,
            "table": str(assignment.path),
            "tiering_epoch": assignment.tiering_epoch,
        }
        own: dict[str, Any] = {
            "state": outcome.state.value,
            "records_written": outcome.stats.records_written,
            "splits": outcome.stats.splits,
        }
        root = self._tracer.start_span("tiering round", Context(), attributes=about | own, start_time=trace.started_us * 1_000)
        below = api.set_span_in_context(root, Context())
        for phase, part in trace.parts.items():
            attributes = {**about, "busy_ms": part.spent_ms}
            span = self._tracer.start_span(phase, below, attributes=attributes, start_time=part.start_us * 1_000)
            span.end(part.end_us * 1_000)
        if outcome.error is not None:
            root.set_attribute("error_class", outcome.error.error_class)
            root.set_status(api.Status(api.StatusCode.ERROR, outcome.error.message))
        root.end(self._now_us() * 1_000)

    def close(self) -> None:
        """Sends what is left, for a moment at most."""
        sending = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        sending.start()
        sending.join(CLOSE_SECONDS)

    def _now_us(self) -> int:
        return to_microseconds(self._clock.now())


def open_traces(clock: Clock, tierer_id: str, environment: Mapping[str, str] | None = None) -> RoundTraces | None:
    """Traces to where the environment says; None if it names no endpoint, turns them off, or the packages are not there."""
    variables = os.environ if environment is None else environment
    if not any(variables.get(name) for name in ENDPOINTS) or variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if variables.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
        return None
    try:
        return RoundTraces(_provider(variables, tierer_id), clock)
    except ImportError as error:
        _log.warning("no traces: an endpoint is set, but OpenTelemetry is not installed: pip install 'lakeward[otel]'", missing=str(error))
    except Exception as error:
        _log.warning("no traces: the exporter could not be set up", error=str(error))
    return None


def _provider(variables: Mapping[str, str], tierer_id: str) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    attributes = {"service.version": project_version(), "service.instance.id": tierer_id}
    if not variables.get("OTEL_SERVICE_NAME") and "service.name=" not in variables.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        attributes["service.name"] = "lakeward-tierer"
    # Its own hook would wait for a dead endpoint at the end of the process.
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
