"""What the tables of a story hold by now: the model that lakes are compared with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from tiering.model.tables import TableInfo

NAMES = ("a", "b")
REGIONS = ("eu", "us", "asia")
COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False), pa.field("text", pa.string())]
)

Row = tuple[int, str, str | None]
"""id, region, text."""


@dataclass
class Model:
    """What a table holds by now, and what its lake may hold beside that."""

    info: TableInfo
    has_primary_key: bool
    partitioned: bool
    rows: dict[tuple[str, int], Row] = field(default_factory=dict)
    """By region and id."""
    former: Counter[Row] = field(default_factory=Counter)
    """Of dropped partitions: the lake keeps what was tiered of them, as it was then."""
    left_out: bool = False
    """Whether a reconciliation said that it leaves records out."""
