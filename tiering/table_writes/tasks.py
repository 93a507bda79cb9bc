"""The work of one task of a statement that writes: it cuts its rows into numbered batches and writes them."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tiering.access.client_access import ClientAccess, access_from_environment
from tiering.cluster.registry import ClusterAddress, cluster_kind
from tiering.cluster.writable import WritableCluster
from tiering.errors import PeerTooOld, SourceChanged
from tiering.model.tables import TablePath
from tiering.rpc.v1 import writes_pb2 as pb
from tiering.table_writes.batches import MESSAGE_LIMITS, BatchLimits, cut_batches
from tiering.table_writes.write_client import WriteClient
from tiering.union_read.task_codec import lakeward_version
from tiering.wire.channel import Connection

DIRECT_BYTES = 16 << 20
"""Target size of a batch that goes to a cluster directly. Such a write waits for its acknowledgements, so it should not be small."""


class BatchWriter(Protocol):
    """Writes the batches of one task."""

    @property
    def limits(self) -> BatchLimits:
        """Limits of one batch."""

    def write(self, sequence: int, batch: pa.RecordBatch) -> None:
        """Writes the batch with this number."""


@dataclass(frozen=True)
class ServiceBatches:
    """Writes through the service, which recognizes a batch that it has written before. Implements `BatchWriter`."""

    client: WriteClient
    ticket: bytes
    task: int
    limits: BatchLimits = MESSAGE_LIMITS

    def write(self, sequence: int, batch: pa.RecordBatch) -> None:
        self.client.write(self.ticket, self.task, sequence, batch)


@dataclass(frozen=True)
class ClusterBatches:
    """Writes to the cluster itself. Implements `BatchWriter`."""

    cluster: WritableCluster
    path: TablePath
    work: pb.WriteTask
    writer_id: str

    @property
    def limits(self) -> BatchLimits:
        most = self.cluster.max_write_bytes
        return BatchLimits(MESSAGE_LIMITS.rows, min(DIRECT_BYTES, most), most)

    def write(self, sequence: int, batch: pa.RecordBatch) -> None:
        cluster = self.cluster
        insert = cluster.upsert if self.work.has_primary_key else cluster.append
        write = cluster.delete if self.work.operation == pb.WriteOperation.DELETE else insert
        write(self.path, batch, self.writer_id, sequence)


def run_task(data: bytes, task: int, rows: Iterable[pa.RecordBatch]) -> int:
    """Writes the rows of one task, and returns their number. `data`: an ExecutorWrite; `task`: the number of the task in its statement.

    Raises PeerTooOld for work of another version, InvalidData, and the errors of the service or the cluster.
    """
    argument = pb.ExecutorWrite.FromString(data)
    work = pb.WriteTask.FromString(argument.task)
    if work.version != lakeward_version():
        raise PeerTooOld(
            f"the service that planned the write is Lakeward {work.version}, and this Python has Lakeward {lakeward_version()}",
            hint="Install the service's version of the package lakeward for the Python of Spark's driver and executors.",
        )
    schema = pa.ipc.read_schema(pa.py_buffer(work.arrow_schema))
    written = 0
    batches = iter(rows)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return 0
    with _writer(argument, work, task) as writer:
        fitted = (_as_stored(batch, schema) for batch in itertools.chain([first], batches))
        for sequence, batch in enumerate(cut_batches(fitted, writer.limits)):
            writer.write(sequence, batch)
            written += batch.num_rows
    return written


def _as_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows in the types of the table: the engine's own times have the zone of its session."""
    columns: Sequence[pa.Array[Any]] = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


@contextmanager
def _writer(argument: pb.ExecutorWrite, work: pb.WriteTask, task: int) -> Iterator[BatchWriter]:
    if work.HasField("ticket"):
        with _access(argument.tls_ca) as access, Connection(argument.uri, access) as connection:
            yield ServiceBatches(WriteClient(connection), work.ticket, task)
        return
    cluster = work.cluster
    path = TablePath(work.table_path.database_name, work.table_path.table_name)
    address = ClusterAddress(argument.uri, cluster.cluster_id, dict(cluster.properties))
    with cluster_kind(cluster.cluster_kind).open_writer(address) as writer:
        if writer.table(path).table_id != work.table_id:
            raise SourceChanged(
                f"{path} was dropped and created again when the statement that writes to it began",
                hint="The rows that it has written are dropped, too. Run the statement again.",
                table_path=path,
            )
        yield ClusterBatches(writer, path, work, f"{work.statement_id}/{task}")


@contextmanager
def _access(tls_ca: bytes) -> Iterator[ClientAccess]:
    """Yields the files for the connection of an executor: its own ones, else the authorities that the plugin trusts. It needs no token."""
    own = replace(access_from_environment(), token_file=None)
    if not tls_ca or own.tls_ca is not None:
        yield own
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ca.pem")
        path.write_bytes(tls_ca)
        yield replace(own, tls_ca=path)
