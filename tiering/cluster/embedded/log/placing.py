"""The buckets of the rows of an append. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tiering.cluster.embedded.log.bucketing import Bucketing, bucket_ids
from tiering.cluster.partition_names import BucketRows, rows_by_bucket
from tiering.model.tables import TableInfo


def place_rows(table: TableInfo, bucketing: Bucketing, batch: pa.RecordBatch, turn: int) -> list[BucketRows]:
    """Returns the rows of `batch` (not empty) split by partition, then by bucket.

    `turn` counts appends: it selects the bucket of a table without bucket keys. Raises InvalidData for a value that cannot be part of a
    partition's name.
    """
    count = table.bucket_count
    if bucketing is Bucketing.ROUND_ROBIN:
        ids = np.full(batch.num_rows, turn % count)
    else:
        ids = bucket_ids(batch, bucketing, table.bucket_keys, count) if count > 1 else np.zeros(batch.num_rows, dtype=np.int32)
    return rows_by_bucket(table, batch, ids)
