"""A client of the calls of the service TableReads for streams: gets the end of the next batch, and the bytes of the tasks of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiering.model.reading.scans import ReadPart
from tiering.rpc.v1 import reads_pb2 as pb
from tiering.rpc.v1.common_pb2 import PbTablePath
from tiering.rpc.v1.reads_pb2_grpc import TableReadsStub
from tiering.union_read.read_client import PLAN_SECONDS
from tiering.union_read.streams.batches import StreamOptions
from tiering.union_read.task_codec import TaskJoiner
from tiering.wire.channel import Connection


@dataclass(frozen=True)
class StreamClient:
    """Calls the service at `uri`, over a connection of its own for each call, because batches may be hours apart."""

    uri: str
    options: StreamOptions
    stream_id: str
    application_id: str = ""

    def next_batch(self, offset: str | None, max_records: int | None, last_offset: str | None = None) -> str:
        """Returns the end of the batch that begins at `offset`; None = at the beginning of the stream. Raises the errors of the service."""
        request = pb.NextBatchRequest(
            table_path=self._path,
            offset=offset,
            starting_offsets=self.options.starting_offsets,
            max_records=max_records,
            last_offset=last_offset,
            changelog=self.options.changelog,
            application_id=self.application_id,
            stream_id=self.stream_id,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )
        with Connection(self.uri) as connection, connection.calling():
            return str(TableReadsStub(connection.channel).NextBatch(request, timeout=PLAN_SECONDS).offset)

    def plan_batch(self, start: str, end: str, columns: Sequence[str]) -> list[bytes]:
        """Returns the tasks of the batch between two offsets. Raises the errors of the service."""
        part = ReadPart.CHANGELOG if self.options.changelog else ReadPart.ROWS
        request = pb.PlanBatchRequest(
            table_path=self._path,
            start_offset=start,
            end_offset=end,
            scan=pb.ReadScan(part=pb.ReadScan.Part.Value(part.name), columns=columns),
            application_id=self.application_id,
            stream_id=self.stream_id,
            fail_on_data_loss=self.options.fail_on_data_loss,
            ignore_deletes=self.options.ignore_deletes,
        )
        joiner = TaskJoiner()
        with Connection(self.uri) as connection, connection.calling():
            for answer in TableReadsStub(connection.channel).PlanBatch(request, timeout=PLAN_SECONDS):
                joiner.add(answer.tasks, answer.last_task_continues)
        return joiner.tasks

    @property
    def _path(self) -> PbTablePath:
        return PbTablePath(database_name=self.options.path.database_name, table_name=self.options.path.table_name)
