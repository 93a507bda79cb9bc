"""What the tables of a story hold by now: the model that lakes are compared with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from support.values.any_values import bits
from support.worlds.stories.odd_values import OddValues
from tiering.model.tables import TableInfo

NAMES = ("a", "b")
REGIONS = ("eu", "us", "asia")
COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False), pa.field("text", pa.string())]
)

Row = tuple[Any, ...]
"""Values of the columns, bit by bit: id, region and text but for tables of odd values."""


@dataclass
class Model:
    """What a table holds by now, and what its lake may hold beside that."""

    info: TableInfo
    has_primary_key: bool
    partitioned: bool
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    """By region and id, or by what else the key is."""
    former: Counter[Row] = field(default_factory=Counter)
    """Of dropped partitions: the lake keeps what was tiered of them, as it was then."""
    lost_partition: bool = False
    """Whether a partition was dropped."""
    left_out: bool = False
    """Whether a reconciliation said that it leaves records out."""
    foreign: Counter[Row] = field(default_factory=Counter)
    """What others wrote into the lake table by hand."""
    removed: Counter[Row] = field(default_factory=Counter)
    """What others deleted from the lake table."""
    archived: set[tuple[str, int]] = field(default_factory=set)
    """Region and id of rows of dropped partitions that were in the lake when somebody else changed its table."""
    odd_values: OddValues | None = None
    """What its rows are drawn from, if it is a table of such."""

    @property
    def columns(self) -> pa.Schema:
        """Those that are compared; others may have been added."""
        return COLUMNS if self.odd_values is None else self.odd_values.schema

    def rows_of(self, table: pa.Table) -> list[Row]:
        """What a table of Arrow holds in these columns; a column that is not there is full of NULLs."""
        values = []
        for column in self.columns:
            stored = table.column(column.name) if column.name in table.column_names else pa.nulls(table.num_rows, column.type)
            values.append(
                bits(
                    pa.chunked_array(
                        [stored.cast(column.type)] if isinstance(stored, pa.Array) else stored.cast(column.type).chunks, column.type
                    ).combine_chunks()
                )
            )
        return [row if self.odd_values is None else tuple(map(repr, row)) for row in zip(*values, strict=True)]

    @property
    def changed_by_hand(self) -> bool:
        """Whether others changed rows of the lake: then lake and log rightly differ."""
        return bool(self.foreign or self.removed)
