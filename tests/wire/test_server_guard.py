"""The guard in front of every servicer, over real gRPC on loopback: sizes, numbers, slow readers, bytes that are no message."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from structlog.testing import capture_logs

from support.services import http2
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogServicer, SysCatalogStub, add_SysCatalogServicer_to_server
from tiering.access.authentication import AUTHORIZATION, Authenticator, Proof
from tiering.access.identity import Authentication, Identity, address_of
from tiering.access.line_limit import LineLimit
from tiering.errors import InvalidArgument, LakewardError, PeerTooOld, RoundFailed, ServiceBusy
from tiering.rpc.v1.control_pb2 import CallProcedureRequest, CallProcedureResponse, PbProgress
from tiering.rpc.v1.control_pb2_grpc import TieringControlServicer, TieringControlStub, add_TieringControlServicer_to_server
from tiering.wire import server_guard
from tiering.wire.channel import calling
from tiering.wire.security import call_authentication
from tiering.wire.security.call_authentication import CallAuthentication
from tiering.wire.server import open_server
from tiering.wire.server_guard import (
    CALLS,
    CHECKS,
    CLUSTER,
    DEFINITIONS,
    LISTINGS,
    MAX_CALLS,
    MAX_STREAMS,
    READS,
    REFLECTIONS,
    REQUEST_BYTES,
    TABLE_READS,
    TABLE_WRITES,
    TIERERS,
    WATCHES,
    FailureLog,
    RpcGuard,
    room_of,
)

SERVICE = "/sys_tables.rpc.v1.SysCatalog/"
PIECE = b"x" * (1 << 20)


class Held:
    """Memory that one read holds until its reader has taken it."""


class Service(SysCatalogServicer, TieringControlServicer):
    """CALLs and listings wait until `go` is set, a read of `endless` never ends, and a Describe raises `failure`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.waiting = 0
        self.failure: BaseException = KeyError("password=hunter2")
        self.held: weakref.WeakSet[Held] = weakref.WeakSet()

    async def CallProcedure(self, request: Any, context: Any) -> AsyncGenerator[CallProcedureResponse, None]:
        self.waiting += 1
        yield CallProcedureResponse(progress=PbProgress(message="waiting"))
        await self.go.wait()

    async def ReadTable(self, request: Any, context: Any) -> AsyncGenerator[pb.ReadTableResponse, None]:
        held = Held()
        self.held.add(held)
        while request.name == "endless":
            yield pb.ReadTableResponse(arrow=PIECE)
        yield pb.ReadTableResponse(arrow=b"rows")
        del held

    async def Describe(self, request: Any, context: Any) -> pb.DescribeResponse:
        raise self.failure

    async def ListTables(self, request: Any, context: Any) -> pb.ListTablesResponse:
        self.waiting += 1
        await self.go.wait()
        return pb.ListTablesResponse()


@asynccontextmanager
async def served(guard: RpcGuard | None = None, before_guard: Sequence[Any] = ()) -> AsyncGenerator[tuple[Service, str], None]:
    server = open_server(guard=guard, before_guard=before_guard)
    service = Service()
    add_SysCatalogServicer_to_server(service, server)
    add_TieringControlServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield service, f"127.0.0.1:{port}"
    finally:
        service.go.set()
        await server.stop(None)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(within())


async def until(probe: Callable[[], object]) -> None:
    while not probe():
        await asyncio.sleep(0.01)


async def raised_by(call: Awaitable[object]) -> LakewardError:
    with pytest.raises(LakewardError) as raised, calling("test"):
        await call
    return raised.value


async def to_the_end(answer: Any) -> None:
    while await answer.read() is not grpc.aio.EOF:
        pass


def collected(held: weakref.WeakSet[Held]) -> bool:
    gc.collect()
    return not held


def channel_of(uri: str, **options: int) -> grpc.aio.Channel:
    """A channel with a connection of its own."""
    return grpc.aio.insecure_channel(uri, options=[("grpc.use_local_subchannel_pool", 1), *options.items()])


def request_limit_of(room: server_guard.CallLimit) -> int:
    """Bytes of the largest request of a kind."""
    return {CALLS: server_guard.REQUEST_BYTES, TIERERS: server_guard.LARGE_REQUEST_BYTES, CLUSTER: server_guard.LARGE_REQUEST_BYTES}.get(
        room, 0
    )


def test_calls_of_programs_wait_in_the_room_of_calls() -> None:
    assert room_of("/tiering.rpc.v1.TieringControl/CallProcedure") is CALLS
    assert room_of("/grpc.health.v1.Health/Check") is not room_of("/grpc.health.v1.Health/Watch")


def test_the_rooms_together_are_smaller_than_the_service_and_a_connection_has_streams_beyond_its_calls() -> None:
    rooms = (CALLS, READS, TABLE_READS, TABLE_WRITES, TIERERS, CLUSTER, DEFINITIONS, LISTINGS, CHECKS, WATCHES, REFLECTIONS)
    assert sum(room.total for room in rooms) < MAX_CALLS
    assert sum(room.held_bytes for room in rooms) <= 512 << 20
    assert all(room.held_bytes // room.share >= request_limit_of(room) for room in rooms)
    assert CALLS.connection + READS.connection + TABLE_READS.connection + LISTINGS.connection < MAX_STREAMS


def test_calls_that_wait_are_counted_and_a_select_still_gets_through() -> None:
    async def test() -> None:
        async with served() as (service, uri), channel_of(uri) as channel:
            stub, control = SysCatalogStub(channel), TieringControlStub(channel)
            calls = [control.CallProcedure(CallProcedureRequest()) for _ in range(CALLS.connection)]
            await until(lambda: service.waiting == CALLS.connection)
            refused = await raised_by(control.CallProcedure(CallProcedureRequest()).read())
            assert isinstance(refused, ServiceBusy)
            assert refused.message == "128 CALLs are open over one connection already: no more are taken"
            assert [piece.arrow async for piece in stub.ReadTable(pb.ReadTableRequest())] == [b"rows"]
            async with channel_of(uri) as other:
                more = [TieringControlStub(other).CallProcedure(CallProcedureRequest()) for _ in range(CALLS.connection)]
                await until(lambda: service.waiting == CALLS.caller)
                async with channel_of(uri) as third:
                    refused = await raised_by(TieringControlStub(third).CallProcedure(CallProcedureRequest()).read())
                    assert "from ipv4:127.0.0.1 already" in refused.message
                del more
            for call in calls:
                call.cancel()
            # Calls that were cancelled hold no place.
            service.waiting = 0
            service.go.set()
            again = [control.CallProcedure(CallProcedureRequest()) for _ in range(CALLS.connection)]
            assert [[step.progress.message async for step in call] for call in again] == [["waiting"]] * CALLS.connection

    run(test)


def test_a_request_is_measured_before_it_is_decoded() -> None:
    async def test() -> None:
        async with served() as (_, uri), channel_of(uri) as channel:
            read = SysCatalogStub(channel).ReadTable(pb.ReadTableRequest(name="x" * REQUEST_BYTES))
            error = await raised_by(read.read())
        assert isinstance(error, InvalidArgument)
        assert f"at most {REQUEST_BYTES} are taken" in error.message

    run(test)


def test_requests_that_are_worked_on_have_a_size_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One caller gets a half of it."""
    small = dataclasses.replace(LISTINGS, held_bytes=2_000)
    monkeypatch.setattr(server_guard, "LISTINGS", small)

    async def test() -> None:
        async with served() as (service, uri), channel_of(uri) as channel:
            stub = SysCatalogStub(channel)
            first = asyncio.ensure_future(stub.ListTables(pb.ListTablesRequest(namespace="x" * 600)))
            await until(lambda: service.waiting)
            assert isinstance(await raised_by(stub.ListTables(pb.ListTablesRequest(namespace="x" * 600))), ServiceBusy)
            service.go.set()
            await first
            await stub.ListTables(pb.ListTablesRequest(namespace="x" * 600))

    run(test)


def test_calls_that_wait_hold_no_bytes_and_nothing_of_other_kinds_of_calls() -> None:
    """128 waiting CALLs of a megabyte each refused everything else."""

    async def test() -> None:
        async with served() as (service, uri):
            channels = [channel_of(uri) for _ in range(2)]
            large = CallProcedureRequest(name="x" * (server_guard.REQUEST_BYTES - 10))
            assert CALLS.caller * server_guard.REQUEST_BYTES > CALLS.held_bytes
            calls = [TieringControlStub(channel).CallProcedure(large) for channel in channels for _ in range(CALLS.connection)]
            await until(lambda: service.waiting == CALLS.caller)
            async with channel_of(uri) as other:
                assert [piece.arrow async for piece in SysCatalogStub(other).ReadTable(pb.ReadTableRequest(name="x" * 100_000))] == [
                    b"rows"
                ]
            for call in calls:
                call.cancel()
            for channel in channels:
                await channel.close()

    run(test)


class ByToken(Authenticator):
    """Takes the token for the principal's name."""

    async def identify(self, proof: Proof) -> Identity:
        return Identity(proof.bearer or "", Authentication.TOKEN, peer=proof.peer)


def test_one_principal_takes_no_place_of_another_one_at_the_same_address() -> None:
    async def test() -> None:
        async with served(before_guard=[CallAuthentication(ByToken())]) as (service, uri):
            channels = [channel_of(uri) for _ in range(CALLS.caller // CALLS.connection + 2)]
            ann, eve = (((AUTHORIZATION, f"Bearer {name}"),) for name in ("ann", "eve"))
            *those_of_eve, another, that_of_ann = (TieringControlStub(channel) for channel in channels)
            calls = [stub.CallProcedure(CallProcedureRequest(), metadata=eve) for stub in those_of_eve for _ in range(CALLS.connection)]
            await until(lambda: service.waiting == CALLS.caller)
            refused = await raised_by(another.CallProcedure(CallProcedureRequest(), metadata=eve).read())
            assert "from principal eve already" in refused.message
            assert (await that_of_ann.CallProcedure(CallProcedureRequest(), metadata=ann).read()).progress.message == "waiting"
            for call in calls:
                call.cancel()
            for channel in channels:
                await channel.close()

    run(test)


class Waiting(Authenticator):
    """An identity provider that does not answer but for one token."""

    async def identify(self, proof: Proof) -> Identity:
        if proof.bearer != "known":
            await asyncio.Event().wait()
        return Identity("ann", Authentication.TOKEN)


def test_calls_that_wait_for_an_identity_provider_are_counted_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_authentication, "WAITING_CALLS", 3)

    async def test() -> None:
        authentication = CallAuthentication(Waiting())
        async with served(before_guard=[authentication]) as (_, uri), channel_of(uri) as channel:
            stub = SysCatalogStub(channel)
            unknown, known = (((AUTHORIZATION, f"Bearer {name}"),) for name in ("unknown", "known"))
            waiting = [stub.ReadTable(pb.ReadTableRequest(), metadata=unknown) for _ in range(3)]
            await until(lambda: authentication._waiting.total() == 3)
            refused = await raised_by(stub.ReadTable(pb.ReadTableRequest(), metadata=unknown).read())
            assert refused.message == "3 calls from ipv4:127.0.0.1 already wait for authentication: no more are accepted"
            for call in waiting:
                call.cancel()
            await until(lambda: not authentication._waiting)
            assert [piece.arrow async for piece in stub.ReadTable(pb.ReadTableRequest(), metadata=known)] == [b"rows"]

    run(test)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:1", "ipv4:127.0.0.1"),
        ("ipv6:%5B2001:db8::1%5D:1", "ipv6:2001:db8::/64"),
        ("ipv6:[2001:db8::ffff:1]:2", "ipv6:2001:db8::/64"),
        ("ipv6:%5B2001:db8:0:1::1%5D:1", "ipv6:2001:db8:0:1::/64"),
        ("ipv6:%5B::ffff:10.0.0.1%5D:1", "ipv4:10.0.0.1"),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", "ipv6:fe80::/64"),
        ("unix:", "unix:"),
        ("ipv4:nonsense", "ipv4:"),
    ],
)
def test_an_address_has_no_port_and_of_ipv6_the_network(peer: str, address: str) -> None:
    assert address_of(peer) == address


@pytest.mark.parametrize("raw", [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xc3\x28", b"\x0a\x01\xff", b"\x0b" * 200])
def test_bytes_that_are_no_message_are_refused_as_an_argument(raw: bytes) -> None:
    async def test() -> None:
        async with served() as (_, uri), channel_of(uri) as channel:
            unary = channel.unary_unary(SERVICE + "ListTables")
            streaming = channel.unary_stream(SERVICE + "ReadTable")
            errors = [await raised_by(unary(raw)), await raised_by(streaming(raw).read())]
        assert [type(error) for error in errors] == [InvalidArgument] * 2

    run(test)


def test_a_call_that_is_opened_and_left_so_ends() -> None:
    async def test() -> None:
        async with served(RpcGuard(request_seconds=0.1)) as (_, uri), channel_of(uri) as channel:
            for left in (channel.stream_unary(SERVICE + "Describe")(), channel.stream_stream(SERVICE + "ReadTable")().read()):
                error = await raised_by(left)
                assert isinstance(error, InvalidArgument)
                assert "no request came within 0.1 s" in error.message
            ended = channel.stream_unary(SERVICE + "Describe")()
            await ended.done_writing()
            assert "without a request" in (await raised_by(ended)).message

    run(test)


def test_calls_that_are_opened_and_left_so_are_counted() -> None:
    async def test() -> None:
        async with served() as (_, uri), channel_of(uri) as channel:
            left = [channel.stream_stream(SERVICE + "ReadTable")() for _ in range(READS.connection)]
            await asyncio.gather(*(call.wait_for_connection() for call in left))
            assert isinstance(await raised_by(channel.stream_stream(SERVICE + "ReadTable")().read()), ServiceBusy)
            async with channel_of(uri) as other:
                assert [piece.arrow async for piece in SysCatalogStub(other).ReadTable(pb.ReadTableRequest())] == [b"rows"]
            for call in left:
                call.cancel()

    run(test)


@pytest.mark.parametrize(
    "path", ["/a/b", "/sys_tables.rpc.v1.SysCatalog/Nothing", b"/\xff\xfe\x80", b"/sys_tables.rpc.v1.SysCatalog/\xff", b"\xff"]
)
def test_an_unknown_method_of_any_name_is_refused_and_the_service_goes_on(path: str | bytes) -> None:
    async def test() -> None:
        async with served() as (_, uri), channel_of(uri) as channel:
            host, _, port = uri.rpartition(":")
            words = http2.BEGUN + http2.opening(path if isinstance(path, bytes) else path.encode())
            await asyncio.to_thread(http2.say, (host, int(port)), words + http2.frame(http2.DATA, http2.END_STREAM, 1, http2.message(b"")))
            if isinstance(path, str):
                assert isinstance(await raised_by(channel.unary_unary(path)(b"")), PeerTooOld)
            assert [piece.arrow async for piece in SysCatalogStub(channel).ReadTable(pb.ReadTableRequest())] == [b"rows"]

    run(test)


class Panic(BaseException):
    """A panic like those of libraries in Rust: no `Exception`."""


@pytest.mark.parametrize("kind", [KeyError, Panic])
def test_an_unforeseen_error_arrives_by_its_class_and_redacted(kind: type[BaseException]) -> None:
    async def test() -> None:
        async with served() as (service, uri), channel_of(uri) as channel:
            service.failure = kind("password=hunter2")
            error = await raised_by(SysCatalogStub(channel).Describe(pb.DescribeRequest(), timeout=60))
        assert isinstance(error, RoundFailed)
        assert error.error_class == kind.__name__
        assert "hunter2" not in error.message

    run(test)


def test_calls_that_fail_leave_a_bounded_number_of_lines() -> None:
    async def test() -> None:
        async with served(RpcGuard(failures=FailureLog(LineLimit(3, 100)))) as (service, uri), channel_of(uri) as channel:
            service.failure = InvalidArgument("never")
            for _ in range(10):
                await raised_by(SysCatalogStub(channel).Describe(pb.DescribeRequest()))

    with capture_logs() as logs:
        run(test)
    assert [line["message"] for line in logs if line["event"] == "a call was refused"] == ["never"] * 3


def test_a_reader_that_stands_still_keeps_nothing_and_learns_it_when_it_goes_on() -> None:
    async def test() -> None:
        async with served(RpcGuard(stalled_seconds=0.2)) as (service, uri), channel_of(uri) as channel:
            stalled = SysCatalogStub(channel).ReadTable(pb.ReadTableRequest(name="endless"))
            await stalled.read()
            await until(lambda: len(service.held) == 1)
            await until(lambda: collected(service.held))
            error = await raised_by(to_the_end(stalled))
            assert isinstance(error, ServiceBusy)
            assert "was read for 0.2 s" in error.message

    run(test)
