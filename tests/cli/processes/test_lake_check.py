"""A lake that is not the cluster's is refused before the first round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.clusters.memory_cluster import MemoryCluster, log_table
from support.lakes.memory_lake import MemoryLake
from tiering.cli.processes.lake_check import LOOKED_AT, check_lake_is_the_clusters
from tiering.errors import ClusterUnavailable, LakeUnavailable, SetupError
from tiering.lake.base import LakeView
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo, TablePath

TIERED = RecordedLakeSnapshot(7, {BucketKey(None, 0): 3})


def tables(count: int) -> list[TableInfo]:
    return [log_table(number, TablePath("sales", f"orders{number}")) for number in range(count)]


def cluster_of(tables: list[TableInfo]) -> MemoryCluster:
    cluster = MemoryCluster(*tables)
    cluster.recorded = {table.table_id: TIERED for table in tables}
    return cluster


def test_a_lake_without_the_clusters_tiered_tables_is_another_one() -> None:
    with pytest.raises(SetupError, match=r"the lake does not belong to the cluster: .* sales\.orders0") as caught:
        check_lake_is_the_clusters(cluster_of(tables(2)), MemoryLake())
    assert "--create-lake-tables" in caught.value.hint


def test_one_that_is_there_is_enough() -> None:
    lake, listed = MemoryLake(), tables(3)
    lake.ensure_table(listed[2])
    check_lake_is_the_clusters(cluster_of(listed), lake)


def test_tables_that_were_never_tiered_or_go_to_no_lake_are_not_looked_for() -> None:
    cluster = MemoryCluster(*tables(3))
    check_lake_is_the_clusters(cluster, MemoryLake())
    disabled = replace(log_table(), lake_enabled=False)
    foreign = replace(log_table(2, TablePath("sales", "others")), lake_format="of-others")
    check_lake_is_the_clusters(cluster_of([disabled, foreign]), MemoryLake())


def test_a_few_tables_are_looked_at_and_not_all_of_a_large_cluster() -> None:
    viewed: list[TablePath] = []

    class Counting(MemoryLake):
        def view(self, path: TablePath) -> LakeView | None:
            viewed.append(path)
            return None

    with pytest.raises(SetupError):
        check_lake_is_the_clusters(cluster_of(tables(50)), Counting())
    assert len(viewed) == LOOKED_AT


def test_a_cluster_or_a_lake_that_does_not_answer_ends_no_start() -> None:
    class Away(MemoryLake):
        def view(self, path: TablePath) -> LakeView | None:
            raise LakeUnavailable("away")

    check_lake_is_the_clusters(cluster_of(tables(1)), Away())

    class AwayCluster(MemoryCluster):
        def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
            raise ClusterUnavailable("away")

    check_lake_is_the_clusters(AwayCluster(*tables(1)), MemoryLake())
