"""The state of a Paimon table that its writers need, in any process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

import pyarrow as pa

from tiering.lake.layouts import Layout
from tiering.lake.paimon.storage.base import Storage
from tiering.lake.paimon.storage.local import LOCAL
from tiering.lake.paimon.writing.parquet_files import TARGET_FILE_BYTES


@dataclass(frozen=True)
class TableState:
    """The facts about a lake table that a writer needs, as plain values."""

    table_uuid: str
    root: PurePath
    schema_id: int
    columns: pa.Schema
    partition_keys: tuple[str, ...]
    bucket_keys: tuple[str, ...]
    total_buckets: int
    primary_key: tuple[str, ...] = ()
    """The key by which Paimon sorts: without the partition columns."""
    layout: Layout = Layout.SYSTEM_COLUMNS
    is_followed: bool = False
    """Whether all changes are written in addition to the last change of each key."""
    storage: Storage = LOCAL
    target_bytes: int = TARGET_FILE_BYTES
    """Size at which a data file ends."""
