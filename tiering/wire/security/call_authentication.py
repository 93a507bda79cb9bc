"""The interceptor that authenticates each call, and runs its handler with the caller's identity.

It goes before the server's guard. A call that proves nothing is ended before its request is read. Health checks need no token, and neither
do calls that prove their right by a ticket (`access.requirements`). A call that is refused has a line in the audit
(`access.audit.RefusedCallers`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio

from tiering.access.audit import RefusedCallers
from tiering.access.authentication import Authenticator, Proof, bearer_token
from tiering.access.identity import acting_as, address_of
from tiering.access.requirements import RPCS
from tiering.errors import LakewardError, ServiceBusy
from tiering.wire.server_guard import FailureLog

WAITING_CALLS = 128
"""Most calls of one address that wait for an identity provider at a time. Their callers are still unknown."""

_Context = grpc.aio.ServicerContext[Any, Any]
_Behaviour = Callable[[Any, _Context], Awaitable[Any]]


def _needs_no_identity(method: str) -> bool:
    requirement = RPCS.get(method)
    return requirement is not None and not requirement.identified


class CallAuthentication(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in its stubs alone
    """The authentication of one server. Handlers are wrapped once. They take streams of requests, as the guard makes them."""

    def __init__(self, authenticator: Authenticator, refused: RefusedCallers | None = None) -> None:
        self._authenticator = authenticator
        self._refused = refused
        self._failures = FailureLog()
        self._waiting: Counter[str] = Counter()
        self._handlers: dict[str, tuple[Any, Any]] = {}

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """The method's handler, behind the question who calls; None for an unknown method."""
        handler = await continuation(details)
        if handler is None or _needs_no_identity(details.method):
            return handler
        cached = self._handlers.get(details.method)
        if cached is not None and cached[0] is handler:
            return cached[1]
        asking = self._asking(details.method, handler)
        self._handlers[details.method] = handler, asking
        return asking

    @contextmanager
    def _place(self, address: str) -> Iterator[None]:
        """Counts a call of an address while it waits for an identity provider. Raises ServiceBusy."""
        if self._waiting[address] >= WAITING_CALLS:
            raise ServiceBusy(f"{WAITING_CALLS} calls from {address} already wait for authentication: no more are accepted")
        self._waiting[address] += 1
        try:
            yield
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]

    def _asking(self, method: str, handler: Any) -> Any:
        if handler.stream_unary is not None:
            return grpc.stream_unary_rpc_method_handler(
                self._behind(method, handler.stream_unary), handler.request_deserializer, handler.response_serializer
            )
        return grpc.stream_stream_rpc_method_handler(
            self._behind(method, handler.stream_stream), handler.request_deserializer, handler.response_serializer
        )

    def _behind(self, method: str, behaviour: _Behaviour) -> _Behaviour:
        async def answer(request: Any, context: _Context) -> Any:
            token = None
            try:
                token = bearer_token(context.invocation_metadata() or ())
                with self._place(address_of(context.peer())):
                    identity = await self._authenticator.identify(Proof(token, context.peer(), context.auth_context() or {}))
            except LakewardError as error:
                if self._refused is not None:
                    self._refused.add(method, context.peer(), token, error)
                await self._failures.end_call(method, context, error)
            with acting_as(identity):
                return await behaviour(request, context)

        return answer
