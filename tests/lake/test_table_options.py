"""The options of a table: how their values are read, on the embedded cluster and on Fluss, and which values are refused."""

from __future__ import annotations

import pytest

from support.lakes.lake_kit import LakeKit
from tiering.cluster.fluss.table_json import with_options
from tiering.cluster.table_option_checks import described
from tiering.errors import InvalidArgument
from tiering.lake.table_options import (
    AUTO_EXPIRE,
    ROUND_BYTES,
    SNAPSHOT_MAX_AGE,
    SNAPSHOT_MIN_COUNT,
    TABLE_OPTIONS,
    snapshot_retention,
)
from tiering.model.tables import SnapshotRetention

DAY = 86_400_000


def test_the_embedded_cluster_expires_snapshots_and_fluss_only_where_its_option_says_so(kit: LakeKit) -> None:
    assert described(kit.table(), {}).snapshot_retention == SnapshotRetention(DAY, 10)
    assert described(kit.table(), {AUTO_EXPIRE.name: "false"}).snapshot_retention is None
    assert with_options(kit.table(), {}).snapshot_retention is None
    expires = {AUTO_EXPIRE.name: "true"}
    assert with_options(kit.table(), {**expires, SNAPSHOT_MIN_COUNT.name: "3"}).snapshot_retention == SnapshotRetention(DAY, 3)
    assert with_options(kit.table(), {**expires, SNAPSHOT_MIN_COUNT.name: "three"}).snapshot_retention is None


def test_ages_and_counts_are_read() -> None:
    options = {SNAPSHOT_MAX_AGE.name: "2 h", SNAPSHOT_MIN_COUNT.name: "7"}
    assert snapshot_retention(options) == SnapshotRetention(7_200_000, 7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (AUTO_EXPIRE.name, "perhaps"),
        (SNAPSHOT_MAX_AGE.name, "59 s"),
        (SNAPSHOT_MAX_AGE.name, "soon"),
        (SNAPSHOT_MAX_AGE.name, "11000 d"),
        (SNAPSHOT_MIN_COUNT.name, "0"),
        (SNAPSHOT_MIN_COUNT.name, "-1"),
        (SNAPSHOT_MIN_COUNT.name, "100001"),
        (SNAPSHOT_MIN_COUNT.name, "1e3"),
    ],
)
def test_other_values_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        TABLE_OPTIONS[name].of({name: value})


@pytest.mark.parametrize(
    ("text", "size"),
    [("64 mb", 64 << 20), ("64mb", 64 << 20), ("64 MiB", 64 << 20), ("1.5 GB", 3 << 29), ("1g", 1 << 30), ("500000", 500_000), ("7 b", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert ROUND_BYTES.of({ROUND_BYTES.name: text}) == size


def test_without_a_size_of_rounds_only_the_freshness_counts() -> None:
    assert ROUND_BYTES.of({}) is ROUND_BYTES.of({ROUND_BYTES.name: "none"}) is None


@pytest.mark.parametrize("text", ["", "much", "0", "0.1 b", "-1", "5 min", "1e9", "9999999999999999999", "1 mb 2", "٣ mb"])
def test_what_is_no_size_is_one_clear_error(text: str) -> None:
    with pytest.raises(InvalidArgument, match=ROUND_BYTES.name) as refused:
        ROUND_BYTES.of({ROUND_BYTES.name: text})
    assert "'64 mb'" in refused.value.hint


def test_every_default_can_be_read_and_written_again() -> None:
    for option in TABLE_OPTIONS.values():
        assert option.if_absent or option.of({}) == option.of({option.name: option.default})
