"""A service that sends malformed, huge and endless answers to its clients, over real gRPC."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import grpc.aio
import pyarrow as pa
from google.rpc.error_details_pb2 import ErrorInfo, LocalizedMessage
from google.rpc.status_pb2 import Status
from pyarrow import ipc

from sys_tables.registry import default_registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogServicer, add_SysCatalogServicer_to_server
from sys_tables.server.messages import description_to_pb
from tiering.rpc.v1 import embedded_pb2, status_pb2
from tiering.rpc.v1.control_pb2 import CallProcedureResponse, PbProgress
from tiering.rpc.v1.control_pb2_grpc import TieringControlServicer, add_TieringControlServicer_to_server
from tiering.rpc.v1.embedded_pb2_grpc import EmbeddedClusterServicer, add_EmbeddedClusterServicer_to_server
from tiering.rpc.v1.status_pb2_grpc import TieringStatusServicer, add_TieringStatusServicer_to_server
from tiering.wire.error_status import DOMAIN

TABLE = "hostile"
SCHEMA = pa.schema([pa.field("number", pa.int64()), pa.field("text", pa.string())])
PIECE = 1 << 20
_PATIENCE_S = 30


def stream_of(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def rows(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": range(number), "text": ["x"] * number}, schema=SCHEMA)


def _beyond() -> bytes:
    """A stream with texts whose offsets point far behind their buffer."""
    batch = pa.RecordBatch.from_pydict({"number": [1, 2], "text": ["0123456789", "x"]}, schema=SCHEMA)
    whole, offsets = stream_of(batch), struct.pack("<iii", 0, 10, 11)
    assert offsets in whole
    return whole.replace(offsets, struct.pack("<iii", 0, 2**30, 2**30 + 2**29))


def _nulls(number: int) -> bytes:
    fields = [pa.field(name, pa.null()) for name in SCHEMA.names]
    return stream_of(pa.RecordBatch.from_arrays([pa.nulls(number)] * 2, schema=pa.schema(fields)))


def answers() -> dict[str, bytes]:
    """The streams that a read can be answered with, by name."""
    whole = stream_of(rows(10))
    schema = SCHEMA.serialize().to_pybytes()
    return {
        "metadata of 2 GB": struct.pack("<iiq", -1, 2**31 - 1, 0),
        "metadata of -2 bytes": struct.pack("<iiq", -1, -2, 0),
        "metadata of 2 GB behind the schema": schema + struct.pack("<iiq", -1, 2**31 - 8, 0),
        "NULLs without end": _nulls(2**31 - 1),
        "too many rows": stream_of(rows(3_000)),
        "too many bytes": stream_of(pa.RecordBatch.from_pydict({"number": [1], "text": ["x" * (5 << 20)]}, schema=SCHEMA)),
        "texts beyond their buffer": _beyond(),
        "compressed": stream_of(pa.RecordBatch.from_pydict({"number": [1], "text": ["x" * 100_000]}, schema=SCHEMA), compression="zstd"),
        "cut off": whole[: len(whole) // 2],
        "nothing": b"",
        "noise": bytes(range(256)) * 100,
    }


class HostileCatalog(SysCatalogServicer, TieringControlServicer):
    """Describes one table and one procedure; `answer` says what else it does."""

    def __init__(self) -> None:
        self.answer = ""
        self.streams = answers()

    async def Describe(self, request: Any, context: Any) -> pb.DescribeResponse:
        known = default_registry()
        description = description_to_pb(known, ["demo"])
        description.system_tables.append(pb.SystemTable(namespace="sys", name=TABLE, schema=self._schema()))
        return description

    def _schema(self) -> bytes:
        return self.streams["metadata of 2 GB"] if self.answer == "a schema of 2 GB" else SCHEMA.serialize().to_pybytes()

    async def ListTables(self, request: Any, context: Any) -> pb.ListTablesResponse:
        if self.answer == "names without end":
            return pb.ListTablesResponse(table_names=[f"t{next(_NUMBERS)}" for _ in range(1_000)], next_page_token=str(next(_NUMBERS)))
        empty = self.answer == "pages without names"
        return pb.ListTablesResponse(table_names=[] if empty else ["a"], next_page_token=str(next(_NUMBERS)) if empty else "again")

    async def ReadTable(self, request: Any, context: Any) -> AsyncGenerator[pb.ReadTableResponse, None]:
        if self.answer == "huge trailers":
            await context.abort(grpc.StatusCode.INTERNAL, "x" * 100_000, (("grpc-status-details-bin", b"x" * 1_000_000),))
        if self.answer == "trailers that are no error":
            await context.abort(grpc.StatusCode.INTERNAL, "x", (("grpc-status-details-bin", b"\xff" * 100),))
        if self.answer == "ids that are arguments":
            status = Status(code=grpc.StatusCode.INTERNAL.value[0], message="x")
            ids = {"hint": "a", "message": "b", "self": "c", "table_id": "7"}
            status.details.add().Pack(ErrorInfo(reason="InvalidArgument", domain=DOMAIN, metadata=ids))
            status.details.add().Pack(LocalizedMessage(message="odd"))
            await context.abort(grpc.StatusCode.INTERNAL, "x", (("grpc-status-details-bin", status.SerializeToString()),))
        if self.answer == "bytes without end":
            yield pb.ReadTableResponse(arrow=SCHEMA.serialize().to_pybytes())
            while True:
                yield pb.ReadTableResponse(arrow=stream_of(rows(1)).removeprefix(SCHEMA.serialize().to_pybytes())[:-8])
        for piece in _pieces(self.streams[self.answer]):
            yield pb.ReadTableResponse(arrow=piece)

    async def CallProcedure(self, request: Any, context: Any) -> AsyncGenerator[CallProcedureResponse, None]:
        for piece in _pieces(self.streams[self.answer]):
            yield CallProcedureResponse(progress=PbProgress(message="y" * 100_000))
            yield CallProcedureResponse(arrow=piece)


class HostileStatus(TieringStatusServicer):
    """Answers every listing with pages that never end."""

    async def ListTieringStatuses(self, request: Any, context: Any) -> status_pb2.ListTieringStatusesResponse:
        return status_pb2.ListTieringStatusesResponse(tiering_statuses=[status_pb2.PbTableTieringStatus()], next_page_token="again")

    async def ListKvSnapshotLeases(self, request: Any, context: Any) -> status_pb2.ListKvSnapshotLeasesResponse:
        return status_pb2.ListKvSnapshotLeasesResponse(next_page_token=str(next(_NUMBERS)))


class HostileCluster(EmbeddedClusterServicer):
    """Answers listings with pages that never end, and a table with a time in the year 300,000."""

    async def ListTables(self, request: Any, context: Any) -> embedded_pb2.ListTablesResponse:
        return embedded_pb2.ListTablesResponse(next_page_token="again")

    async def ListPartitions(self, request: Any, context: Any) -> embedded_pb2.ListPartitionsResponse:
        return embedded_pb2.ListPartitionsResponse(partitions=[embedded_pb2.PbPartition(partition_id=1, partition_name="p")], more=True)

    async def ListSegments(self, request: Any, context: Any) -> embedded_pb2.ListSegmentsResponse:
        return embedded_pb2.ListSegmentsResponse(root="/", segments=[embedded_pb2.PbSegment(starting_offset=0, stopping_offset=1)])

    async def GetTable(self, request: Any, context: Any) -> embedded_pb2.GetTableResponse:
        table = embedded_pb2.PbTable(table_id=1, table_type="LOG", schema=SCHEMA.serialize().to_pybytes())
        table.created_at.seconds = 2**50
        return embedded_pb2.GetTableResponse(table=table)


_NUMBERS = count()


def _pieces(stream: bytes) -> Iterator[bytes]:
    return (stream[start : start + PIECE] for start in range(0, len(stream), PIECE))


@contextmanager
def hostile_service() -> Iterator[tuple[str, HostileCatalog]]:
    """Serves until it is left: its uri, and the catalog whose `answer` a test sets."""
    loop, catalog = asyncio.new_event_loop(), HostileCatalog()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> tuple[grpc.aio.Server, int]:
        server = grpc.aio.server()
        add_SysCatalogServicer_to_server(catalog, server)
        add_TieringControlServicer_to_server(catalog, server)
        add_TieringStatusServicer_to_server(HostileStatus(), server)
        add_EmbeddedClusterServicer_to_server(HostileCluster(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    server, port = asyncio.run_coroutine_threadsafe(start(), loop).result(_PATIENCE_S)
    try:
        yield f"127.0.0.1:{port}", catalog
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(None), loop).result(_PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE_S)
        loop.close()
