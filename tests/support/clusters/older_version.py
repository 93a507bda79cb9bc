"""A record of a version that did not check maps: it was acknowledged, and every KV state refuses it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tiering.cluster import rows as batches
from tiering.cluster.embedded.kv.primary_key_tables import PrimaryKeyTables
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.model.tables import TablePath

TWICE = [("a", 1), ("a", 2)]
"""A map with a key twice."""


def older_write(storage: EmbeddedStorage, path: TablePath, rows: pa.RecordBatch | pa.Table, sequence: int, *, applied: bool = True) -> None:
    """Upserts rows with such maps. `applied` False: the process ended before the state was to take them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "check_map_keys", lambda _: None)
        if not applied:
            patch.setattr(PrimaryKeyTables, "_apply", lambda *_: None)
        assert storage.upsert(path, rows, "older", sequence)
