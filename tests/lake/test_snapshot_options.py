"""How long a table's snapshots are kept, as its options say, on the embedded cluster and on Fluss."""

from __future__ import annotations

import pytest

from support.lakes.lake_kit import LakeKit
from tiering.cluster.embedded.metadata.options import parse_lake_options
from tiering.cluster.fluss.table_json import with_options
from tiering.errors import InvalidArgument
from tiering.lake.rules.upkeep.snapshot_options import AUTO_EXPIRE, SNAPSHOT_MAX_AGE, SNAPSHOT_MIN_COUNT, snapshot_retention_of
from tiering.model.tables import SnapshotRetention

DAY = 86_400_000


def test_the_embedded_cluster_expires_snapshots_and_fluss_only_where_its_option_says_so(kit: LakeKit) -> None:
    assert parse_lake_options({}).snapshot_retention == SnapshotRetention(DAY, 10)
    assert parse_lake_options({AUTO_EXPIRE: "false"}).snapshot_retention is None
    assert with_options(kit.table(), {}).snapshot_retention is None
    assert with_options(kit.table(), {AUTO_EXPIRE: "true", SNAPSHOT_MIN_COUNT: "3"}).snapshot_retention == SnapshotRetention(DAY, 3)
    assert with_options(kit.table(), {AUTO_EXPIRE: "true", SNAPSHOT_MIN_COUNT: "three"}).snapshot_retention is None


def test_ages_and_counts_are_read() -> None:
    options = {SNAPSHOT_MAX_AGE: "2 h", SNAPSHOT_MIN_COUNT: "7"}
    assert snapshot_retention_of(options, expires_by_default=True) == SnapshotRetention(7_200_000, 7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (AUTO_EXPIRE, "perhaps"),
        (SNAPSHOT_MAX_AGE, "59 s"),
        (SNAPSHOT_MAX_AGE, "soon"),
        (SNAPSHOT_MAX_AGE, "11000 d"),
        (SNAPSHOT_MIN_COUNT, "0"),
        (SNAPSHOT_MIN_COUNT, "-1"),
        (SNAPSHOT_MIN_COUNT, "100001"),
        (SNAPSHOT_MIN_COUNT, "1e3"),
    ],
)
def test_other_values_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        snapshot_retention_of({name: value}, expires_by_default=True)
