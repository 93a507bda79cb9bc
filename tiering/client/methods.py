"""Makes the methods of both clients from one function per procedure, which makes the request."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec

from tiering.procedures.base import CallRequest, ResultT
from tiering.wire.procedure_calls import OnProgress

P = ParamSpec("P")


@dataclass(frozen=True)
class PreparedCall(Generic[ResultT]):
    """A request, and the function that gets its progress."""

    request: CallRequest[ResultT]
    on_progress: OnProgress | None = None


class Performer:
    """Sends requests and waits for their results."""

    @abstractmethod
    def perform(self, request: CallRequest[ResultT], on_progress: OnProgress | None = None) -> ResultT:
        """Returns the result. Raises the errors of the procedure, ServiceUnreachable and InvalidAnswer."""


class AsyncPerformer:
    """Sends requests and waits for their results in an event loop."""

    @abstractmethod
    async def perform(self, request: CallRequest[ResultT], on_progress: OnProgress | None = None) -> ResultT:
        """Returns the result. Raises the errors of the procedure, ServiceUnreachable and InvalidAnswer."""


def method(prepare: Callable[P, PreparedCall[ResultT]]) -> Callable[Concatenate[Performer, P], ResultT]:
    """Returns a method with the parameters of `prepare`."""

    def perform(self: Performer, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        call = prepare(*args, **kwargs)
        return self.perform(call.request, call.on_progress)

    update_wrapper(perform, prepare)
    return perform


def async_method(
    prepare: Callable[P, PreparedCall[ResultT]],
) -> Callable[Concatenate[AsyncPerformer, P], Coroutine[Any, Any, ResultT]]:
    """Returns a coroutine method with the parameters of `prepare`."""

    async def perform(self: AsyncPerformer, /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        call = prepare(*args, **kwargs)
        return await self.perform(call.request, call.on_progress)

    update_wrapper(perform, prepare)
    return perform
