"""Offsets of many tables from a cluster that tells them one table at a time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from support.clusters.memory_cluster import MemoryCluster, log_table
from tiering.errors import ClusterUnavailable, UnknownTable
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo, TablePath

TABLES = [log_table(number, TablePath("sales", f"t{number}")) for number in (1, 2, 3)]


class Troubled(MemoryCluster):
    """`trouble` is what asking about some tables brings."""

    trouble: Mapping[int, Exception] = {}

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        if table.table_id in self.trouble:
            raise self.trouble[table.table_id]
        return super().offsets(table)


def test_a_table_that_is_gone_or_silent_does_not_take_the_others_along() -> None:
    cluster = Troubled(*TABLES)
    assert list(cluster.offsets_of(TABLES)) == [1, 2, 3]
    cluster.trouble = {1: UnknownTable("gone"), 2: ClusterUnavailable("its tablet server is away")}
    assert cluster.offsets_of(TABLES) == {3: cluster.offsets(TABLES[2])}


def test_a_cluster_that_answers_about_no_table_is_unavailable() -> None:
    cluster = Troubled(*TABLES)
    cluster.trouble = {1: UnknownTable("gone"), 2: ClusterUnavailable("away"), 3: ClusterUnavailable("away too")}
    with pytest.raises(ClusterUnavailable):
        cluster.offsets_of(TABLES)
    cluster.trouble = dict.fromkeys((1, 2, 3), UnknownTable("gone"))
    assert cluster.offsets_of(TABLES) == {}
