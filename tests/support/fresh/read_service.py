"""The services TableReads and TableWrites of a world behind real gRPC, without the coordinator's background.

A test steps through the rounds itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from support.worlds.coordinator_world import World
from support.worlds.lake_world import InlineDeployment
from tiering.coordinator.server.read_service import ReadService
from tiering.coordinator.server.services import Pools
from tiering.coordinator.server.write_service import WriteService
from tiering.rpc.v1.reads_pb2_grpc import add_TableReadsServicer_to_server
from tiering.rpc.v1.writes_pb2_grpc import add_TableWritesServicer_to_server
from tiering.wire.security.call_grants import CallGrants
from tiering.wire.server import open_server


@contextmanager
def reads_at_uri(world: World | InlineDeployment) -> Iterator[str]:
    """Serves from an event loop in a thread, on a free port. Yields the uri."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    coordinator = world.coordinator
    pools = Pools()
    service = ReadService(coordinator.reads, pools)

    async def start() -> tuple[object, int]:
        server = open_server(behind_guard=[CallGrants(coordinator.grants, coordinator.visible_tables, coordinator.audit)])
        add_TableReadsServicer_to_server(service, server)
        add_TableWritesServicer_to_server(WriteService(coordinator.writes, pools), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    server, port = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(0), loop).result(60)  # type: ignore[attr-defined]
        pools.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
