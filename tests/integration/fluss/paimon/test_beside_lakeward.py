"""Lake tables that Fluss made: rounds of Lakeward and of Fluss's own tiering follow each other, read by Fluss's reader and by pypaimon."""

from __future__ import annotations

import pyarrow as pa

from support.clusters.fluss_tables import FlussTables
from support.fluss_paimon.flink_tiering import FlinkTiering
from support.lakes.paimon_kit import KeyedRounds, PaimonKit
from support.running.fluss_deployment import LAKE
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.lake.base import FLUSS_COMMIT_USER, FLUSS_COMMIT_USER_KEY
from tiering.lake.rules.history import is_foreign_tiering
from tiering.model.tables import ChangeType

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])


def test_a_log_table_goes_on_with_either(fluss_on_paimon: LocalFlussCluster, tables: FlussTables, flink: FlinkTiering) -> None:
    kit = PaimonKit(fluss_on_paimon.folder, "warehouse")
    table = tables.create("by_both", SCHEMA, buckets=2, properties=LAKE)
    prepared = kit.prepare(table, "r1", {"id": [1, 2], "text": ["one", None]})
    user = {FLUSS_COMMIT_USER_KEY: FLUSS_COMMIT_USER}
    assert prepared.factory.create_committer().commit(prepared.committable, prepared.base, prepared.marker, user) == 1
    flink.plan(tables, table)
    assert flink.missing(None).startswith("1")  # Fluss's committer takes it for a tiering commit
    flink.write(0, [(2, "APPEND_ONLY", [3, "three"])])
    assert flink.commit() == 2
    assert sorted((row[0], row[-2], row[-1]) for row in flink.read(2)) == [("0", "1", "one"), ("1", "2", "\\N"), ("2", "3", "three")]
    assert kit.read(table).sort_by("__offset")["text"].to_pylist() == ["one", None, "three"]
    view = kit.view(table)
    assert (view.tiered, view.marker) == (1, prepared.marker)
    assert is_foreign_tiering(view.snapshots[2])
    tables.drop(table)


def test_a_primary_key_table_goes_on_with_either(fluss_on_paimon: LocalFlussCluster, tables: FlussTables, flink: FlinkTiering) -> None:
    kit = PaimonKit(fluss_on_paimon.folder, "warehouse")
    table = tables.create("keys_by_both", SCHEMA, ["id"], properties=LAKE)
    rounds = KeyedRounds(kit, table)
    rounds.tier("r1", [(ChangeType.INSERT, {"id": key, "text": f"r1-{key}"}) for key in (3, 1, 2)])
    flink.plan(tables, table)
    flink.write(0, [(3, "UPDATE_BEFORE", [1, "r1-1"]), (4, "UPDATE_AFTER", [1, "flink"]), (5, "DELETE", [2, "r1-2"])])
    assert flink.commit() == 2
    assert {row[-2]: row[-1] for row in flink.read(2)} == {"1": "flink", "3": "r1-3"}
    rounds.tier("r2", [(ChangeType.INSERT, {"id": 2, "text": "again"}), (ChangeType.UPDATE_AFTER, {"id": 1, "text": "ours"})])
    assert {row[-2]: row[-1] for row in flink.read(3)} == {"1": "ours", "2": "again", "3": "r1-3"}
    rows = kit.read(table).to_pylist()
    assert {row["id"]: row["text"] for row in rows} == {1: "ours", 2: "again", 3: "r1-3"}
    tables.drop(table)
