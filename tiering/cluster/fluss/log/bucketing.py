"""Computes the bucket of keys as Fluss's clients do, where the formula is known.

Fluss chooses the formula by the option `table.datalake.format` that a table has from its creation on. For `iceberg` it is Iceberg's bucket
transform of the only bucket key (docs/fluss-facts.md, lake layout). A client with another formula would not find its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tiering.lake.table_options import FORMAT
from tiering.library_guards.bucket_hash import bucket_ids_of
from tiering.model.tables import TableInfo

ICEBERG = "iceberg"

_KEY_TYPES = frozenset({pa.int32(), pa.int64(), pa.string(), pa.date32()})
"""Types of keys for which the formula was compared with the buckets of a real cluster."""


def key_buckets(table: TableInfo, keys: pa.RecordBatch) -> Sequence[int] | None:
    """Returns the bucket of each row of bucket keys (`KeyBuckets.key_buckets`); None for a table whose formula is unknown.

    From Fluss 1.0 on, partitions of a table may have different numbers of buckets, but not in a table with an Iceberg lake copy.
    """
    if table.partition_keys and not table.lake_enabled:
        return None
    if table.bucket_count == 1:
        return [0] * keys.num_rows
    if table.properties.get(FORMAT.name) != ICEBERG or len(table.bucket_keys) != 1 or keys.column(0).type not in _KEY_TYPES:
        return None
    ids: list[int] = bucket_ids_of(keys.column(0), table.bucket_count).tolist()
    return ids
