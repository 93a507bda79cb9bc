"""The gRPC service TableReads (proto/tiering/rpc/v1/reads.proto).

Opening and planning read lakes and clusters, which may take seconds or hang. So each has threads of its own (`Wait`), and so have renewals.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import chain
from typing import Any

import grpc
import grpc.aio

from tiering.access.request_bounds import informative
from tiering.coordinator.readers.reads import OpenedRead, Reads
from tiering.coordinator.readers.streams import StreamCall, Streams
from tiering.coordinator.server.services import Pools, Wait
from tiering.instants import to_milliseconds
from tiering.model.names import table_path
from tiering.model.tables import TableType
from tiering.rpc.v1 import reads_pb2 as pb
from tiering.rpc.v1.reads_pb2_grpc import TableReadsServicer
from tiering.union_read.task_codec import pieces
from tiering.union_read.tasks import ReadTask
from tiering.wire.model_codecs import BUCKET
from tiering.wire.read_scans import scan_from_pb

_Context = grpc.aio.ServicerContext[Any, Any]


class ReadService(TableReadsServicer):
    """The service."""

    def __init__(self, reads: Reads, pools: Pools) -> None:
        self._reads = reads
        self._streams = Streams(reads)
        self._pools = pools

    async def OpenRead(self, request: pb.OpenReadRequest, context: _Context) -> pb.OpenReadResponse:
        path = table_path(request.table_path.database_name, request.table_path.table_name)
        engine, application_id = informative(request.engine), informative(request.application_id)
        ttl_ms = request.ttl_ms
        return await self._pools.run(Wait.OPEN_READ, lambda: _opened_to_pb(self._reads.open(path, engine, application_id, ttl_ms)))

    async def RenewRead(self, request: pb.RenewReadRequest, context: _Context) -> pb.RenewReadResponse:
        read, ticket = await self._pools.run(Wait.KEEP_READ, lambda: self._reads.renew(request.ticket))
        return pb.RenewReadResponse(expires_at_ms=to_milliseconds(read.expires_at), ticket=ticket)

    async def CloseRead(self, request: pb.CloseReadRequest, context: _Context) -> pb.CloseReadResponse:
        await self._pools.run(Wait.KEEP_READ, lambda: self._reads.close(request.ticket))
        return pb.CloseReadResponse()

    async def PlanRead(self, request: pb.PlanReadRequest, context: _Context) -> AsyncGenerator[pb.PlanReadResponse, None]:
        answers = await self._pools.run(Wait.PLAN_READ, lambda: self._planned(request))
        while (answer := await self._pools.run(Wait.PLAN_READ, lambda: next(answers, None))) is not None:
            yield answer

    async def NextBatch(self, request: pb.NextBatchRequest, context: _Context) -> pb.NextBatchResponse:
        offset = request.offset if request.HasField("offset") else None
        max_records = request.max_records if request.HasField("max_records") else None
        last = request.last_offset if request.HasField("last_offset") else None
        call = StreamCall.of_next(request)
        return pb.NextBatchResponse(
            offset=await self._pools.run(Wait.OPEN_READ, lambda: self._streams.next_batch(call, offset, max_records, last))
        )

    async def PlanBatch(self, request: pb.PlanBatchRequest, context: _Context) -> AsyncGenerator[pb.PlanReadResponse, None]:
        answers = await self._pools.run(Wait.PLAN_READ, lambda: self._batch(request))
        while (answer := await self._pools.run(Wait.PLAN_READ, lambda: next(answers, None))) is not None:
            yield answer

    def _batch(self, request: pb.PlanBatchRequest) -> Iterator[pb.PlanReadResponse]:
        scan = scan_from_pb(request.scan)
        return _answers(self._streams.plan_batch(StreamCall.of_plan(request, scan), scan, request.start_offset, request.end_offset))

    def _planned(self, request: pb.PlanReadRequest) -> Iterator[pb.PlanReadResponse]:
        scan = scan_from_pb(request.scan)
        if request.count:
            row_count, ticket = self._reads.count(request.ticket, scan)
            return iter([pb.PlanReadResponse(row_count=row_count, ticket=ticket)])
        tasks, ticket = self._reads.plan(request.ticket, scan)
        return chain([] if ticket is None else [pb.PlanReadResponse(ticket=ticket)], _answers(tasks))


def _answers(tasks: Sequence[ReadTask]) -> Iterator[pb.PlanReadResponse]:
    return (pb.PlanReadResponse(tasks=piece, last_task_continues=continues) for piece, continues in pieces(tasks))


def _opened_to_pb(opened: OpenedRead) -> pb.OpenReadResponse:
    moment, table = opened.read.moment, opened.table
    ranges = [
        pb.PbBucketRange(bucket=BUCKET.to_pb(bucket), starting_offset=moment.starting_offsets[bucket], stopping_offset=stop)
        for bucket, stop in moment.stopping_offsets.items()
        if moment.starting_offsets[bucket] < stop
    ]
    return pb.OpenReadResponse(
        read_id=opened.read.read_id,
        ticket=opened.ticket,
        table_id=moment.table_id,
        lake_snapshot_id=moment.lake_snapshot_id,
        log_ranges=ranges,
        log_records=moment.log_records,
        expires_at_ms=to_milliseconds(opened.read.expires_at),
        lake_format="" if moment.lake_snapshot_id is None else table.lake_format,
        has_primary_key=table.table_type is not TableType.LOG,
        arrow_schema=table.schema.serialize().to_pybytes(),
        kv_snapshots=len(moment.kv_snapshots),
        lake_mark=moment.lake_mark,
        lake_has_other_columns=opened.lake_has_other_columns,
    )
