"""The coordinator's part of traces: a span for each call with W3C's header `traceparent`, below the span of the caller.

Tierers with an endpoint send the header in the calls of a round (`telemetry.traces`). A coordinator without an endpoint has no such
interceptor. For a call without the header, the interceptor only reads the few headers of the call.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from structlog.contextvars import get_contextvars

from tiering.telemetry.metrics import VERSION
from tiering.telemetry.otlp import close_provider, open_provider

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

_HEADERS = ("traceparent", "tracestate")
_ROUND = ("round_id", "table", "tiering_epoch")
"""Attributes of a call about a round, with the same names as in log lines."""

_Behaviour = Callable[[Any, Any], Awaitable[Any]]


class CallTraces(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in its stubs alone
    """Adds spans for calls. It runs before the server's guard, so that calls that the guard refuses are in the trace, too."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("lakeward", VERSION)

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Returns the method's handler, within a span if the caller sent `traceparent` and the call has one answer."""
        handler = await continuation(details)
        headers = {name: value for name, value in details.invocation_metadata or () if name in _HEADERS}
        if not headers or handler is None or handler.stream_unary is None:
            return handler
        parent = _parent(headers)
        if parent is None:
            return handler
        traced = self._traced(details.method, parent, handler.stream_unary)
        return grpc.stream_unary_rpc_method_handler(traced, None, handler.response_serializer)

    def _traced(self, method: str, parent: Context, behaviour: _Behaviour) -> _Behaviour:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        service, _, name = method.strip("/").partition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}

        async def answer(request: Any, context: Any) -> Any:
            started_ns, steady_ns = time.time_ns(), time.monotonic_ns()
            span = self._tracer.start_span(f"{service}/{name}", parent, SpanKind.SERVER, attributes, start_time=started_ns)
            try:
                return await behaviour(request, context)
            except BaseException:
                span.set_status(Status(StatusCode.ERROR, context.details() or None))
                raise
            finally:
                bound = get_contextvars()
                span.set_attributes({key: bound[key] for key in _ROUND if key in bound})
                # The wall clock may be set back while the call runs.
                span.end(started_ns + time.monotonic_ns() - steady_ns)

        return answer

    def close(self) -> None:
        """Sends the remaining spans, for at most `otlp.CLOSE_SECONDS`."""
        close_provider(self._provider)


def open_call_traces(instance: str, environment: Mapping[str, str] | None = None) -> CallTraces | None:
    """Returns the interceptor for the endpoint in the environment; None without an endpoint, with traces off, or without the packages."""
    provider = open_provider("lakeward-coordinator", instance, environment)
    return None if provider is None else CallTraces(provider)


def _parent(headers: Mapping[str, str]) -> Context | None:
    """Returns the context of the caller's span; None if the headers name no span."""
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract(headers, Context())
    return context if trace.get_current_span(context).get_span_context().is_valid else None
