"""A CALL ends on the server as soon as its caller is gone, in any way: the service's own list shows it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from support.services.sys_catalog import error_of, serving
from support.worlds.calling import until
from support.worlds.memory_coordinator import MemoryCoordinator, TierSteps, table_info, table_status
from tiering.errors import TablePaused
from tiering.procedures.tier_table import TierTable
from tiering.rpc.v1.control_pb2 import CallProcedureRequest
from tiering.rpc.v1.control_pb2_grpc import TieringControlStub
from tiering.wire.server import server_options

Run = Callable[[Any], None]
REQUEST = CallProcedureRequest(name="tier_table", caller="ann", idempotency_key="k")
REQUEST.arguments.add(name="table").value.text = "demo.Flights"

CLIENT = """
import sys, grpc
from tiering.rpc.v1.control_pb2 import CallProcedureRequest
from tiering.rpc.v1.control_pb2_grpc import TieringControlStub
request = CallProcedureRequest.FromString(bytes.fromhex(sys.argv[2]))
for step in TieringControlStub(grpc.insecure_channel(sys.argv[1])).CallProcedure(request):
    pass
"""


async def forever(call: TierTable) -> TierSteps:
    await asyncio.Event().wait()
    yield  # type: ignore[misc]  # never reached


def coordinator() -> MemoryCoordinator:
    return MemoryCoordinator([table_info("demo.Flights")], [table_status("demo.Flights")], tier=forever)


async def call_is_over(handle: MemoryCoordinator) -> None:
    """Returns once no call is open. The procedure itself would wait forever."""
    await until(lambda: not handle.open_calls.list())


async def waiting(handle: MemoryCoordinator) -> None:
    await until(lambda: len(handle.open_calls.list()) == 1)


def test_a_call_is_listed_while_it_waits_and_gone_once_it_is_interrupted(run: Run) -> None:
    async def scenario() -> None:
        handle = coordinator()
        async with serving(handle) as client:
            call = client.control.CallProcedure(REQUEST)
            reading = asyncio.ensure_future(call.read())
            await waiting(handle)
            [listed] = (await client.read("open_calls")).to_pylist()
            call.cancel()
            await call_is_over(handle)
            await asyncio.wait([reading])
            assert (await client.read("open_calls")).num_rows == 0
        shown = (listed["procedure_name"], listed["caller"], listed["idempotency_key"], listed["running_ms"])
        assert shown == ("tier_table", "ann", "k", 0)

    run(scenario())


def test_a_deadline_ends_the_call_on_the_server_too(run: Run) -> None:
    async def scenario() -> None:
        handle = coordinator()
        async with serving(handle) as client:
            for seconds in (0.3, 3, 30):  # on a busy machine a call may not arrive before its deadline
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await client.control.CallProcedure(REQUEST, timeout=seconds).read()
                assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                if handle.calls:
                    break
            assert len(handle.calls) == 1
            await call_is_over(handle)

    run(scenario())


def test_calls_that_are_answered_or_refused_are_over(run: Run) -> None:
    async def paused(call: TierTable) -> TierSteps:
        raise TablePaused("demo.Flights is paused by ann")
        yield

    async def scenario() -> None:
        handle = coordinator()
        handle.tier = None
        async with serving(handle) as client:
            await client.call("tier_table", table="demo.flights")
            handle.tier = paused
            assert isinstance(await error_of(client.call("tier_table", table="demo.flights")), TablePaused)
        assert len(handle.calls) == 2
        assert handle.open_calls.list() == ()

    run(scenario())


def test_a_client_that_is_killed_takes_its_call_with_it(run: Run) -> None:
    async def scenario() -> None:
        handle = coordinator()
        async with serving(handle) as client:
            arguments = [sys.executable, "-c", CLIENT, f"127.0.0.1:{client.port}", REQUEST.SerializeToString().hex()]
            process = await asyncio.to_thread(subprocess.Popen, arguments)
            await waiting(handle)
            os.kill(process.pid, signal.SIGKILL)
            await call_is_over(handle)
            await asyncio.to_thread(process.wait)

    run(scenario())


def test_a_client_that_falls_silent_without_a_goodbye_is_noticed_by_a_ping(run: Run) -> None:
    """The connection stays open, half: its machine lost power, or a cable was pulled."""

    async def scenario() -> None:
        handle = coordinator()
        async with (
            serving(handle, options=server_options(200, 5_000)) as client,
            cable(client.port) as (port, pull),
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            call = TieringControlStub(channel).CallProcedure(REQUEST)
            reading = asyncio.ensure_future(call.read())
            await waiting(handle)
            # Several pings long: a client that answers pings stays connected without other traffic.
            assert (await asyncio.wait([reading], timeout=1))[0] == set()
            assert len(handle.open_calls.list()) == 1
            pull()
            await call_is_over(handle)
            call.cancel()
            await asyncio.wait([reading])

    run(scenario())


@asynccontextmanager
async def cable(port: int) -> AsyncGenerator[tuple[int, Callable[[], None]], None]:
    """A port that leads to `port` until it is pulled: then no byte passes, and neither side is notified."""
    pulled = False
    ends: list[asyncio.StreamWriter] = []

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while piece := await source.read(65_536):
            if not pulled:
                target.write(piece)

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        ends.extend((writer, back))
        await asyncio.gather(carry(reader, back), carry(there, writer), return_exceptions=True)

    def pull() -> None:
        nonlocal pulled
        pulled = True

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], pull
    finally:
        for end in ends:
            end.close()
        server.close()
