"""Rows that a bench writes round by round, and what a lake table must hold afterwards: all columns follow from a row's id and version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tiering.cluster.log_writer import LogWriter

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("version", pa.int64()),
        pa.field("amount", pa.float64()),
        pa.field("changed_at", pa.timestamp("us", tz="UTC")),
        pa.field("name", pa.string()),
    ]
)
KEY_SCHEMA = pa.schema([SCHEMA.field("id")])
DELETED_SHARE = 0.05
"""Part of the changed keys that a round of a primary-key table deletes. A deleted key comes again when it is chosen again."""
ENCODINGS = {**dict.fromkeys(("id", "version", "changed_at"), "DELTA_BINARY_PACKED"), "amount": "BYTE_STREAM_SPLIT", "name": "PLAIN"}
"""Encodings of the plain Parquet files with whose bytes those of the lake are compared."""
UNKNOWN_TO_PAIMON = "BYTE_STREAM_SPLIT"
"""Paimon's Java reader does not know it, so files of a Paimon table have it nowhere."""
_DELETED = -1
Numbers = npt.NDArray[np.int64]


def rows_of(ids: Numbers, versions: Numbers) -> pa.RecordBatch:
    """The rows of these ids in these versions."""
    mixed = ids * 7_919 + versions * 104_729
    names = pa.array(np.char.add("user-", (mixed % 100_000).astype(str)), pa.string())
    times = pa.array(1_700_000_000_000_000 + mixed * 1_009).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array(versions), pa.array(mixed * 0.37), times, names], schema=SCHEMA)


def plain_bytes(batch: pa.RecordBatch, buckets: int, lake_format: str) -> int:
    """Bytes of these rows as Parquet files that are never merged: one a bucket, as a round writes them."""
    parts = (batch.take(pa.array(places)) for places in np.array_split(np.arange(batch.num_rows), buckets) if len(places))
    return sum(_file_bytes(part, lake_format) for part in parts)


def _file_bytes(batch: pa.RecordBatch, lake_format: str) -> int:
    sink, unknown = pa.BufferOutputStream(), UNKNOWN_TO_PAIMON if lake_format == "paimon" else None
    encodings = {name: "PLAIN" if encoding == unknown else encoding for name, encoding in ENCODINGS.items()}
    pq.write_table(pa.Table.from_batches([batch]), sink, compression="zstd", use_dictionary=False, column_encoding=encodings)
    return int(sink.getvalue().size)


def check_rows(rows: pa.Table, expected: pa.RecordBatch, which: str) -> None:
    """Raises SystemExit unless a scan has exactly the expected rows: a benchmark of a wrong answer is worth nothing."""
    if rows.num_rows != expected.num_rows:
        raise SystemExit(f"{which} has {rows.num_rows} rows instead of {expected.num_rows}")
    same = rows.select(SCHEMA.names).cast(SCHEMA).sort_by("id").combine_chunks()
    if not same.equals(pa.Table.from_batches([expected])):
        raise SystemExit(f"{which} has other rows than were written")


class Workload(Protocol):
    """Writes one round's rows after another. `plain_bytes`: of all rows so far."""

    plain_bytes: int

    def write(self, writer: LogWriter, number: int) -> None:
        """The rows of round `number`, the first of which is 1."""
        ...

    def expected(self) -> pa.RecordBatch:
        """The rows that the lake table must have now, by id."""
        ...


@dataclass
class LogWorkload:
    """`rows` new rows a round, in as many appends as `appends`. Without a bucket key each append goes to the next bucket."""

    rows: int
    appends: int
    lake_format: str
    written: int = 0
    versions: list[Numbers] = field(default_factory=list)
    plain_bytes: int = 0

    def write(self, writer: LogWriter, number: int) -> None:
        for ids in np.array_split(np.arange(self.written, self.written + self.rows), min(self.appends, self.rows)):
            batch = rows_of(ids, np.full(len(ids), number))
            writer.append(batch)
            self.plain_bytes += plain_bytes(batch, 1, self.lake_format)
        self.versions.append(np.full(self.rows, number))
        self.written += self.rows

    def expected(self) -> pa.RecordBatch:
        return rows_of(np.arange(self.written), np.concatenate(self.versions))


@dataclass
class KeyWorkload:
    """The first round writes all keys; each later one updates `rows` of them, of which it deletes a share instead."""

    keys: int
    rows: int
    buckets: int
    lake_format: str
    plain_bytes: int = 0

    def __post_init__(self) -> None:
        self._versions = np.full(self.keys, _DELETED, np.int64)
        self._random = np.random.default_rng(7)

    def write(self, writer: LogWriter, number: int) -> None:
        if number == 1:
            return self._upsert(writer, np.arange(self.keys), number)
        chosen = self._random.choice(self.keys, min(self.rows, self.keys), replace=False)
        deleted, updated = np.split(chosen, [int(len(chosen) * DELETED_SHARE)])
        deleted = deleted[self._versions[deleted] != _DELETED]
        if len(deleted):
            writer.delete(pa.record_batch([pa.array(deleted)], schema=KEY_SCHEMA))
            self._versions[deleted] = _DELETED
        return self._upsert(writer, updated, number)

    def expected(self) -> pa.RecordBatch:
        ids = np.flatnonzero(self._versions != _DELETED)
        return rows_of(ids, self._versions[ids])

    def _upsert(self, writer: LogWriter, ids: Numbers, number: int) -> None:
        batch = rows_of(ids, np.full(len(ids), number))
        writer.upsert(batch)
        self.plain_bytes += plain_bytes(batch, self.buckets, self.lake_format)
        self._versions[ids] = number
