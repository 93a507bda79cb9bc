"""The TieringControl service (proto/tiering/rpc/v1/control.proto): all CALLs, of SQL and of programs.

A CALL waits on the event loop, so that it needs no thread. Errors are raised: `tiering.wire.server_guard` ends the call with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, TypeVar

import grpc.aio

from sys_tables.declare.procedure import Call, Procedure, is_row
from sys_tables.query.arrow_stream import arrow_pieces
from sys_tables.registry import Registry
from tiering.coordinator.interface import CoordinatorHandle
from tiering.errors import UnknownProcedure
from tiering.model.names import check_length
from tiering.procedures.base import CallRequest, Progress
from tiering.procedures.help import Help
from tiering.procedures.registry import declarations
from tiering.rpc.v1.control_pb2 import CallProcedureRequest, CallProcedureResponse
from tiering.rpc.v1.control_pb2_grpc import TieringControlServicer
from tiering.wire.procedure_calls import RESULT, progress_to_pb, request_from_pb, result_schema

ItemT = TypeVar("ItemT")

KEEP_ALIVE_S = 15.0
"""A waiting CALL sends a message at least this often, below the idle time-outs of usual proxies (60 s)."""


class CallService(TieringControlServicer):
    """Performs the procedures of a registry, and for programs all declared procedures."""

    def __init__(self, handle: CoordinatorHandle, registry: Registry, keep_alive_s: float = KEEP_ALIVE_S) -> None:
        self._handle = handle
        self._registry = registry
        self._keep_alive_s = keep_alive_s

    async def CallProcedure(
        self, request: CallProcedureRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncGenerator[CallProcedureResponse, None]:
        name = check_length(request.name, "procedure")
        if request.whole_result:
            call_request = request_from_pb(request, _for_programs(name))
            steps, schema = self._whole_result(call_request), result_schema(type(call_request))
        else:
            procedure: Procedure = self._registry.procedure(name)
            call_request = request_from_pb(request, procedure.request_class)
            steps, schema = procedure.run(Call(self._handle, self._registry.procedures), call_request), procedure.output_schema
        silence = "" if request.whole_result else f"sys.{call_request.procedure} is still running"
        rows: list[object] = []
        with self._handle.open_calls.during(call_request.procedure, call_request.caller, getattr(call_request, "idempotency_key", None)):
            async with aclosing(with_silence_marked(steps, self._keep_alive_s)) as marked:
                async for step in marked:
                    if step is not None and is_row(step):
                        rows.append(step)
                    else:
                        yield progress_to_pb(step if isinstance(step, Progress) else Progress(silence if step is None else str(step)))
            for piece in arrow_pieces(rows, schema):
                yield CallProcedureResponse(arrow=piece)

    async def _whole_result(self, request: CallRequest[Any]) -> AsyncGenerator[object, None]:
        """Yields progress, then the row of a whole result."""
        async with aclosing(self._handle.control.perform_with_progress(request)) as steps:
            async for step in steps:
                yield step if isinstance(step, Progress) else SimpleNamespace(**{RESULT: step})


def _for_programs(name: str) -> type[CallRequest[Any]]:
    """Returns the declaration of a procedure that programs can call: all but `help`. Raises UnknownProcedure."""
    declared = declarations().get(name)
    if declared is None or declared is Help:
        raise UnknownProcedure(f"there is no procedure {name!r}", hint="SELECT procedure_name FROM sys.procedures lists them.")
    return declared


async def with_silence_marked(items: AsyncGenerator[ItemT, None], interval_s: float) -> AsyncGenerator[ItemT | None, None]:
    """Yields the items, and None whenever `interval_s` seconds have brought none. Leaving it ends the wait inside `items` at once."""
    async with aclosing(items):
        while True:
            waiting = asyncio.ensure_future(anext(items))
            try:
                while not (await asyncio.wait({waiting}, timeout=interval_s))[0]:
                    yield None
                item = waiting.result()
            except StopAsyncIteration:
                return
            finally:
                await _end(waiting)
            yield item


async def _end(waiting: asyncio.Future[ItemT]) -> None:
    """Cancels what is still awaited and lets it unwind: a generator cannot be closed while it runs."""
    if waiting.done():
        return
    waiting.cancel()
    await asyncio.wait({waiting})
    if not waiting.cancelled():
        waiting.exception()  # reading it keeps asyncio from reporting an exception that was never retrieved
