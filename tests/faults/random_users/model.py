"""The model of a table: the rows that users wrote, their changes of the lake table, and the rows that readers of the lake may therefore
see."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.lake_kinds.kinds import LakeKind
from tiering.model.tables import TablePath

REGIONS = ("eu", "us", "asia")
KEYS = range(12)
"""Keys of primary-key tables: few, so that rows are changed and deleted."""
MOST_ROWS = 9

Row = dict[str, Any]
Values = tuple[Any, ...]


@dataclass
class Table:
    """A source table by what was acknowledged."""

    path: TablePath
    kind: LakeKind
    has_primary_key: bool
    partitioned: bool
    added_columns: list[str] = field(default_factory=list)
    rows: dict[tuple[str, int], Row] = field(default_factory=dict)
    """By partition, or "", and id."""
    former: list[Row] = field(default_factory=list)
    """Every row that was ever written: those of a dropped partition stay in the lake as they were tiered."""
    dropped_partition: bool = False
    removed: list[Row] = field(default_factory=list)
    """Rows that a user deleted in the lake alone; a table that is tiered again has them again."""
    is_harmed: bool = False
    """Whether a user did something to the lake table that needs mending."""
    left_out: int | None = 0
    """How many records the CALLs said that they leave out; None if they could not tell."""
    is_unsure: bool = False
    """Whether a user's change of the lake overlapped with a round's: then it is unknown which rows the user saw."""

    @property
    def columns(self) -> tuple[str, ...]:
        return ("id", "region", "text", *self.added_columns)

    @property
    def keys(self) -> tuple[str, ...]:
        if not self.has_primary_key:
            return ()
        return ("region", "id") if self.partitioned else ("id",)

    def new_rows(self, rng: random.Random, number: int) -> list[Row]:
        """Rows to write; `number` is of this write alone."""
        count = rng.randrange(1, MOST_ROWS)
        ids: Sequence[int] = rng.sample(KEYS, count) if self.has_primary_key else range(number * 100, number * 100 + count)
        return [self._new_row(rng, identity, number) for identity in ids]

    def _new_row(self, rng: random.Random, identity: int, number: int) -> Row:
        row: Row = {"id": identity, "region": rng.choice(REGIONS), "text": rng.choice((f"text {number}", f"text {number}, again", None))}
        return row | {name: rng.choice((f"{name} {number}", None)) for name in self.added_columns}

    def place(self, row: Mapping[str, Any]) -> tuple[str, int]:
        """Which row it replaces."""
        return (row["region"] if self.partitioned and self.has_primary_key else "", row["id"])

    def write(self, rows: Sequence[Row]) -> None:
        """Records that these rows were acknowledged."""
        for row in rows:
            self.rows[self.place(row)] = row
            self.former.append(row)
        written = {self.place(row) for row in rows}
        if self.has_primary_key:
            self.removed = [row for row in self.removed if self.place(row) not in written]

    def delete(self, keys: Sequence[Row]) -> None:
        """Records that the rows with these keys were deleted."""
        for key in keys:
            self.rows.pop(self.place(key), None)

    def drop_partition(self, region: str) -> None:
        """Records that the partition's rows left the source. The lake keeps them."""
        self.dropped_partition = True
        self.rows = {place: row for place, row in self.rows.items() if row["region"] != region}

    def values(self, row: Mapping[str, Any]) -> Values:
        return tuple(row.get(name) for name in self.columns)

    def differences(self, lake: Sequence[Row]) -> list[str]:
        """How the lake's rows differ from what they may be; empty when they do not."""
        if self.is_unsure:
            return []
        held = Counter(map(self.values, lake))
        expected = Counter(map(self.values, self.rows.values()))
        lacking = expected - held - Counter(map(self.values, self.removed))
        beside = held - expected
        faults = []
        if self.left_out is not None and sum(lacking.values()) > self.left_out:
            faults.append(f"{self.path}: the lake lacks {sorted(lacking.items(), key=repr)}, and {self.left_out} were said to be left out")
        if beside and not self.dropped_partition and not (self.has_primary_key and self.left_out != 0):
            faults.append(f"{self.path}: the lake has beside the table's rows {sorted(beside.items(), key=repr)}")
        if strangers := held - Counter(map(self.values, self.former)):
            faults.append(f"{self.path}: no user wrote so often {sorted(strangers.items(), key=repr)}")
        return faults
