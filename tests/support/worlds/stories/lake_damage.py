"""Faults of a story: what others do to lake tables by hand, through the lake's catalog."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
from pyiceberg.table import Table

from support.worlds.stories.model import Model, Row
from support.worlds.stories.parts import StoryParts
from tiering.errors import LakewardError
from tiering.lake.rules.history import is_undecided
from tiering.model.tables import TablePath

FOREIGN_IDS = 1_000_000
"""From here on: of rows that others wrote, and their offsets."""


class LakeDamage(StoryParts):
    """Each returns what it did, or None where there was nothing to do it to."""

    def lake_table(self, model: Model | None = None) -> Model | None:
        """Some table that has a lake table which tools of others can read."""
        model = model or self.pick()
        return model if not self.lake_is_damaged and self.world.by_hand.exists(model.info.path) else None

    @property
    def lake_is_damaged(self) -> bool:
        """Whether files of the lake are not what they were."""
        return False

    def plain_lake_table(self, model: Model | None = None) -> Model | None:
        """Returns a table with an unchanged column `text`; None if there is none."""
        model = self.lake_table(model)
        if model is None or model.odd_values is not None:
            return None
        return model if "text" in self.world.by_hand.rows(model.info.path).column_names else None

    def drop_lake_table(self) -> str | None:
        if (model := self.lake_table()) is None:
            return None
        self.world.by_hand.drop(model.info.path)
        return f"{model.info.path}"

    def rename_lake_table(self) -> str | None:
        if (model := self.lake_table()) is None:
            return None
        self.world.by_hand.rename(model.info.path, f"former-{next(self.numbers)}")
        return f"{model.info.path}"

    def recreate_lake_table(self) -> str | None:
        """By Lakeward of some other deployment: the same columns, no rows."""
        if (model := self.lake_table()) is None:
            return None
        self.world.by_hand.drop(model.info.path)
        self.world.lake.ensure_table(self.world.storage.table(model.info.path))
        return f"{model.info.path}"

    def replace_with_another_schema(self) -> str | None:
        """Replaces the lake table by another user's table with that name."""
        if (model := self.lake_table()) is None:
            return None
        path, by_hand = model.info.path, self.world.by_hand
        by_hand.drop(path)
        by_hand.create(path, pa.schema([pa.field("word", pa.string())]))
        return f"{path}"

    def roll_back(self) -> str | None:
        """Rolls back. At times a user then compacts the table and expires its snapshots, so that no parent of the head is left."""
        if (model := self.lake_table()) is None or (former := self.world.by_hand.former_head(model.info.path)) is None:
            return None
        self.world.by_hand.roll_back(model.info.path, former)
        if self.rng.random() < 0.5 or self.compact(model) is None:
            return f"{model.info.path}"
        return f"{self._expire(model)}, behind a compaction"

    def remove_tags(self) -> str | None:
        if (model := self.lake_table()) is None or self.world.lake_format != "iceberg":
            return None
        table = self.world.iceberg_catalog().load_table(str(model.info.path))
        return f"{model.info.path}" if _untag(table) else None

    def expire(self) -> str | None:
        if (model := self.lake_table()) is None or len(self.world.by_hand.snapshots(model.info.path)) < 2:
            return None
        return self._expire(model)

    def expire_behind_a_compaction(self) -> str | None:
        """The chain of parents between the head and the marker is cut."""
        if (model := self.lake_table()) is None or self.compact(model) is None or self.compact(model) is None:
            return None
        return self._expire(model)

    def _expire(self, model: Model) -> str:
        """At times nothing tells afterwards from which snapshots the head descends. Else expiry leaves the base check as sure as it was."""
        path, by_hand = model.info.path, self.world.by_hand
        was_sure = self._is_sure(path)
        by_hand.expire(path)
        if self.rng.random() < 0.5:
            by_hand.forget_history(path)
            return f"{path}, and its former metadata is deleted"
        assert not was_sure or self._is_sure(path) in (True, None), f"{path}: nothing tells whether it was rolled back"
        return f"{path}"

    def _is_sure(self, path: TablePath) -> bool | None:
        """Whether the base check is; None: the lake table cannot be read now."""
        try:
            view = self.world.lake.view(path)
        except LakewardError:
            return None
        return view is not None and not is_undecided(view)

    def compact(self, model: Model | None = None) -> str | None:
        if (model := self.lake_table(model)) is None or not self.world.by_hand.line(model.info.path):
            return None
        if model.odd_values is not None and self.has_values_shown_wrong:
            return None  # what their tools show wrong they would write wrong, or not at all; a lake table may be of a former source table
        self.world.by_hand.rewrite(model.info.path)
        return f"{model.info.path}"

    def append_by_hand(self, model: Model | None = None) -> str | None:
        if (model := self.plain_lake_table(model)) is None:
            return None
        number = FOREIGN_IDS + next(self.numbers)
        row: Row = (number, "us", "by hand")
        system = {"__bucket": 0, "__offset": number, "__timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
        columns = dict(zip(("id", "region", "text"), row, strict=True)) | system
        self.world.by_hand.append(model.info.path, pa.Table.from_pylist([columns]), {})
        model.foreign[row] += 1
        return f"{model.info.path} {row}"

    def delete_by_hand(self, model: Model | None = None) -> str | None:
        if (model := self.plain_lake_table(model)) is None or not self.world.by_hand.line(path := model.info.path):
            return None
        by_hand = self.world.by_hand
        ids = by_hand.rows(path)["id"].to_pylist()
        if not ids:
            return None
        victim = self.rng.choice(sorted(ids))
        for row in by_hand.rows(path).to_pylist():
            if row["id"] == victim:
                model.removed[row["id"], row["region"], row["text"]] += 1
        by_hand.delete(path, "id", victim)
        return f"{path} {victim}"

    def keys_in_lake(self, model: Model) -> set[tuple[str, int]]:
        """Region and id of the rows of a lake table that can be read; none of one with other columns."""
        if self.lake_table(model) is None or not {"region", "id"} <= set((rows := self.world.by_hand.rows(model.info.path)).column_names):
            return set()
        return set(zip(rows["region"].to_pylist(), rows["id"].to_pylist(), strict=True))

    def drop_lake_column(self, model: Model | None = None) -> str | None:
        if (model := self.plain_lake_table(model)) is None:
            return None
        self.world.by_hand.drop_column(model.info.path, "text")
        return f"{model.info.path} text"

    def rename_lake_column(self) -> str | None:
        if (model := self.plain_lake_table()) is None:
            return None
        self.world.by_hand.rename_column(model.info.path, "text", "words")
        return f"{model.info.path} text"


def _untag(table: Table) -> bool:
    tags = table.metadata.refs.keys() - {"main"}
    for tag in tags:
        table.manage_snapshots().remove_tag(tag).commit()
    return bool(tags)
