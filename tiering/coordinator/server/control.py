"""Performs requests: finds the effect of a request and runs it in the threads of its pool. Implements `interface.CoordinatorControl`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from importlib import import_module
from typing import Any

from tiering.coordinator import calls
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.server.authorization import authorize, check_still_allowed
from tiering.errors import LakewardError
from tiering.procedures.base import CallRequest, Pool, Progress, ResultT
from tiering.procedures.cancel_tiering import CancelOutcome, CancelTiering, CancelTieringResult
from tiering.procedures.registry import declarations


def _effects() -> Mapping[str, Callable[[CallParts, Any], Any]]:
    """Returns the effects by the name of their procedure. `help` has none."""
    names = [name for name in declarations() if name != "help"]
    return {name: getattr(import_module(f"{calls.__name__}.{name}"), name) for name in names}


class Control:
    """Performs requests. Calls wait on the event loop and not in a thread, so that waiting calls never delay a read."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts
        self._effects = _effects()

    async def perform(self, request: CallRequest[ResultT]) -> ResultT:
        """Performs the request, once per idempotency key."""
        steps = self.perform_with_progress(request)
        async with aclosing(steps):
            results = [step async for step in steps if not isinstance(step, Progress)]
        return results[-1]

    def perform_with_progress(self, request: CallRequest[ResultT]) -> AsyncGenerator[Progress | ResultT, None]:
        """Performs the request, and yields progress lines, then exactly one result."""
        return self._authorized(request)

    async def knows(self, idempotency_key: str, caller: str) -> bool:
        """Returns whether the key already names an operation of the caller."""
        operations = self._parts.operations
        return await self._parts.threads.run(Pool.STORE, lambda: operations.by_key(idempotency_key, caller) is not None)

    def end_waits(self) -> None:
        """Makes each waiting call answer with the present state of its table."""
        self._parts.stopping.set()
        self._parts.table_records.wake_ups.notify()

    def close(self) -> None:
        """Accepts no more calls."""
        self._parts.threads.close()
        self._parts.probes.close()

    async def _authorized(self, request: CallRequest[ResultT]) -> AsyncGenerator[Progress | ResultT, None]:
        """Performs the request if its caller is authorized. Raises UnknownTable, UnknownDatabase, AccessDenied."""
        if not await self._parts.threads.run(Pool.STORE, partial(authorize, self._parts, request)):
            assert isinstance(request, CancelTiering), "no other request is about a round"
            yield CancelTieringResult(request.round_id, None, CancelOutcome.UNKNOWN)  # type: ignore[misc]  # it is this request's result
            return
        effect = self._effects[request.procedure]
        if request.pool is not None:
            yield await self._parts.threads.run(request.pool, partial(effect, self._parts, request))
            return
        async with aclosing(effect(self._parts, request)) as steps:
            try:
                async for step in steps:
                    check_still_allowed(self._parts, request)
                    yield step
            except LakewardError:
                check_still_allowed(self._parts, request)  # an error reveals facts about the table, too
                raise
