"""A Paimon table whose snapshot gets an id that a snapshot had before: a user rolls it back and commits again, while a statement runs."""

from __future__ import annotations

import pytest

from support.worlds.lake_world import LakeWorld
from sys_tables.offline import relations
from sys_tables.offline.relations import LakeTable, lake_table
from tiering.model.tables import TableInfo


class SnapshotIdReused:
    """A table that two rounds tiered. `has_happened`: another snapshot has the id of the second round's."""

    def __init__(self, world: LakeWorld, table: TableInfo) -> None:
        self.has_happened = False
        self._world, self._path = world, table.path
        world.append(table, 0, 4)
        world.tier(table)
        self._first = world.by_hand.head(table.path)
        world.append(table, 4, 4)
        world.tier(table)

    def before_the_lake_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lets it happen between the beginning of a statement's read and the engine's look at the lake."""

        def table_after_it(*arguments: object) -> LakeTable:
            if not self.has_happened:
                self._happen()
            return lake_table(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(relations, "lake_table", table_after_it)

    def _happen(self) -> None:
        lake, before = self._world.by_hand, self._world.by_hand.head(self._path)
        lake.roll_back(self._path, self._first)
        lake.append(self._path, lake.rows(self._path).slice(0, 1), {})
        assert lake.head(self._path) == before
        self.has_happened = True
