"""Lake tables that Fluss made: rounds of Lakeward and of Fluss's own tiering follow each other, read by Fluss's reader and by pypaimon."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from support.clusters.fluss_tables import FlussTables
from support.fluss_paimon.flink_tiering import FlinkTiering, Record
from support.lakes.paimon_kit import KeyedRounds, PaimonKit
from support.running.fluss_deployment import LAKE
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.errors import CommitOutcomeUnknown
from tiering.lake.base import FLUSS_COMMIT_USER, FLUSS_COMMIT_USER_KEY, Committable
from tiering.lake.rules.history import is_foreign_tiering
from tiering.model.tables import BucketKey, ChangeType, TableInfo
from tiering.model.upkeep import UpkeepOrder, UpkeepStats

FULL = UpkeepOrder(full=True)
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


def test_rounds_go_on_after_paimon_merged_their_runs(fluss_on_paimon: LocalFlussCluster, tables: FlussTables, flink: FlinkTiering) -> None:
    """Six runs at level 0 become one of the highest level, in a snapshot of Paimon's Java."""
    kit = PaimonKit(fluss_on_paimon.folder, "warehouse")
    table = tables.create("merged_runs", SCHEMA, ["id"], properties={**LAKE, "table.datalake.auto-compaction": "true"})
    rounds = KeyedRounds(kit, table)
    for number in range(5):
        rounds.tier(f"r{number}", [(ChangeType.INSERT, {"id": key, "text": f"r{number}-{key}"}) for key in range(number, 10)])
    flink.plan(tables, table)
    flink.write(0, [(40, "DELETE", [9, "r4-9"])])
    flink.commit()
    view = kit.view(table)
    assert view.head is not None
    assert view.snapshots[view.head].operation == "COMPACT"
    changes = [(ChangeType.UPDATE_AFTER, {"id": 8, "text": "r5"}), (ChangeType.DELETE, {"id": 7, "text": "r4-7"})]
    assert rounds.tier("r5", changes) == view.head + 1
    expected = {**{number: f"r{number}-{number}" for number in range(5)}, 5: "r4-5", 6: "r4-6", 8: "r5"}
    assert {int(row[-2]): row[-1] for row in flink.read(view.head + 1)} == expected
    assert {row["id"]: row["text"] for row in kit.read(table).to_pylist()} == expected
    tables.drop(table)


class RandomKeys:
    """Random inserts, updates and deletes of the keys of one bucket, written by Lakeward or by Fluss, and the rows that they leave."""

    def __init__(self, kit: PaimonKit, table: TableInfo, bucket_id: int, keys: Sequence[int]) -> None:
        self.texts: dict[int, str] = {}
        self._bucket_id, self._keys, self._rng = bucket_id, keys, random.Random(bucket_id)
        self._rounds, self._numbers, self._written = KeyedRounds(kit, table, BucketKey(None, bucket_id)), itertools.count(), 0

    def tier(self) -> None:
        """A round of Lakeward. It begins at the offset of the lake's marker."""
        changes = [(kind, {"id": key, "text": text}) for kind, key, text in self._changes()]
        self._rounds.tier(f"r{self._bucket_id}-{next(self._numbers)}", changes)

    def write_by(self, flink: FlinkTiering) -> None:
        """Writes changes, which the next commit of `flink` has."""
        first = self._written
        records: list[Record] = [(offset, kind.name, [key, text]) for offset, (kind, key, text) in enumerate(self._changes(), first)]
        flink.write(self._bucket_id, records)

    def _changes(self) -> list[tuple[ChangeType, int, str]]:
        changes: list[tuple[ChangeType, int, str]] = []
        for number, key in enumerate(self._rng.sample(self._keys, 8)):
            before, text = self.texts.get(key), f"{self._written}-{number}"
            if before is None:
                changes.append((ChangeType.INSERT, key, text))
            else:
                is_deleted = self._rng.random() < 0.4
                after = [] if is_deleted else [(ChangeType.UPDATE_AFTER, key, text)]
                changes += [(ChangeType.DELETE if is_deleted else ChangeType.UPDATE_BEFORE, key, self.texts.pop(key)), *after]
            if changes[-1][0] is not ChangeType.DELETE:
                self.texts[key] = text
        self._written += len(changes)
        return changes


def prepared_upkeep(kit: PaimonKit, table: TableInfo, round_id: str) -> tuple[Any, Committable]:
    """The factory of an upkeep round, and what it is to commit."""
    factory = kit.lake.tiering_factory(table)
    tasks = kit.lake.plan_upkeep(table, kit.lake.ensure_table(table), FULL, {}).tasks
    rewrites = tuple(factory.rewrite(task, round_id, f"n{number}", lambda rows: False) for number, task in enumerate(tasks))
    return factory, Committable(round_id, (), rewrites, FULL)


def committed_upkeep(kit: PaimonKit, table: TableInfo, factory: Any, committable: Committable) -> UpkeepStats:
    """Commits as Fluss does, and returns the upkeep of the newest snapshot."""
    base, committer = kit.view(table), factory.create_committer()
    assert base.marker is not None
    marker = replace(base.marker, round_id=committable.round_id, base_round_id=base.marker.round_id)
    committer.commit(committable, base, marker)
    return cast(UpkeepStats, committer.last_upkeep)


def test_an_upkeep_round_drops_its_work_in_the_bucket_that_fluss_compacted_alone(
    fluss_on_paimon: LocalFlussCluster, tables: FlussTables, flink: FlinkTiering
) -> None:
    kit = PaimonKit(fluss_on_paimon.folder, "warehouse")
    table = tables.create("dropped_alone", SCHEMA, ["id"], buckets=2, properties={**LAKE, "table.datalake.auto-compaction": "true"})
    flink.plan(tables, table)
    bucket_ids = {key: flink.bucket([key, None]) for key in range(50)}
    buckets = [RandomKeys(kit, table, number, [key for key in bucket_ids if bucket_ids[key] == number]) for number in (0, 1)]
    for bucket in buckets * 4:
        bucket.tier()
    base = kit.view(table)
    assert base.marker is not None
    factory, committable = prepared_upkeep(kit, table, "u1")
    buckets[0].write_by(flink)
    newest = flink.commit()
    assert kit.view(table).snapshots[newest].operation == "COMPACT"
    marker = replace(base.marker, round_id="u1", base_round_id=base.marker.round_id)
    with pytest.raises(CommitOutcomeUnknown):
        factory.create_committer().commit(committable, base, marker)
    stats = committed_upkeep(kit, table, factory, committable)
    assert (stats.dropped, stats.files_before, stats.files_after) == (1, 4, 1)
    assert_rows(kit, table, flink, buckets)
    buckets[1].tier()
    stats = committed_upkeep(kit, table, *prepared_upkeep(kit, table, "u2"))
    assert (stats.dropped, stats.files_before, stats.files_after) == (0, 2, 1)
    flink.plan(tables, table)
    for bucket in buckets:
        bucket.write_by(flink)
    flink.commit()
    assert_rows(kit, table, flink, buckets)
    tables.drop(table)


def assert_rows(kit: PaimonKit, table: TableInfo, flink: FlinkTiering, buckets: Sequence[RandomKeys]) -> None:
    """Fluss's reader and pypaimon see the rows of the newest snapshot that the changes of `buckets` left, each once."""
    texts = sorted((key, text) for bucket in buckets for key, text in bucket.texts.items())
    newest = kit.view(table).head
    assert newest is not None
    assert sorted((int(row[-2]), row[-1]) for row in flink.read(newest)) == texts
    assert sorted((row["id"], row["text"]) for row in kit.read(table).to_pylist()) == texts
