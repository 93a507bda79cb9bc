"""Data files of a Paimon table, whoever wrote them: one that was changed since is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

import pyarrow as pa
import pyarrow.parquet as pq

from tiering.lake.outside_errors import damaged_file, is_damage
from tiering.lake.paimon.storage.base import Storage


@contextmanager
def open_data_file(storage: Storage, path: PurePath) -> Iterator[pq.ParquetFile]:
    """The open file. Raises DataCorrupt over bytes that are no Parquet, also while it is read; what the storage raises passes."""
    try:
        with storage.opened_file(path) as source, pq.ParquetFile(source) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        if is_damage(error):
            raise damaged_file(storage.location(path), error) from error
        raise
