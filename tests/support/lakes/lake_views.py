"""Views of lake tables built by hand, for the rules of the base check."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from sys_tables.registry import default_registry
from tiering import errors
from tiering.lake.base import LakeSnapshot, LakeView
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.rules.base_check import ExpectedLake, check_base
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TablePath

PATH = TablePath("sales", "orders")
B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
MARKER = Marker("cluster", 7, "uuid", "r2", 2, "r1", {B0: TieredRange(0, 20), B1: TieredRange(5, 9)})
KNOWN = ExpectedLake("cluster", 7, "uuid", None, ())
RECORDED = RecordedLakeSnapshot(2, {B0: 20, B1: 9})


def snapshot(number: int, parent: int | None, sequence: int | None = None, **more: str) -> LakeSnapshot:
    """One that appended; by default its number is its sequence number."""
    return LakeSnapshot(number, parent, number if sequence is None else sequence, datetime(2024, 1, 1, tzinfo=UTC), "append", **more)


def view(
    *snapshots: LakeSnapshot,
    head: int | None = 2,
    tiered: int | None = 2,
    marker: Marker | None = MARKER,
    reference: str | None = "tag lakeward-tiered",
) -> LakeView:
    """By default: r1 made snapshot 1, r2 made 2, which is the head and has the tag."""
    snapshots = snapshots or (snapshot(1, None, round_id="r1"), snapshot(2, 1, round_id="r2"))
    by_id = {version.snapshot_id: version for version in snapshots}
    return LakeView(PATH, "uuid", head, tiered, marker, by_id, reference=reference)


OURS = (snapshot(1, None, round_id="r1"), snapshot(2, 1, round_id="r2"))
EMPTY = LakeView(PATH, "uuid", None, None, None, {})


def refused(kind: type[errors.LakewardError], lake: LakeView | None, expected: ExpectedLake = KNOWN) -> errors.LakewardError:
    """The permanent error, whose hint names nothing that does not exist."""
    with pytest.raises(kind) as caught:
        check_base(lake, expected)
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, errors.PermanentTieringError)
    assert error.hint
    named = set(re.findall(r"CALL sys\.(\w+)", error.hint))
    assert named <= {procedure.name for procedure in default_registry().procedures}
    assert error.ids
    return error
