"""Primary-key tables, tiered by real rounds under a real coordinator, against a dict that was told the same changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.background import tick
from support.running.processes import wait_for
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.round.steps import actions as act
from tiering.validate.results import Level
from tiering.validate.run import validate

Model = dict[int, str | None]


class TieredPrimaryKeyTable:
    """One table, and what its rows must be."""

    def __init__(self, folder: Path) -> None:
        self.world = LakeWorld(folder)
        self.table: TableInfo = self.world.primary_key_table("planes", log_ttl="1 s")
        self.rows: Model = {}
        self._sequence = 0

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def upsert(self, rows: Model) -> None:
        data = pa.table({"id": list(rows), "text": list(rows.values())}, schema=PRIMARY_KEY_SCHEMA)
        self.world.storage.upsert(self.table.path, data, "test", self._next())
        self.rows |= rows

    def delete(self, keys: list[int]) -> None:
        data = pa.table({"id": pa.array(keys, pa.int64())}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")]))
        self.world.storage.delete(self.table.path, data, "test", self._next())
        for key in keys:
            self.rows.pop(key, None)

    def snapshot(self) -> None:
        self.world.storage.take_kv_snapshots(self.table.path)

    def tier(self) -> RoundState:
        return self.world.tier(self.table).state

    def lake(self) -> list[tuple[int, str | None]]:
        view = self.world.lake.view(self.table.path)
        if view is None:
            return []
        rows = self.world.iceberg(self.table).scan().to_arrow()
        return sorted(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True))

    def check(self) -> None:
        """The lake has each key once, with its newest row; DuckDB, which reads the files itself, finds the same."""
        assert self.lake() == sorted(self.rows.items())
        if self.world.lake.view(self.table.path) is not None:
            results = validate(self.world.storage, self.world.lake, self.table.path, Level.ROWS)
            assert not [result for result in results if result.ok is False], results


@pytest.fixture
def tiered_table(tmp_path: Path) -> Iterator[TieredPrimaryKeyTable]:
    world = TieredPrimaryKeyTable(tmp_path)
    yield world
    world.world.close()


def test_inserts_updates_deletes_and_what_comes_back(tiered_table: TieredPrimaryKeyTable) -> None:
    tiered_table.upsert({key: f"row {key}" for key in range(20)})
    assert tiered_table.tier() is RoundState.SUCCEEDED
    tiered_table.check()
    tiered_table.upsert({3: "changed", 4: None, 50: "new"})
    tiered_table.delete([1, 2, 99])
    tiered_table.tier()
    tiered_table.check()
    tiered_table.upsert({1: "back", 2: "back"})
    tiered_table.upsert({1: "and changed"})
    tiered_table.delete([2])
    tiered_table.tier()
    tiered_table.check()
    assert tiered_table.tier() is RoundState.EMPTY


def test_a_first_round_begins_with_the_kv_snapshot_and_goes_on_in_the_log(tiered_table: TieredPrimaryKeyTable) -> None:
    tiered_table.upsert({key: f"row {key}" for key in range(20)})
    tiered_table.delete([7])
    tiered_table.snapshot()
    tiered_table.upsert({3: "after the snapshot"})
    tiered_table.delete([4])
    assert tiered_table.tier() is RoundState.SUCCEEDED
    tiered_table.check()
    rows = tiered_table.world.iceberg(tiered_table.table).scan().to_arrow()
    offsets = dict(zip(rows["id"].to_pylist(), rows["__offset"].to_pylist(), strict=True))
    assert offsets[5] == -1
    assert offsets[3] > 0
    tiered_table.upsert({5: "changed in a later round"})
    tiered_table.tier()
    tiered_table.check()


def test_snapshots_are_leased_while_the_round_reads_and_free_afterwards(tiered_table: TieredPrimaryKeyTable) -> None:
    tiered_table.upsert(dict.fromkeys(range(10), "x"))
    tiered_table.snapshot()
    tiered_table.tier()
    tiered_table.check()
    wait_for("the lease to be released", lambda: not tiered_table.world.storage.leases())


def test_a_snapshot_that_goes_while_it_is_read_fails_the_round_and_the_next_one_plans_afresh(tiered_table: TieredPrimaryKeyTable) -> None:
    tiered_table.upsert(dict.fromkeys(range(10), "x"))
    tiered_table.snapshot()
    tiered_table.world.due()
    begun = tiered_table.world.begin(tiered_table.table).advance_to(act.RunSplits)
    for lease in tiered_table.world.storage.leases():
        tiered_table.world.storage.drop_lease(lease.lease_id)
    for key in range(3):
        tiered_table.upsert({key: "newer"})
        tiered_table.snapshot()
    outcome = begun.end()
    assert outcome.error is not None
    assert (outcome.state, outcome.error.error_class) == (RoundState.FAILED, "KvSnapshotGone")
    tiered_table.world.clock.advance(600)
    tick(tiered_table.world.coordinator)
    assert tiered_table.world.begin(tiered_table.table).end().state is RoundState.SUCCEEDED
    tiered_table.check()


def test_keys_of_several_columns_and_rows_that_are_only_keys(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    fields = [pa.field("line", pa.string(), nullable=False), pa.field("stop", pa.int32(), nullable=False)]
    table = world.primary_key_table("stops", schema=pa.schema(fields), key=("line", "stop"))

    def rows(*keys: tuple[str, int]) -> pa.Table:
        return pa.table({"line": [line for line, _ in keys], "stop": [stop for _, stop in keys]}, schema=pa.schema(fields))

    def lake() -> list[tuple[str, int]]:
        world.due()
        assert world.begin(table).end().state is RoundState.SUCCEEDED
        lake_rows = world.iceberg(table).scan().to_arrow()
        return sorted(zip(lake_rows["line"].to_pylist(), lake_rows["stop"].to_pylist(), strict=True))

    world.storage.upsert(table.path, rows(("a", 1), ("a", 2), ("", -5), ("é", 1)), "w", 0)
    assert lake() == [("", -5), ("a", 1), ("a", 2), ("é", 1)]
    world.storage.delete(table.path, rows(("a", 1), ("", -5)), "w", 1)
    world.storage.upsert(table.path, rows(("", -5), ("a", 3)), "w", 2)
    assert lake() == [("", -5), ("a", 2), ("a", 3), ("é", 1)]
    world.close()
