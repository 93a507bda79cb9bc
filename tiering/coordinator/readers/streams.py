"""Plans the batches of streams, and keeps what a stream needs from its offset on: the lake snapshot until its files are read, and the log.

A stream is an open read of the engine `stream`. Each call of the stream moves it and extends its time. All methods do I/O and block.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta

from tiering.access.acting_for import current_subject
from tiering.access.request_bounds import informative
from tiering.coordinator.readers.reads import Reads
from tiering.errors import InvalidArgument
from tiering.model.names import table_path
from tiering.model.reading.open_reads import OpenRead
from tiering.model.reading.scans import ReadMoment, ReadPart, ReadScan
from tiering.rpc.v1 import reads_pb2 as pb
from tiering.union_read.plan import scan_columns
from tiering.union_read.streams.batches import StreamOptions
from tiering.union_read.streams.offsets import StreamOffset, decode, encode
from tiering.union_read.streams.planning import EARLIEST, BatchLimit
from tiering.union_read.tasks import ReadTask, pack_tasks

STREAM_TTL = timedelta(hours=1)
"""How long a stream keeps what it needs after its last call. It is longer than the time between two batches of most queries."""

ENGINE = "stream"


@dataclass(frozen=True)
class StreamCall:
    """A call of a stream: its table and options, and the run of the query that calls."""

    options: StreamOptions
    stream_id: str
    application_id: str

    @staticmethod
    def of_next(request: pb.NextBatchRequest) -> StreamCall:
        """Returns the call of a request for the end of the next batch. Raises InvalidName."""
        path = table_path(request.table_path.database_name, request.table_path.table_name)
        begin = request.starting_offsets or EARLIEST
        options = StreamOptions(path, begin, changelog=request.changelog, fail_on_data_loss=request.fail_on_data_loss)
        return StreamCall(options, request.stream_id, informative(request.application_id))

    @staticmethod
    def of_plan(request: pb.PlanBatchRequest, scan: ReadScan) -> StreamCall:
        """Returns the call of a request for the tasks of a batch. Raises InvalidName."""
        path = table_path(request.table_path.database_name, request.table_path.table_name)
        options = StreamOptions(
            path,
            changelog=scan.part is ReadPart.CHANGELOG,
            fail_on_data_loss=request.fail_on_data_loss,
            ignore_deletes=request.ignore_deletes,
        )
        return StreamCall(options, request.stream_id, informative(request.application_id))


class Streams:
    """Plans batches of streams. It is thread-safe."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    def next_batch(self, call: StreamCall, offset: str | None, max_records: int | None, last_offset: str | None) -> str:
        """Returns the JSON of the end of the next batch; equal to `offset` if there is nothing new.

        Raises InvalidArgument, and the errors of `StreamedTable.next_batch`.
        """
        if max_records is not None and max_records < 1:
            raise InvalidArgument(f"the number of records of a batch is {max_records}: it must be at least 1")
        start, last = decode(offset), decode(last_offset)
        streamed, table = self._reads.streamed(call.options.path, _read_id(call))
        with self._reads.open_reads.opening(table.table_id):
            end = streamed.next_batch(call.options, start, BatchLimit(max_records, last))
            self._keep(call, start or end.begin or end, end)
        return offset if offset is not None and end == start else encode(end)

    def plan_batch(self, call: StreamCall, scan: ReadScan, start_offset: str, end_offset: str) -> list[ReadTask]:
        """Returns the tasks of a batch. Raises InvalidArgument, and the errors of `StreamedTable.plan_batch`."""
        start, end = decode(start_offset), decode(end_offset)
        if end is None:
            raise InvalidArgument("the end of a batch of a stream is the beginning of the stream")
        streamed, table = self._reads.streamed(call.options.path, _read_id(call))
        with self._reads.open_reads.opening(table.table_id):
            readers = streamed.plan_batch(call.options, scan, start, end)
            self._keep(call, start or end.begin or end, end)
        return pack_tasks(readers, scan_columns(table, scan))

    def _keep(self, call: StreamCall, position: StreamOffset, end: StreamOffset) -> None:
        """Keeps what the stream needs from `position` on, and no longer what it needed before."""
        principal = current_subject().principal
        # A bucket without a position is new. The log from a position on is needed, even if it has no record there yet.
        starts = dict.fromkeys(end.buckets, 0) | dict(position.buckets)
        stops = {bucket: max(end.buckets.get(bucket, 0), start + 1) for bucket, start in starts.items()}
        snapshot_id = None if position.lake is None else position.lake.snapshot_id
        moment = ReadMoment(call.options.path, position.table_id, snapshot_id, starts, stops)
        now = self._reads.now()
        read = OpenRead(_read_id(call), moment, principal, ENGINE, call.application_id, now, now, now + STREAM_TTL)
        self._reads.keep(read)


def _read_id(call: StreamCall) -> str:
    """Returns the id of the read of a stream. It has the principal, so that no caller can end the read of another one."""
    names = "\0".join((current_subject().principal, call.application_id, call.stream_id))
    return f"stream-{hashlib.sha256(names.encode()).hexdigest()[:24]}"
