"""The embedded cluster's record of a table's lake copy never goes back."""

from __future__ import annotations

import pytest

from support.clusters.embedded import PATH, EmbeddedCluster, make_table
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import Fenced, UnknownTable
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey

B0 = BucketKey(None, 0)


def test_the_lake_record_is_kept_and_repeats_are_harmless(cluster: EmbeddedCluster, storage: EmbeddedStorage) -> None:
    table = make_table(cluster)
    assert cluster.lake_snapshot(table) is None
    first = RecordedLakeSnapshot(7, {B0: 5})
    for _ in range(2):
        storage.record_lake_snapshot(table, first)
        assert cluster.lake_snapshot(table) == first

    storage.record_lake_snapshot(table, RecordedLakeSnapshot(6_000_000_000_000_000_000, {B0: 8}))
    assert cluster.lake_snapshot(table) == RecordedLakeSnapshot(6_000_000_000_000_000_000, {B0: 8})


@pytest.mark.parametrize("offsets", [{B0: 4}, {}])
def test_the_lake_record_never_goes_back(storage: EmbeddedStorage, offsets: dict[BucketKey, int]) -> None:
    table = make_table(storage)
    storage.record_lake_snapshot(table, RecordedLakeSnapshot(7, {B0: 5}))
    with pytest.raises(Fenced, match="bucket 0, from offset 5 to"):
        storage.record_lake_snapshot(table, RecordedLakeSnapshot(8, offsets))
    assert storage.lake_snapshot(table) == RecordedLakeSnapshot(7, {B0: 5})


def test_the_lake_record_of_a_dropped_table_is_refused(storage: EmbeddedStorage) -> None:
    table = make_table(storage)
    storage.drop_table(PATH)
    with pytest.raises(UnknownTable):
        storage.record_lake_snapshot(table, RecordedLakeSnapshot(7, {B0: 5}))
    assert storage.lake_snapshot(make_table(storage)) is None
