"""Sorted runs of primary-key tables are merged in rounds and by upkeep rounds; everybody reads the same rows, and the changelog stays."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.lakes.paimon_kit import B0, CREATED, Change, KeyedRounds, PaimonKit
from tiering.errors import Cancelled
from tiering.lake.base import Committable, FileRewrite, LakeView
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.reading.data_files import known_footer
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.upkeep import rewriting
from tiering.lake.paimon.writing import sorted_files
from tiering.lake.proof.file_footer import decode_footer, sum_of
from tiering.lake.rules.upkeep.small_files import SMALL_FILES
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TablePath, TableType
from tiering.model.upkeep import UpkeepOrder, UpkeepStats

INSERT, BEFORE, AFTER, DELETE = ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE
COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
CLEAN = {"table.datalake.layout": "clean"}
LAYOUTS = pytest.mark.parametrize("properties", [CLEAN, {}], ids=["clean", "system-columns"])
MANY = 64 << 20
TOP = 5
"""The highest level of a table with Paimon's default options."""


def keyed_table(columns: pa.Schema = COLUMNS, key: tuple[str, ...] = ("id",), **more: Any) -> TableInfo:
    return TableInfo(8, TablePath("sales", "customers"), TableType.PRIMARY_KEY, columns, 1, CREATED, primary_key=key, **more)


class ChangingRounds(KeyedRounds):
    """Rounds of random changes, with the rows that they leave."""

    def __init__(self, kit: PaimonKit, table: TableInfo, bucket: BucketKey = B0, partition: str | None = None, keys: int = 40) -> None:
        super().__init__(kit, table, bucket, partition)
        self.truth: dict[int, str] = {}
        self._keys, self._rng, self._numbers = keys, random.Random(7), itertools.count(1)
        self._values = {} if partition is None else {"region": partition}

    def changes(self, count: int) -> list[Change]:
        changes: list[tuple[ChangeType, int, str]] = []
        for step in range(count):
            key, name = self._rng.randrange(self._keys), f"{len(self.truth)}-{step}-{self._rng.random()}"
            if key not in self.truth:
                changes.append((INSERT, key, name))
                self.truth[key] = name
            elif self._rng.random() < 0.4:
                changes.append((DELETE, key, self.truth.pop(key)))
            else:
                changes += [(BEFORE, key, self.truth[key]), (AFTER, key, name)]
                self.truth[key] = name
        return [(kind, {"id": key, "name": name, **self._values}) for kind, key, name in changes]

    def run(self, rounds: int, changes: int = 10, *, merges: bool = True) -> None:
        for _ in range(rounds):
            round_id = f"r{next(self._numbers)}"
            factory, committable, base, marker = self.prepare(round_id, self.changes(changes))
            rewrites: tuple[FileRewrite, ...] = ()
            if merges:
                nonces = itertools.count()
                merged = self.kit.lake.merge_small_files(
                    self.table, base, {self.bucket: self.partition}, round_id, lambda numbers=nonces: f"m{next(numbers)}", MANY
                )
                rewrites = tuple(merged)
            factory.create_committer().commit(replace(committable, rewrites=rewrites), base, marker)

    def upkeep(self, order: UpkeepOrder | None = None, living: Mapping[str, int] | None = None) -> UpkeepStats | None:
        """An upkeep round; returns what its commit did, None if there was nothing to do."""
        order = order or UpkeepOrder()
        base = self.kit.lake.ensure_table(self.table)
        assert base.marker is not None
        round_id = f"u{next(self._numbers)}"
        plan = self.kit.lake.plan_upkeep(self.table, base, order, living or {})
        if not plan.tasks and not order.manifests:
            return None
        factory = self.kit.lake.tiering_factory(self.table)
        rewrites = [factory.rewrite(task, round_id, f"n{number}", lambda rows: False) for number, task in enumerate(plan.tasks)]
        marker = replace(base.marker, round_id=round_id, base_round_id=base.marker.round_id)
        committer = factory.create_committer()
        committer.commit(Committable(round_id, (), tuple(rewrites), order), base, marker)
        return cast(Any, committer).last_upkeep

    def check(self) -> None:
        rows = self.kit.read(self.table, **self._values).to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        assert {row["id"]: row["name"] for row in rows} == self.truth


def live_entries(view: LakeView) -> list[Any]:
    loaded = cast(LoadedTable, view.handle)
    assert loaded.head is not None
    return Manifests(loaded).live_entries(loaded.head)


@LAYOUTS
def test_rounds_keep_few_sorted_runs(kit: PaimonKit, properties: dict[str, str]) -> None:
    rounds = ChangingRounds(kit, keyed_table(properties=properties))
    for _ in range(30):
        rounds.run(1)
        rounds.check()
        assert len(live_entries(kit.view(rounds.table))) <= SMALL_FILES + 1
    kinds = {snapshot.operation for snapshot in kit.view(rounds.table).snapshots.values()}
    assert kinds == {"APPEND", "COMPACT"}


@LAYOUTS
def test_an_upkeep_round_leaves_one_run_of_the_highest_level_without_deletes(kit: PaimonKit, properties: dict[str, str]) -> None:
    rounds = ChangingRounds(kit, keyed_table(properties=properties))
    rounds.run(6, merges=False)
    before = kit.view(rounds.table)
    stats = rounds.upkeep()
    view = kit.view(rounds.table)
    (entry,) = live_entries(view)
    assert (entry.file.level, entry.file.row_count, entry.file.delete_row_count) == (TOP, len(rounds.truth), 0)
    assert stats is not None
    assert (stats.files_before, stats.files_after, stats.dropped) == (6, 1, 0)
    assert stats.rows_dropped == sum(entry.file.row_count for entry in live_entries(before)) - len(rounds.truth)
    assert view.snapshots[view.head or 0].operation == "COMPACT"
    assert view.tiered == view.head
    rounds.check()
    assert rounds.upkeep() is None
    rounds.run(3)
    rounds.check()


def test_rows_in_the_files_are_in_the_order_of_their_keys_each_once(kit: PaimonKit) -> None:
    rounds = ChangingRounds(kit, keyed_table(properties=CLEAN), keys=300)
    rounds.run(4, 200, merges=False)
    rounds.upkeep()
    (file,) = (kit.folder(rounds.table) / "bucket-0").glob("lakeward-u*.parquet")
    keys = [key for (key,) in duckdb.execute(f"SELECT _KEY_id FROM '{file}'").fetchall()]
    assert keys == sorted(rounds.truth)


def test_a_small_new_run_does_not_write_a_large_one_anew(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The delete rows of the small run have to stay."""
    monkeypatch.setattr(sorted_files, "PART_BYTES", 5_000)
    monkeypatch.setattr(rewriting, "RUN_BATCH_ROWS", 200)
    rounds = ChangingRounds(kit, keyed_table(properties=CLEAN), keys=3_000)
    set_target_size(kit, rounds.table, "10 kb")
    rounds.run(1, 3_000, merges=False)
    rounds.upkeep(UpkeepOrder(full=True))
    large = {entry.file.file_name for entry in live_entries(kit.view(rounds.table))}
    assert len(large) > 1
    rounds.run(4, 20, merges=False)
    stats = rounds.upkeep()
    entries = live_entries(kit.view(rounds.table))
    assert stats is not None
    assert (stats.files_before, stats.files_after) == (4, 1)
    assert sorted(entry.file.level for entry in entries) == [0] + [TOP] * len(large)
    assert large < {entry.file.file_name for entry in entries}
    rounds.check()
    rounds.run(3, 20)
    rounds.check()


def set_target_size(kit: PaimonKit, table: TableInfo, size: str) -> None:
    kit.lake.ensure_table(table)
    path = kit.folder(table) / "schema" / "schema-0"
    document = json.loads(path.read_text())
    document["id"] = 1
    document["options"]["target-file-size"] = size
    path.with_name("schema-1").write_text(json.dumps(document))


def test_a_run_of_several_files_is_merged_in_small_batches(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "RUN_BATCH_ROWS", 7)
    monkeypatch.setattr(sorted_files, "PART_BYTES", 500)
    rounds = ChangingRounds(kit, keyed_table(properties=CLEAN), keys=500)
    set_target_size(kit, rounds.table, "4 kb")
    for _ in range(3):
        rounds.run(2, 400, merges=False)
        rounds.upkeep(UpkeepOrder(full=True))
        assert len(live_entries(kit.view(rounds.table))) > 2
        rounds.check()


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["b", "ä", "a" * 20, "", "\U0001f600", "\uffff"]),
    "bytes": (pa.binary(), [b"\xff", b"\x00", b"zz" * 9, b"a"]),
    "decimal": (pa.decimal128(20, 3), [Decimal("-1.500"), Decimal("10.000"), Decimal("2.000"), Decimal("0.001")]),
    "day": (pa.date32(), [date(2024, 1, 1), date(1969, 12, 31), date(2030, 1, 1), date(1970, 1, 1)]),
    "time": (pa.timestamp("us"), [datetime(2024, 1, 1, 0, 0, 0, 7), datetime(1969, 12, 31), datetime(2030, 1, 1)]),
    "instant": (pa.timestamp("us", "UTC"), [datetime(year, 1, 1, tzinfo=UTC) for year in (2024, 1969, 2030, 1970)]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_all_types_are_merged_in_their_order(kit: PaimonKit, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The key has two columns, so that the second one decides where the first is the same."""
    monkeypatch.setattr(rewriting, "RUN_BATCH_ROWS", 2)
    arrow, values = KEYS[kind]
    columns = pa.schema([pa.field("a", pa.int32(), False), pa.field("k", arrow, False), pa.field("v", pa.float64())])
    rounds = KeyedRounds(kit, keyed_table(columns, ("a", "k"), properties=CLEAN))
    truth: dict[tuple[int, Any], float] = {}
    rng = random.Random(3)
    for number in range(6):
        changes: list[Change] = []
        for _ in range(6):
            key = (rng.randrange(3), rng.choice(values))
            kind_of_change = AFTER if key in truth else INSERT
            truth[key] = rng.choice([rng.random(), float("nan")])
            changes.append((kind_of_change, {"a": key[0], "k": key[1], "v": truth[key]}))
        rounds.tier(f"r{number}", changes)
    base = kit.lake.ensure_table(rounds.table)
    assert base.marker is not None
    (task,) = kit.lake.plan_upkeep(rounds.table, base, UpkeepOrder(), {}).tasks
    factory = kit.lake.tiering_factory(rounds.table)
    rewrite = factory.rewrite(task, "up", "n", lambda rows: False)
    marker = replace(base.marker, round_id="up", base_round_id=base.marker.round_id)
    factory.create_committer().commit(Committable("up", (), (rewrite,), UpkeepOrder()), base, marker)
    assert all(entry.file.level == TOP for entry in live_entries(kit.view(rounds.table)))
    rows = {(row["a"], row["k"]): repr(row["v"]) for row in kit.read(rounds.table).to_pylist()}
    assert rows == {key: repr(value) for key, value in truth.items()}


def test_each_partition_is_compacted_by_itself(kit: PaimonKit) -> None:
    columns = pa.schema([*COLUMNS, pa.field("region", pa.string(), False)])
    table = keyed_table(columns, ("id", "region"), partition_keys=("region",), properties=CLEAN)
    north, south = (ChangingRounds(kit, table, BucketKey(number, 0), name) for number, name in ((1, "north"), (2, "south")))
    south._numbers = itertools.count(100)
    for _ in range(3):
        north.run(1, merges=False)
        south.run(1, merges=False)
    north.upkeep(UpkeepOrder(partitions=frozenset({"north"})), {"north": 1, "south": 2})
    levels = {entry.partition.values[0]: entry.file.level for entry in live_entries(kit.view(table))}
    assert levels == {"north": TOP, "south": 0}
    plan = kit.lake.plan_upkeep(table, kit.view(table), UpkeepOrder(), {"north": 1, "south": 3})
    assert plan.tasks == ()  # the files are those of a former partition of that name
    assert plan.left_alone == 3
    north.check()
    south.check()


def test_the_changelog_stays(kit: PaimonKit) -> None:
    rounds = ChangingRounds(kit, keyed_table(properties=CLEAN))
    rounds.run(20)
    loaded = cast(LoadedTable, kit.view(rounds.table).handle)
    manifests = Manifests(loaded)
    changes = [entry for snapshot in loaded.chain for entry in manifests.changes(snapshot).changelog]
    appends = [snapshot for snapshot in loaded.chain if snapshot.document["commitKind"] == "APPEND"]
    assert len(changes) == len(appends) == 20
    paths = [kit.folder(rounds.table) / manifests.file_path(entry) for entry in changes]
    assert all(path.exists() for path in paths)
    compactions = [snapshot for snapshot in loaded.chain if snapshot.document["commitKind"] == "COMPACT"]
    assert compactions
    assert all("changelogManifestList" not in snapshot.document for snapshot in compactions)


def test_a_footer_names_the_changes_of_all_merged_files(kit: PaimonKit) -> None:
    rounds = ChangingRounds(kit, keyed_table(properties=CLEAN))
    rounds.run(5, merges=False)
    rounds.upkeep()
    view = kit.view(rounds.table)
    assert view.marker is not None
    (entry,) = live_entries(view)
    loaded = cast(LoadedTable, view.handle)
    footer = known_footer(loaded.storage, loaded.root / Manifests(loaded).file_path(entry), int(entry.file.row_count))
    assert footer is not None
    assert footer.changes == (0, view.marker.buckets[B0].tiered)


def test_a_compaction_is_left_out_once_others_have_compacted(kit: PaimonKit) -> None:
    rounds = ChangingRounds(kit, keyed_table(properties=CLEAN))
    rounds.run(4, merges=False)
    base = kit.lake.ensure_table(rounds.table)
    assert base.marker is not None
    plan = kit.lake.plan_upkeep(rounds.table, base, UpkeepOrder(), {})
    factory = kit.lake.tiering_factory(rounds.table)
    late = [factory.rewrite(task, "late", "n", lambda rows: False) for task in plan.tasks]
    rounds.upkeep()
    now = kit.view(rounds.table)
    assert now.marker is not None
    committer = factory.create_committer()
    marker = replace(now.marker, round_id="late", base_round_id=now.marker.round_id)
    committer.commit(Committable("late", (), tuple(late), UpkeepOrder()), now, marker)
    assert cast(Any, committer).last_upkeep.dropped == 1
    assert kit.view(rounds.table).snapshots[kit.view(rounds.table).head or 0].operation == "APPEND"
    rounds.check()


def test_a_stopped_rewrite_leaves_no_file(kit: PaimonKit) -> None:
    rounds = ChangingRounds(kit, keyed_table(properties=CLEAN))
    rounds.run(3, merges=False)
    base = kit.lake.ensure_table(rounds.table)
    (task,) = kit.lake.plan_upkeep(rounds.table, base, UpkeepOrder(), {}).tasks
    before = set((kit.folder(rounds.table) / "bucket-0").iterdir())
    with pytest.raises(Cancelled):
        kit.lake.tiering_factory(rounds.table).rewrite(task, "up", "n", lambda rows: True)
    assert set((kit.folder(rounds.table) / "bucket-0").iterdir()) == before


def written_checksum(rounds: ChangingRounds) -> int:
    """Returns the sum of the checksums in the footers of the live files."""
    names = [entry.file.file_name for entry in live_entries(rounds.kit.view(rounds.table))]
    files = [file for file in rounds.kit.folder(rounds.table).rglob("*.parquet") if file.name in names]
    texts = [{key.decode(): value.decode() for key, value in (pq.read_metadata(file).metadata or {}).items()} for file in files]
    footers = [footer for text in texts if (footer := decode_footer({key: text[key] for key in text if key.startswith("lakeward")}))]
    assert len(footers) == len(names)
    return sum_of(footer.written_checksum for footer in footers)


def test_footers_of_merged_runs_add_up_to_what_rounds_wrote_also_where_no_row_stays(kit: PaimonKit) -> None:
    rounds = ChangingRounds(kit, keyed_table(properties=CLEAN))
    rounds.run(6, merges=False)
    before = written_checksum(rounds)
    rounds.upkeep(UpkeepOrder(full=True))
    assert written_checksum(rounds) == before
    rounds.run(4)
    factory, committable, base, marker = rounds.prepare("last", [(DELETE, {"id": key, "name": name}) for key, name in rounds.truth.items()])
    factory.create_committer().commit(committable, base, marker)
    before = written_checksum(rounds)
    rounds.truth.clear()
    rounds.upkeep(UpkeepOrder(full=True))
    assert len(live_entries(kit.view(rounds.table))) == 1
    assert written_checksum(rounds) == before
    rounds.check()


def test_a_merge_of_manifests_tells_how_many_it_left_also_where_their_number_stays(kit: PaimonKit) -> None:
    rounds = ChangingRounds(kit, keyed_table())
    rounds.run(4, merges=False)
    order = UpkeepOrder(rewrite=False, manifests=True)
    did = [rounds.upkeep(order) for _ in range(2)]
    assert [stats and (stats.manifests_before, stats.manifests_after) for stats in did] == [(4, 1), (1, 1)]
