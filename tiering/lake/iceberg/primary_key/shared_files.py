"""Finds the rows of one bucket in files that hold rows of several, by the hash of their bucket keys.

Only a table with several bucket keys has such files. Every written row is checked for this hash (`writing.row_places`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.types import NestedField

from tiering.lake.iceberg.primary_key.bucket_files import LiveFile
from tiering.lake.iceberg.primary_key.parquet_files import key_rows, open_parquet
from tiering.lake.writing.keys import Mask
from tiering.library_guards.bucket_hash import combined_bucket_ids


def rows_of_bucket(
    io: FileIO, files: Iterable[LiveFile], bucket_keys: Sequence[NestedField], bucket_count: int, bucket_id: int
) -> dict[str, Mask]:
    """Returns by file which rows belong to the bucket, including deleted ones. Files without such rows are left out."""
    rows: dict[str, Mask] = {}
    for file in files:
        mask = np.zeros(file.records, dtype=bool)
        with open_parquet(io, file) as parquet:
            for keys in key_rows(parquet, 0, bucket_keys, None):
                ids = combined_bucket_ids(keys.keys, bucket_count)
                mask[keys.first : keys.first + len(ids)] = ids == bucket_id
        if mask.any():
            rows[file.location] = mask
    return rows
