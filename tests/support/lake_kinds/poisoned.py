"""A table with a record that no lake can hold, and the CALL that leaves it out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.lake_kinds.kinds import LakeKind
from support.worlds.lake_world import LakeWorld
from tiering.lake.writing import fitting
from tiering.model.refused_records import UnwritableRow
from tiering.model.tables import CHANGE_TYPE_COLUMN, BucketKey, ChangeType, TableInfo
from tiering.procedures.skip_record import SkipRecord, SkipRecordResult

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
POISON = "poison"
"""A text that no lake can hold once `refuse_poison` was called."""


def refuse_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lakes refuse records with the text POISON, until the patch is undone."""
    fitted = fitting._fitted

    def refusing(batch: pa.RecordBatch, *more: Any) -> pa.RecordBatch:
        if "text" not in batch.schema.names:  # the batch is of another table
            return fitted(batch, *more)
        texts = np.array(batch.column("text").to_pylist(), dtype=object)
        if CHANGE_TYPE_COLUMN in batch.schema.names:
            texts[np.isin(batch.column(CHANGE_TYPE_COLUMN).to_numpy(), (ChangeType.UPDATE_BEFORE, ChangeType.DELETE))] = None
        places = np.flatnonzero(texts == POISON)
        if len(places):
            raise UnwritableRow(int(places[0]), "text", "is poison")
        return fitted(batch, *more)

    monkeypatch.setattr(fitting, "_fitted", refusing)


class Poisoned:
    """A table of a few buckets in a kind of lake, in which rows are written by id and text."""

    def __init__(
        self,
        folder: Path,
        kind: LakeKind,
        *,
        has_key: bool,
        partitioned: bool = False,
        buckets: int = 2,
        options: Mapping[str, str] | None = None,
        world: LakeWorld | None = None,
    ) -> None:
        self.world = LakeWorld(folder, kind=kind) if world is None else world
        self.world.lake_options = {**self.world.lake_options, **(options or {})}
        self.has_key = has_key
        schema = pa.schema([*SCHEMA, pa.field("region", pa.string(), nullable=False)]) if partitioned else SCHEMA
        partitions = ("region",) if partitioned else ()
        if has_key:
            self.table: TableInfo = self.world.primary_key_table("orders", buckets, schema, (*partitions, "id"), partitions)
        else:
            self.table = self.world.table("orders", buckets, partitions, schema, bucket_keys=("id",))
        self.sequence = 0

    def write(self, *rows: tuple[int, str]) -> None:
        values: dict[str, Any] = {"id": [number for number, _ in rows], "text": [text for _, text in rows]}
        if self.table.partition_keys:
            values["region"] = ["eu"] * len(rows)
        storage, self.sequence = self.world.storage, self.sequence + 1
        write = storage.upsert if self.has_key else storage.append
        write(self.table.path, pa.table(values, schema=self.table.schema), "test", self.sequence)

    def delete(self, number: int) -> None:
        """Deletes the row of a key."""
        self.sequence += 1
        keys = pa.schema([self.table.schema.field(name) for name in self.table.primary_key])
        self.world.storage.delete(self.table.path, pa.table({"id": [number]}, schema=keys), "test", self.sequence)

    def in_lake(self) -> dict[int, str]:
        rows = self.world.by_hand.rows(self.table.path).to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["text"] for row in rows}

    def skip(self, outcome: Any, **changes: Any) -> SkipRecordResult:
        ids = outcome.error.ids
        call = SkipRecord(
            self.table.path,
            **{
                "bucket_id": BucketKey.parse(ids["bucket"]).bucket_id,
                "offset": int(ids["offset"]),
                "partition": ids.get("partition_name"),
                "caller": "ann",
                "reason": "a test",
                **changes,
            },
        )
        return asyncio.run(self.world.coordinator.control.perform(call))
