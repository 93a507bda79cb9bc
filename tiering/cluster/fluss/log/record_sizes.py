"""How large the records of a log are, from headers of its record batches: Fluss answers with no sizes.

The newest batch of a bucket is looked at when its log has grown, and the one that was newest before counts as well: so an estimate is of
both ends of what came meanwhile. The first time the batch at the log's start stands for the other end. A batch counts by its records, so
that a small one, which is mostly header, does not stand for large ones. Of a log that lies in remote storage Fluss names the segments
with their sizes, which are exact. Logs are compressed, and work goes by rows that are not: so a record counts at least what its columns of
fixed width take in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import structlog

from tiering.cluster.fluss.log.batches import BatchHeader, read_header
from tiering.cluster.fluss.log.headers import HeaderAnswer, header_answers
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LakewardError
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo

_log = structlog.get_logger(__name__)

_OFFSET_BITS = 32
"""Of Arrow's strings and lists: where the value of a row ends."""

Bounds = Mapping[BucketKey, BucketOffsets]


@dataclass(frozen=True)
class _Sample:
    """Bytes of so many offsets, the last of which is before `stopping_offset`."""

    size_bytes: int
    offsets: int
    stopping_offset: int


@dataclass(frozen=True)
class _Samples:
    """Of one bucket: the newest, and the one before."""

    newest: _Sample
    earlier: _Sample

    @property
    def bytes_per_record(self) -> float:
        return (self.newest.size_bytes + self.earlier.size_bytes) / (self.newest.offsets + self.earlier.offsets)


class RecordSizes:
    """Averages by bucket, as far as they were looked at. Safe to use from several threads."""

    def __init__(self, client: FlussClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._samples: dict[int, dict[BucketKey, _Samples]] = {}

    def attached(self, table: TableInfo, bounds: Bounds) -> Bounds:
        """`bounds`, which are of all of the table's buckets, with the averages that are known; asks nobody. Those of other buckets,
        whose partitions have vanished, are forgotten."""
        with self._lock:
            samples = {bucket: known for bucket, known in self._samples.get(table.table_id, {}).items() if bucket in bounds}
            if table.table_id in self._samples:
                self._samples[table.table_id] = samples
        least = _bytes_in_memory(table.schema)
        sizes = {bucket: max(least, known.bytes_per_record) for bucket, known in samples.items() if _has_records(bounds[bucket])}
        return {bucket: replace(log, bytes_per_record=sizes.get(bucket)) for bucket, log in bounds.items()}

    def sampled(self, table: TableInfo, bounds: Bounds) -> Bounds:
        """`bounds` with averages, for which logs that have grown are looked at: a small fetch a tablet server, of new buckets two.

        A bucket of which nothing can be learned keeps what is known of it, or none: an estimate fails nothing.
        """
        with self._lock:
            known = dict(self._samples.get(table.table_id, {}))
        grown = {
            bucket: log.log_end - 1
            for bucket, log in bounds.items()
            if _has_records(log) and (bucket not in known or known[bucket].newest.stopping_offset < log.log_end)
        }
        newest = self._ask(table, grown)
        first = self._ask(table, {bucket: bounds[bucket].log_start for bucket in newest if bucket not in known})
        for bucket, sample in newest.items():
            earlier = known[bucket].newest if bucket in known else first.get(bucket, sample)
            known[bucket] = _Samples(sample, earlier)
        with self._lock:
            self._samples[table.table_id] = known
        return self.attached(table, bounds)

    def note(self, table_id: int, headers: Mapping[BucketKey, BatchHeader]) -> None:
        """Takes headers that were read for something else."""
        with self._lock:
            of_table = self._samples.setdefault(table_id, {})
            for bucket, header in headers.items():
                sample = _of_header(header)
                known = of_table.get(bucket)
                if known is None or known.newest.stopping_offset < sample.stopping_offset:
                    of_table[bucket] = _Samples(sample, sample if known is None else known.newest)

    def _ask(self, table: TableInfo, offsets: Offsets) -> dict[BucketKey, _Sample]:
        try:
            answers = list(header_answers(self._client, table, offsets)) if offsets else []
            samples = {answer.bucket: _sample(answer) for answer in answers}
        except LakewardError as error:  # reading meets it as well, and names what is wrong
            _log.debug("sizes of records could not be estimated", table=str(table.path), error=error.message)
            return {}
        return {bucket: sample for bucket, sample in samples.items() if sample is not None}


def _has_records(log: BucketOffsets) -> bool:
    return log.log_end > log.log_start


def _bytes_in_memory(schema: pa.Schema) -> float:
    """Of a row at least: columns of fixed width, and an offset for each other one."""
    return sum(_least_bits(field.type) for field in schema) / 8


def _least_bits(kind: pa.DataType) -> int:
    try:
        return kind.bit_width
    except ValueError:  # of no fixed width
        return _OFFSET_BITS


def _sample(answer: HeaderAnswer) -> _Sample | None:
    if not answer.content.HasField("remote_log_fetch_info"):
        header = read_header(answer.content.records, 0, answer.place, answer.offset)
        return None if header is None else _of_header(header)
    segments = answer.content.remote_log_fetch_info.remote_log_segments
    size_bytes = sum(segment.segment_size_in_bytes for segment in segments)
    offsets = sum(segment.remote_log_end_offset - segment.remote_log_start_offset for segment in segments)
    return _Sample(size_bytes, offsets, segments[-1].remote_log_end_offset) if offsets > 0 else None


def _of_header(header: BatchHeader) -> _Sample:
    return _Sample(header.size, header.stopping_offset - header.starting_offset, header.stopping_offset)
