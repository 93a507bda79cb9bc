"""The expected contents of a story's tables: the model with which lakes are compared."""

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
    """Expected rows of a table, and the other rows that its lake may have."""

    info: TableInfo
    has_primary_key: bool
    partitioned: bool
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    """By region and id, or by what else the key is."""
    former: Counter[Row] = field(default_factory=Counter)
    """Rows of dropped partitions: the lake keeps their tiered rows as they were then."""
    lost_partition: bool = False
    """Whether a partition was dropped."""
    left_out: bool = False
    """Whether a reconciliation said that it leaves records out."""
    foreign: Counter[Row] = field(default_factory=Counter)
    """Rows that users wrote into the lake table by hand."""
    removed: Counter[Row] = field(default_factory=Counter)
    """Rows that users deleted from the lake table."""
    archived: set[tuple[str, int]] = field(default_factory=set)
    """Region and id of rows of dropped partitions that were in the lake when another program changed its table."""
    odd_values: OddValues | None = None
    """Values from which its rows are drawn, if it is a table of odd values."""

    @property
    def columns(self) -> pa.Schema:
        """Columns that are compared; users may have added others."""
        return COLUMNS if self.odd_values is None else self.odd_values.schema

    def rows_of(self, table: pa.Table) -> list[Row]:
        """Returns the rows of an Arrow table in these columns; a missing column is full of NULLs."""
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
