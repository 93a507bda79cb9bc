"""The marker: the record inside a lake table of how far it is tiered, and its codec (DESIGN 6).

It travels in the snapshot that it describes. Keys in the snapshot's summary: `lakeward.round-id` (plain), and
`lakeward.marker` (JSON, version 1), `lakeward.marker.zst` (base64 of zstd of it) or `lakeward.marker.path`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiering.model import BucketKey


@dataclass(frozen=True)
class TieredRange:
    """Of one bucket: records `[start, tiered)` are in the lake."""

    start: int
    tiered: int


@dataclass(frozen=True)
class Marker:
    """Which rows of which table a lake table holds, and which round put the last of them there."""

    cluster_id: str
    table_id: int
    lake_table_uuid: str
    round_id: str
    tiering_epoch: int
    base_round_id: str | None
    buckets: Mapping[BucketKey, TieredRange]
