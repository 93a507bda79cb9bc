"""Commits of Fluss's own tiering to a Paimon table, written by pypaimon: the rows, offsets and properties of its snapshots."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa

from support.flink.flink_on_iceberg import FlinkOnIceberg
from support.lake_kinds.by_hand import PaimonByHand
from tiering.lake.base import FLUSS_COMMIT_USER


class FlinkByPypaimon(FlinkOnIceberg):
    """One round of the other service, to a table with system columns."""

    def append(self) -> FlinkByPypaimon:
        """On whatever the head is by now."""
        self.stated = dict(self.ends)
        rows = pa.concat_tables([self.spoil(self._changes(bucket)) for bucket in self.ends])
        properties = {"commit-user": FLUSS_COMMIT_USER, "fluss-offsets": self._write_offsets()}
        self._world.by_hand.append(self._table.path, rows, properties)
        return self

    def _write_offsets(self) -> str:
        assert isinstance(self._world.by_hand, PaimonByHand)
        folder = self._world.by_hand.folder(self._table.path) / "metadata"
        folder.mkdir(parents=True, exist_ok=True)
        self.offsets_file = file = Path(folder / f"{uuid.uuid4()}.offsets")
        self._write_stated(file)
        return f"file://{file}"
