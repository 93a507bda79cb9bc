"""The contents of a Paimon table's folder: its schemas, snapshots and data files, as plain values."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


@dataclass(frozen=True)
class PaimonFolder:
    """One table of a filesystem catalog."""

    path: Path

    @classmethod
    def of(cls, warehouse: Path, database: str, table: str) -> PaimonFolder:
        return cls(warehouse / f"{database}.db" / table)

    def schemas(self) -> list[dict[str, Any]]:
        """Oldest first."""
        return self._numbered("schema")

    def columns(self) -> list[tuple[int, str, Any]]:
        """Id, name and type of the newest schema's columns."""
        return [(field["id"], field["name"], field["type"]) for field in self.schemas()[-1]["fields"]]

    def options(self) -> dict[str, str]:
        """Options of the newest schema."""
        return dict(self.schemas()[-1]["options"])

    def snapshots(self) -> list[dict[str, Any]]:
        """Oldest first."""
        return self._numbered("snapshot")

    def roll_back(self, snapshot_id: int) -> None:
        """Rolls back as Paimon does: later snapshots are deleted, and the next commit reuses their ids."""
        for snapshot in self.snapshots():
            if snapshot["id"] > snapshot_id:
                (self.path / "snapshot" / f"snapshot-{snapshot['id']}").unlink()
        (self.path / "snapshot" / "LATEST").write_text(str(snapshot_id))

    def rows(self, pattern: str) -> dict[str, list[dict[str, Any]]]:
        """Rows of the files whose path matches, by folder; files of a folder by age."""
        files = sorted(self.path.glob(pattern), key=lambda file: file.stat().st_mtime_ns)
        rows: dict[str, list[dict[str, Any]]] = {}
        for file in files:
            rows.setdefault(str(file.parent.relative_to(self.path)), []).extend(pq.ParquetFile(file).read().to_pylist())
        return rows

    def _numbered(self, kind: str) -> list[dict[str, Any]]:
        files = sorted((self.path / kind).glob(f"{kind}-*"), key=lambda file: int(file.name.rpartition("-")[2]))
        return [json.loads(file.read_text()) for file in files]


LakeTable = Callable[[str], PaimonFolder]
"""The folder of a table by its name."""
