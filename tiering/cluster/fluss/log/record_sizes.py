"""Estimates the size of a log's records from headers of its record batches, because Fluss returns no sizes.

The newest batch of a bucket is sampled when its log has grown, and the previous newest batch counts too: so an estimate covers both ends of
the new records. The first time, the batch at the log's start is the other end. A batch is weighted by its number of records, so that a
small one, which is mostly header, does not represent large ones. For a log in remote storage Fluss returns the segments with their sizes,
which are exact. Logs are compressed, but work is measured in uncompressed rows: so a record has at least the size of its fixed-width
columns in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import structlog

from tiering.cluster.fluss.log.batches import BatchHeader, read_header
from tiering.cluster.fluss.log.headers import HeaderResponse, header_answers
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LakewardError
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo

_log = structlog.get_logger(__name__)

_OFFSET_BITS = 32
"""Size of an offset in Arrow's strings and lists, which says where the value of a row ends."""

Bounds = Mapping[BucketKey, BucketOffsets]


@dataclass(frozen=True)
class _Sample:
    """Bytes of a number of offsets, the last of which is before `stopping_offset`."""

    size_bytes: int
    offsets: int
    stopping_offset: int


@dataclass(frozen=True)
class _Samples:
    """The samples of one bucket: the newest, and the one before."""

    newest: _Sample
    earlier: _Sample

    @property
    def bytes_per_record(self) -> float:
        return (self.newest.size_bytes + self.earlier.size_bytes) / (self.newest.offsets + self.earlier.offsets)


class RecordSizes:
    """Average record sizes by bucket, as far as they were sampled. Safe to use from several threads."""

    def __init__(self, client: FlussClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._samples: dict[int, dict[BucketKey, _Samples]] = {}

    def attached(self, table: TableInfo, bounds: Bounds) -> Bounds:
        """Returns `bounds`, which are of all of the table's buckets, with the known averages; makes no calls. Averages of other buckets,
        whose partitions have vanished, are forgotten.
        """
        with self._lock:
            samples = {bucket: known_samples for bucket, known_samples in self._samples.get(table.table_id, {}).items() if bucket in bounds}
            if table.table_id in self._samples:
                self._samples[table.table_id] = samples
        least = _bytes_in_memory(table.schema)
        sizes = {
            bucket: max(least, known_samples.bytes_per_record) for bucket, known_samples in samples.items() if _has_records(bounds[bucket])
        }
        return {bucket: replace(log, bytes_per_record=sizes.get(bucket)) for bucket, log in bounds.items()}

    def sampled(self, table: TableInfo, bounds: Bounds) -> Bounds:
        """Returns `bounds` with averages, and samples logs that have grown: one small call for each tablet server, two for new buckets.

        A bucket that cannot be sampled keeps its known average, or none: an estimate must not fail the caller.
        """
        with self._lock:
            known_samples = dict(self._samples.get(table.table_id, {}))
        grown = {
            bucket: log.log_end - 1
            for bucket, log in bounds.items()
            if _has_records(log) and (bucket not in known_samples or known_samples[bucket].newest.stopping_offset < log.log_end)
        }
        newest = self._ask(table, grown)
        first = self._ask(table, {bucket: bounds[bucket].log_start for bucket in newest if bucket not in known_samples})
        for bucket, sample in newest.items():
            earlier = known_samples[bucket].newest if bucket in known_samples else first.get(bucket, sample)
            known_samples[bucket] = _Samples(sample, earlier)
        with self._lock:
            self._samples[table.table_id] = known_samples
        return self.attached(table, bounds)

    def note(self, table_id: int, headers: Mapping[BucketKey, BatchHeader]) -> None:
        """Uses headers that were read for another purpose."""
        with self._lock:
            of_table = self._samples.setdefault(table_id, {})
            for bucket, header in headers.items():
                sample = _of_header(header)
                known_samples = of_table.get(bucket)
                if known_samples is None or known_samples.newest.stopping_offset < sample.stopping_offset:
                    of_table[bucket] = _Samples(sample, sample if known_samples is None else known_samples.newest)

    def _ask(self, table: TableInfo, offsets: Offsets) -> dict[BucketKey, _Sample]:
        try:
            answers = list(header_answers(self._client, table, offsets)) if offsets else []
            samples = {answer.bucket: _sample(answer) for answer in answers}
        except LakewardError as error:  # reading the log has the same error, and reports it
            _log.debug("sizes of records could not be estimated", table=str(table.path), error=error.message)
            return {}
        return {bucket: sample for bucket, sample in samples.items() if sample is not None}


def _has_records(log: BucketOffsets) -> bool:
    return log.log_end > log.log_start


def _bytes_in_memory(schema: pa.Schema) -> float:
    """Returns the minimum size of a row in bytes: fixed-width columns, and an offset for each other column."""
    return sum(_least_bits(field.type) for field in schema) / 8


def _least_bits(kind: pa.DataType) -> int:
    try:
        return kind.bit_width
    except ValueError:  # a type of variable width
        return _OFFSET_BITS


def _sample(answer: HeaderResponse) -> _Sample | None:
    if not answer.content.HasField("remote_log_fetch_info"):
        header = read_header(answer.content.records, 0, answer.place, answer.offset)
        return None if header is None else _of_header(header)
    segments = answer.content.remote_log_fetch_info.remote_log_segments
    size_bytes = sum(segment.segment_size_in_bytes for segment in segments)
    offsets = sum(segment.remote_log_end_offset - segment.remote_log_start_offset for segment in segments)
    return _Sample(size_bytes, offsets, segments[-1].remote_log_end_offset) if offsets > 0 else None


def _of_header(header: BatchHeader) -> _Sample:
    return _Sample(header.size, header.stopping_offset - header.starting_offset, header.stopping_offset)
