"""The interceptor between the network and every servicer: it bounds sizes and numbers of calls, and ends calls that fail.

It serves all services of a server. A servicer raises its errors, and the guard turns them into the status of the call, with their details;
what is no error of ours is logged, and travels by its class. Before any work is done it refuses a request that cannot be read or is too
large with InvalidArgument, and one call too many with ServiceBusy. A SELECT is never behind a waiting CALL or a long poll: each kind of
call has a number and an amount of bytes of its own, of which one caller gets a part. A caller is a principal, or an address
before the caller is authenticated.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import structlog
from grpc_status import rpc_status

from tiering.access.identity import quota_owner
from tiering.access.line_limit import LineLimit
from tiering.errors import InvalidArgument, LakewardError, ServiceBusy
from tiering.wire.error_status import error_status

REQUEST_BYTES = 1 << 20
"""Bytes of most requests at most: far above any statement, path or schema."""

LARGE_REQUEST_BYTES = 4 << 20
"""Bytes of a request with rows, or with the offsets or the ticket of many buckets, at most: what gRPC takes by default."""

REQUEST_SECONDS = 30.0
"""How long a call may take to send its request: 4 MiB over a slow line. Calls that are opened and left without one would fill the rooms."""

MAX_REQUESTS = 1_000
"""Most requests of one streaming call: a reflection of everything takes some dozens."""

STALLED_SECONDS = 60.0
"""A reader that takes nothing for so long gets an error, and what was kept for it is released."""

_ENDS = (grpc.aio.AbortError, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
"""Exceptions that end a call or the process by themselves: the guard lets them pass."""

LOG_LINES = 60
"""Lines about failed calls of one caller in a minute: every client that reaches the port can make calls that fail."""

MOST_LOG_LINES = 600
"""Lines about failed calls of all callers in a minute."""

_log = structlog.get_logger(__name__)
_Context = grpc.aio.ServicerContext[Any, Any]
_Behaviour = Callable[[Any, _Context], Any]


@dataclass(frozen=True)
class CallLimit:
    """How many calls of one kind may be open at once, and how many bytes their requests may have.

    Decoded they take several times as many.
    """

    kind: str
    total: int
    """Calls of all callers together."""
    connection: int
    """Calls over one connection; all sessions of a Spark driver share one."""
    held_bytes: int
    """Bytes of all requests that are worked on at once."""
    share: int = 2
    """A caller may have the total divided by this, of calls and of bytes, so that no single one takes the service from the others."""

    @property
    def caller(self) -> int:
        """Calls of one caller."""
        return self.total // self.share


CALLS = CallLimit("CALLs", 512, 128, 16 << 20)
READS = CallLimit("reads of system tables", 512, 128, 32 << 20)
TIERERS = CallLimit("requests of tierers", 1_024, 512, 64 << 20)
CLUSTER = CallLimit("requests to the embedded cluster", 512, 256, 128 << 20)
TABLE_READS = CallLimit("reads of data tables", 512, 128, 64 << 20)
DEFINITIONS = CallLimit("definitions of tables", 128, 64, 16 << 20)
TABLE_WRITES = CallLimit("writes of data tables", 512, 256, 128 << 20)
LISTINGS = CallLimit("listings", 512, 128, 32 << 20)
CHECKS = CallLimit("health checks", 512, 64, 1 << 20, share=8)
WATCHES = CallLimit("watches of the health", 256, 16, 1 << 20, share=8)
REFLECTIONS = CallLimit("reflections", 64, 16, 4 << 20)

MAX_STREAMS = 640
"""HTTP/2 streams of one connection: more than CALLS, READS and TABLE_READS together, so that a SELECT finds one while CALLs wait."""

MAX_CALLS = 5_120
"""Calls of every kind and client; the rooms together have fewer, so that only calls that are being refused can fill it."""

_ROOMS = {
    "/sys_tables.rpc.v1.SysCatalog/ReadTable": READS,
    "/sys_tables.rpc.v1.SysCatalog/ReadAllTables": READS,
    "/grpc.health.v1.Health/Watch": WATCHES,
}
_ROOMS_OF_SERVICES = {
    "tiering.rpc.v1.TieringCoordinator": TIERERS,
    "tiering.rpc.v1.EmbeddedCluster": CLUSTER,
    "tiering.rpc.v1.TieringControl": CALLS,
    "tiering.rpc.v1.TableDefinitions": DEFINITIONS,
    "tiering.rpc.v1.TableReads": TABLE_READS,
    "tiering.rpc.v1.TableWrites": TABLE_WRITES,
    "grpc.health.v1.Health": CHECKS,
    "grpc.reflection.v1alpha.ServerReflection": REFLECTIONS,
    "grpc.reflection.v1.ServerReflection": REFLECTIONS,
}
_LARGE = (
    "/tiering.rpc.v1.EmbeddedCluster/Append",
    "/tiering.rpc.v1.EmbeddedCluster/Upsert",
    "/tiering.rpc.v1.EmbeddedCluster/Delete",
    "/tiering.rpc.v1.EmbeddedCluster/ListOldestTimestamps",
    "/tiering.rpc.v1.EmbeddedCluster/ListRecordTraces",
)


def room_of(method: str) -> CallLimit:
    """The kind of a call, by `/package.Service/Method`."""
    return _ROOMS.get(method) or _ROOMS_OF_SERVICES.get(method.split("/")[1], LISTINGS)


def request_limit(method: str) -> int:
    """Bytes of one request."""
    return LARGE_REQUEST_BYTES if method in _LARGE or room_of(method) in (TIERERS, TABLE_READS, TABLE_WRITES) else REQUEST_BYTES


class RpcGuard(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in its stubs alone
    """Guards one server, on its event loop."""

    def __init__(
        self,
        stalled_seconds: float = STALLED_SECONDS,
        request_seconds: float = REQUEST_SECONDS,
        failures: FailureLog | None = None,
    ) -> None:
        self._failures = failures or FailureLog()
        self._stalled_seconds = stalled_seconds
        self._request_seconds = request_seconds
        self._open: Counter[tuple[str, str]] = Counter()
        """Calls by kind and by whose they are: of all, of a caller, of a connection."""
        self._bytes: Counter[tuple[str, str]] = Counter()
        """Bytes of requests by kind, of all and of a caller."""
        self._handlers: dict[str, Any] = {}

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """The method's handler, guarded; None for an unknown method."""
        handler = self._handlers.get(details.method)
        if handler is None:
            bare = await continuation(details)
            if bare is None:
                return None
            handler = self._handlers[details.method] = self._guarded(details.method, bare)
        return handler

    def _guarded(self, method: str, handler: Any) -> Any:
        read: Callable[[bytes], Any] = handler.request_deserializer
        if handler.request_streaming:
            conversing = self._conversing(method, read, handler.stream_stream)
            return grpc.stream_stream_rpc_method_handler(conversing, None, handler.response_serializer)
        # Handlers take streams of requests, which are the same on the wire: so a call is counted before its request has come.
        if handler.response_streaming:
            streaming = self._streaming(method, read, handler.unary_stream)
            return grpc.stream_stream_rpc_method_handler(streaming, None, handler.response_serializer)
        answering = self._answering(method, read, handler.unary_unary)
        return grpc.stream_unary_rpc_method_handler(answering, None, handler.response_serializer)

    def _answering(self, method: str, read: Callable[[bytes], Any], behaviour: _Behaviour) -> _Behaviour:
        room, limit = room_of(method), request_limit(method)

        async def answer(_: object, context: _Context) -> Any:
            async with self._failures.ending_call(method, context):
                with (
                    self._admitted(room, context.peer()) as caller,
                    self._parsed(room, caller, await self._request(context), limit, read) as request,
                ):
                    return await behaviour(request, context)

        return answer

    def _streaming(self, method: str, read: Callable[[bytes], Any], behaviour: _Behaviour) -> _Behaviour:
        room, limit = room_of(method), request_limit(method)

        async def stream(_: object, context: _Context) -> None:
            async with self._failures.ending_call(method, context):
                with (
                    self._admitted(room, context.peer()) as caller,
                    self._parsed(room, caller, await self._request(context), limit, read) as request,
                ):
                    await self._send(context, behaviour(request, context))

        return stream

    def _conversing(self, method: str, read: Callable[[bytes], Any], behaviour: _Behaviour) -> _Behaviour:
        """Runs a call with several requests. Each request has the limits of a single call."""
        room, limit = room_of(method), request_limit(method)

        async def converse(_: object, context: _Context) -> None:
            async with self._failures.ending_call(method, context):
                with self._admitted(room, context.peer()) as caller:
                    async with aclosing(self._requests(context, room, caller, limit, read)) as requests:
                        await self._send(context, behaviour(requests, context))

        return converse

    async def _requests(
        self, context: _Context, room: CallLimit, caller: str, limit: int, read: Callable[[bytes], Any]
    ) -> AsyncGenerator[Any, None]:
        for _ in range(MAX_REQUESTS):
            raw = await self._next_request(context)
            if raw is None:
                return
            with self._parsed(room, caller, raw, limit, read) as request:
                yield request
        raise InvalidArgument(f"one call takes at most {MAX_REQUESTS} requests", hint="Go on in another call.")

    async def _request(self, context: _Context) -> bytes:
        """The bytes of the call's only message. Raises InvalidArgument if it does not come."""
        raw = await self._next_request(context)
        if raw is None:
            raise InvalidArgument("the call was opened and ended without a request")
        return raw

    async def _next_request(self, context: _Context) -> bytes | None:
        """The bytes of the next message; None = the client sends no more. Raises InvalidArgument if neither comes in time."""
        try:
            async with asyncio.timeout(self._request_seconds):
                raw = await context.read()
        except TimeoutError:
            raise InvalidArgument(f"the call was opened, but no request came within {self._request_seconds:g} s") from None
        return raw if isinstance(raw, bytes) else None

    async def _send(self, context: _Context, items: AsyncGenerator[Any, None]) -> None:
        """Sends all items. Raises ServiceBusy when a reader goes on that took nothing for too long."""
        async with aclosing(items):
            async for item in items:
                with _Stall(self._stalled_seconds, items) as stall:
                    await context.write(item)
                if stall.closing is not None:
                    await stall.closing
                    raise ServiceBusy(
                        f"nothing of the answer was read for {self._stalled_seconds:g} s, so the rest was let go",
                        hint="Ask again, and read the answer as it comes.",
                    )

    @contextmanager
    def _admitted(self, room: CallLimit, peer: str) -> Iterator[str]:
        """Counts the call while it is open, and yields whose it is. Raises ServiceBusy."""
        caller = quota_owner(peer)
        places = self._counted(room, caller, peer)
        try:
            yield caller
        finally:
            _give_back(self._open, places, 1)

    @contextmanager
    def _parsed(self, room: CallLimit, caller: str, raw: bytes, limit: int, read: Callable[[bytes], Any]) -> Iterator[Any]:
        """The request as a message. Its bytes count while it is worked on; those of a CALL, which are few and may wait long, while it is
        parsed. Raises InvalidArgument, ServiceBusy."""
        size = len(raw)
        if size > limit:
            raise InvalidArgument(f"the request has {size} bytes: at most {limit} are taken", hint="Ask for less at once.")
        places: tuple[tuple[str, str], ...] = ((room.kind, ""), (room.kind, caller))
        for place, most in zip(places, (room.held_bytes, room.held_bytes // room.share), strict=True):
            if self._bytes[place] + size > most:
                whose = f" of {caller}" if place[1] else ""
                raise ServiceBusy(f"the service works on as many large {room.kind}{whose} as it can hold")
        self._bytes.update(dict.fromkeys(places, size))
        try:
            request = _read(read, raw)
            del raw
            if room is CALLS:
                _give_back(self._bytes, places, size)
                places = ()
            yield request
        finally:
            _give_back(self._bytes, places, size)

    def _counted(self, room: CallLimit, caller: str, peer: str) -> tuple[tuple[str, str], ...]:
        """Takes the call's places in the room, in all and for its caller and connection. Raises ServiceBusy if one of them is full."""
        keys = ((room.kind, ""), (room.kind, caller), (room.kind, peer))
        limits = (room.total, room.caller, room.connection)
        whose = ("", f" from {caller}", " over one connection")
        for key, limit, owner in zip(keys, limits, whose, strict=True):
            if self._open[key] >= limit:
                raise ServiceBusy(f"{limit} {room.kind} are open{owner} already: no more are taken")
        self._open.update(keys)
        return keys


class _Stall:
    """Closes `items` when what is inside takes longer than `seconds`; then `closing` is the task that does it."""

    def __init__(self, seconds: float, items: AsyncGenerator[Any, None]) -> None:
        self.closing: asyncio.Task[None] | None = None
        self._items = items
        self._timer = asyncio.get_running_loop().call_later(seconds, self._let_go)

    def _let_go(self) -> None:
        # The generator is suspended and will not be resumed: closing it is safe, and frees what it holds.
        self.closing = asyncio.create_task(self._close())

    async def _close(self) -> None:
        await self._items.aclose()

    def __enter__(self) -> _Stall:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def _give_back(in_use: Counter[tuple[str, str]], places: Iterable[tuple[str, str]], amount: int) -> None:
    for place in places:
        in_use[place] -= amount
        if not in_use[place]:
            del in_use[place]


def _read(read: Callable[[bytes], Any], raw: bytes) -> Any:
    try:
        return read(raw)
    except Exception as error:  # protobuf's own, which differ between its implementations
        raise InvalidArgument("the request is no message of this call", hint="Is the client of the service's version?") from error


class FailureLog:
    """The log lines about failed calls of one server, a bounded number of each caller's.

    Of a service that is busy the callers alone hear: they come in floods.
    """

    def __init__(self, lines: LineLimit | None = None) -> None:
        self._lines = lines or LineLimit(LOG_LINES, MOST_LOG_LINES)

    def add(self, method: str, peer: str, error: BaseException, **ids: str) -> None:
        """Logs why a call failed, or a part of it, which `ids` name."""
        if isinstance(error, ServiceBusy):
            return
        if (summary := self._lines.summary()) is not None:
            _log.warning(summary)
        if not self._lines.admits(quota_owner(peer)):
            return
        if not isinstance(error, LakewardError):
            _log.error("a call failed unexpectedly", method=method, error_class=type(error).__name__, exc_info=error, **ids)
        else:
            _log.info("a call was refused", method=method, error_class=error.error_class, message=error.message, **ids)

    @asynccontextmanager
    async def ending_call(self, method: str, context: _Context) -> AsyncIterator[None]:
        """Ends the call with an error of the block."""
        try:
            yield
        except _ENDS:
            raise
        except BaseException as error:  # a panic of Rust is no Exception; without a status its client would wait for ever
            await self.end_call(method, context, error)

    async def end_call(self, method: str, context: _Context, error: BaseException) -> None:
        """Ends the call with the status, the text and the details of `error`."""
        self.add(method, context.peer(), error)
        status: Any = rpc_status.to_status(error_status(error))
        await context.abort(status.code, status.details, status.trailing_metadata)
