"""Splits the rows of an append by partition and bucket, with one sort for any number of partitions. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.cluster.embedded.log.bucketing import Bucketing, bucket_ids
from tiering.cluster.partition_names import partition_values
from tiering.model.tables import PARTITION_SEPARATOR, TableInfo


@dataclass(frozen=True)
class BucketRows:
    """Rows of one bucket, in their order. The partition is given by name only, because it may not exist yet."""

    partition_name: str | None
    bucket_id: int
    rows: pa.RecordBatch


def place_rows(table: TableInfo, bucketing: Bucketing, batch: pa.RecordBatch, turn: int) -> list[BucketRows]:
    """Returns the rows of `batch` (not empty) split by partition, then by bucket.

    `turn` counts appends: it selects the bucket of a table without bucket keys. Raises InvalidData for a value that cannot be part of a
    partition's name.
    """
    count = table.bucket_count
    groups, names = _partition_of_rows(table, batch)
    if bucketing is Bucketing.ROUND_ROBIN:
        places = groups * count + turn % count
    else:
        hashed = bucket_ids(batch, bucketing, table.bucket_keys, count) if count > 1 else np.zeros(batch.num_rows, dtype=np.int32)
        places = groups * count + hashed
    occupied, sizes = np.unique(places, return_counts=True)
    if len(occupied) == 1:
        return [BucketRows(names[int(occupied[0]) // count], int(occupied[0]) % count, batch)]
    ordered = batch.take(np.argsort(places, kind="stable"))
    starts = np.cumsum(sizes) - sizes
    return [
        BucketRows(names[int(place) // count], int(place) % count, ordered.slice(int(start), int(size)))
        for place, start, size in zip(occupied, starts, sizes, strict=True)
    ]


def _partition_of_rows(table: TableInfo, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[str | None]]:
    """Returns for each row the number of its partition among `names`, which are in the order of their values."""
    if not table.partition_keys:
        return np.zeros(batch.num_rows, dtype=np.int64), [None]
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    names: list[str] = [""]
    for position, column in enumerate(table.partition_keys):
        own_codes, values = _encode(batch.column(column))
        texts = partition_values(column, values)
        combined, codes = np.unique(codes * len(texts) + own_codes, return_inverse=True)
        prefixes = [f"{name}{PARTITION_SEPARATOR}" if position else "" for name in names]
        names = [prefixes[int(pair) // len(texts)] + texts[int(pair) % len(texts)] for pair in combined]
    return codes.astype(np.int64), list(names)


def _encode(column: pa.Array[Any]) -> tuple[npt.NDArray[np.int64], pa.Array[Any]]:
    encoded = column.dictionary_encode()
    # Sorted, so that the same rows are split in the same order, independent of their order in the batch.
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    codes: npt.NDArray[np.int64] = rank[encoded.indices.to_numpy()]
    return codes, encoded.dictionary.take(pa.array(order))
