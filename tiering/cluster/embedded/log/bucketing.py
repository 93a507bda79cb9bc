"""The formulas that assign rows to buckets.

- `round-robin`: no bucket key; each append as a whole goes to the next bucket.
- `iceberg`: one bucket key; Iceberg's bucket transform (spec, appendix B: murmur3), so that the bucket id equals the partition value
  `bucket(n, key)` of the lake table.
- `paimon`: bucket keys of a table with the lake format Paimon; Paimon's hash of all of them (`lake.writing.paimon_bucket_hash`), so that
  the bucket id equals the bucket of the lake table.
- `combined-v1`: several bucket keys; Iceberg's hashes of them, combined (`library_guards.bucket_hash.combined_bucket_ids`).

The name of the formula is stored with the table: a later formula gets a new name, and existing tables keep theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.lake.writing.paimon_bucket_hash import bucket_ids_of as paimon_bucket_ids
from tiering.library_guards.bucket_hash import bucket_ids_of, combined_bucket_ids
from tiering.model.tables import TableInfo


class Bucketing(StrEnum):
    """The formulas, with their stored names."""

    ROUND_ROBIN = "round-robin"
    ICEBERG = "iceberg"
    COMBINED_V1 = "combined-v1"
    PAIMON = "paimon"


def bucketing_for(bucket_keys: Sequence[str], lake_format: str) -> Bucketing:
    """Returns the formula of a new table."""
    if bucket_keys and lake_format == Bucketing.PAIMON:
        return Bucketing.PAIMON
    return (Bucketing.ROUND_ROBIN, Bucketing.ICEBERG)[len(bucket_keys)] if len(bucket_keys) < 2 else Bucketing.COMBINED_V1


def bucket_ids(batch: pa.RecordBatch, bucketing: Bucketing, bucket_keys: Sequence[str], bucket_count: int) -> npt.NDArray[np.int32]:
    """Returns the bucket of each row. The keys have no nulls, because key columns are NOT NULL and were checked."""
    if bucketing is Bucketing.PAIMON:
        return paimon_bucket_ids([batch.column(name) for name in bucket_keys], bucket_count)
    if bucketing is Bucketing.ICEBERG:
        return bucket_ids_of(batch.column(bucket_keys[0]), bucket_count)
    return combined_bucket_ids([batch.column(name) for name in bucket_keys], bucket_count)


def key_buckets(table: TableInfo, keys: pa.RecordBatch) -> Sequence[int]:
    """Returns the bucket of each row of bucket keys (`KeyBuckets.key_buckets`).

    The formula follows from the description, because the lake format of a table with several buckets cannot change to or from Paimon.
    """
    if table.bucket_count == 1:
        return [0] * keys.num_rows
    ids: list[int] = bucket_ids(keys, bucketing_for(table.bucket_keys, table.lake_format), table.bucket_keys, table.bucket_count).tolist()
    return ids
