"""The proof of primary-key tables whose log was cut: rows that the log does not hold any more are compared with the KV snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.paimon_world import PaimonWorld
from support.worlds.validated import check, data_files, faults, read, replace_column, rewrite, untold
from tiering.model.leases import KvSnapshot
from tiering.model.tables import BucketKey, TableInfo
from tiering.validate.results import Level

KEYS = 1_000
BUCKET = BucketKey(None, 0)


@dataclass
class Cut:
    """A table of 1,000 keys; the log begins behind them, at the KV snapshot, and holds five newer keys."""

    world: Any
    table: TableInfo

    def files(self) -> list[Path]:
        files = self.world.data_files(self.table) if isinstance(self.world, PaimonWorld) else data_files(self.world, self.table)
        return sorted(files, key=lambda file: -read(file).num_rows)

    def upsert(self, sequence: int, rows: dict[int, str]) -> None:
        data = pa.table({"id": list(rows), "text": list(rows.values())}, schema=PRIMARY_KEY_SCHEMA)
        self.world.storage.upsert(self.table.path, data, "w", sequence)

    def keep(self, count: int) -> None:
        """Leaves only the first `count` rows in the oldest file."""
        oldest = self.files()[0]
        rewrite(oldest, read(oldest).slice(0, count))

    def hide_snapshots(self, monkeypatch: pytest.MonkeyPatch, snapshots: dict[BucketKey, KvSnapshot]) -> None:
        monkeypatch.setattr(self.world.storage, "kv_snapshots", lambda table: snapshots)


@pytest.fixture(params=["iceberg", "paimon"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    lake_world = LakeWorld(tmp_path) if request.param == "iceberg" else PaimonWorld(tmp_path)
    yield lake_world
    lake_world.close()


@pytest.fixture(params=["system columns", "clean"])
def cut(request: pytest.FixtureRequest, world: Any) -> Cut:
    make: Callable[..., TableInfo] = world.keyed_table if isinstance(world, PaimonWorld) else world.primary_key_table
    layout = {"datalake_layout": "clean"} if request.param == "clean" else {}
    case = Cut(world, make("planes", buckets=1, log_ttl="1 s", **layout))
    case.upsert(0, {key: f"row {key}" for key in range(KEYS)})
    world.tier(case.table)
    world.storage.take_kv_snapshots(case.table.path)
    world.clock.advance(60)
    case.upsert(1, {KEYS + number: "new" for number in range(5)})
    world.tier(case.table)
    world.storage.maintenance.run()
    [log] = world.storage.offsets(case.table).values()
    assert log.log_start == KEYS
    return case


def rows_of(cut: Cut, level: Level = Level.ROWS) -> list[tuple[bool | None, str | None, str | None]]:
    return [(result.ok, result.expected, result.actual) for result in check(cut.world, cut.table, level) if result.check == "rows"]


def test_all_rows_are_compared_with_the_kv_snapshot(cut: Cut) -> None:
    results = check(cut.world, cut.table)
    assert all(result.ok for result in results), results
    assert rows_of(cut) == [(True, "1005", "1005")]


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("kept", [0, 999])
def test_rows_that_the_log_no_longer_holds_are_missed(cut: Cut, level: Level, kept: int) -> None:
    cut.keep(kept)
    assert rows_of(cut, level) == [(False, "1005", str(kept + 5))]
    if level is Level.ROWS:
        missing = "last changed before the log begins, is missing; the KV snapshot has it"
        [details] = [details for name, _, details in faults(check(cut.world, cut.table)) if name == "values"]
        assert details is not None
        assert details.endswith(missing)


def test_an_older_row_with_other_values_is_named(cut: Cut) -> None:
    oldest = cut.files()[0]
    replace_column(oldest, "text", ["wrong", *read(oldest)["text"].to_pylist()[1:]])
    details = "bucket 0: key 0, last changed before the log begins, has other values in the lake than in the KV snapshot"
    assert ("values", "0", details) in faults(check(cut.world, cut.table))


def test_a_newer_kv_snapshot_tells_all_keys_but_those_changed_behind_the_end_of_the_lake(cut: Cut) -> None:
    cut.upsert(2, {7: "not in the lake yet", 5_000: "not in the lake yet"})
    cut.world.storage.take_kv_snapshots(cut.table.path)
    results = check(cut.world, cut.table)
    assert not faults(results), results
    text = "2 keys changed again since, or by a record that was skipped: their rows are taken as they are"
    assert untold(results) == [("rows", "0", text)]
    cut.keep(999)
    assert [name for name, *_ in faults(check(cut.world, cut.table)) if name in ("rows", "values")] == ["rows", "values"]


def test_without_a_kv_snapshot_nothing_older_is_called_right(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    cut.hide_snapshots(monkeypatch, {})
    text = "last changed before offset 1000, where the log begins,"
    for kept in (KEYS, 0):
        cut.keep(kept)
        details = {(result.check, result.ok): str(result.details) for result in check(cut.world, cut.table)}
        assert text in details["rows", None]
        assert "bucket 0 has no KV snapshot" in details["rows", None]
        assert text in details["values", None]
        assert ("rows", True) not in details
        assert ("values", True) not in details


def test_a_kv_snapshot_from_before_the_log_begins_tells_nothing(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    cut.hide_snapshots(monkeypatch, {BUCKET: KvSnapshot(1, KEYS - 1)})
    [(_, _, rows), (_, _, values)] = untold(check(cut.world, cut.table))
    for details in (rows, values):
        assert "the KV snapshot of bucket 0 ends at offset 999, before that" in str(details)


def test_a_kv_snapshot_that_is_gone_is_said(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    cut.hide_snapshots(monkeypatch, {BUCKET: KvSnapshot(4_711, KEYS)})
    results = check(cut.world, cut.table)
    assert not faults(results)
    assert all("the KV snapshot cannot be compared" in str(details) for *_, details in untold(results))
    assert len(untold(results)) == 2


def skip(cut: Cut, monkeypatch: pytest.MonkeyPatch, *offsets: int) -> None:
    """The marker says that the records at `offsets` were left out of the lake; the KV state has them."""
    marker_at = type(cut.world.lake).marker_at

    def with_skipped(lake: Any, *arguments: Any) -> Any:
        return replace(marker_at(*arguments), skipped={BUCKET: dict.fromkeys(offsets)})

    monkeypatch.setattr(type(cut.world.lake), "marker_at", with_skipped)


def test_a_skipped_record_explains_one_key_that_differs_from_the_kv_snapshot_and_no_more(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    skip(cut, monkeypatch, 999)
    cut.keep(999)
    results = [result for result in check(cut.world, cut.table) if result.check in ("rows", "values")]
    assert not faults(results), results
    text = "1 key changed again since, or by a record that was skipped: their rows are taken as they are"
    assert untold(results) == [("rows", "0", text)]
    cut.keep(998)
    assert [name for name, *_ in faults(check(cut.world, cut.table)) if name in ("rows", "values")] == ["rows", "values"]


VISITS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])


@pytest.mark.parametrize("layout", [{}, {"datalake_layout": "clean"}], ids=["system columns", "clean"])
def test_rows_of_a_former_partition_are_no_rows_too_many_where_the_log_of_the_present_one_was_cut(
    tmp_path: Path, layout: dict[str, str]
) -> None:
    world = LakeWorld(tmp_path)
    table = world.primary_key_table("visits", 1, VISITS, ("id", "day"), ("day",), log_ttl="1 s", **layout)

    def visit(sequence: int, ids: range) -> None:
        rows = pa.table({"id": list(ids), "day": ["d0"] * len(ids)}, schema=VISITS)
        world.storage.upsert(table.path, rows, f"writer-{sequence}", 0)
        world.tier(table)

    visit(0, range(30))
    world.storage.drop_partition(table.path, "d0")
    world.clock.advance(5)
    visit(1, range(100, 120))
    world.storage.take_kv_snapshots(table.path)
    world.clock.advance(60)
    visit(2, range(200, 203))
    world.storage.maintenance.run()
    assert [log.log_start for log in world.storage.offsets(table).values()] == [20]
    results = check(world, table)
    assert not faults(results), results
    assert {(name, scope) for name, scope, _ in untold(results)} == {("rows", "d0/0")}
    assert sum(int(str(details).split()[0]) for *_, details in untold(results)) == 30
    file = next(file for file in data_files(world, table) if read(file)["id"][0].as_py() == 100)
    rewrite(file, read(file).slice(0, 15))
    assert [name for name, *_ in faults(check(world, table)) if name in ("rows", "values")] == ["rows", "values"]
    world.close()


def count_snapshot_requests(cut: Cut, monkeypatch: pytest.MonkeyPatch, *first: Mapping[BucketKey, KvSnapshot]) -> list[TableInfo]:
    """Records each time that the cluster is asked for KV snapshots. `first`: its first answers."""
    requests: list[TableInfo] = []
    ask_cluster, answers = cut.world.storage.kv_snapshots, iter(first)

    def kv_snapshots(table: TableInfo) -> Mapping[BucketKey, KvSnapshot]:
        requests.append(table)
        return next(answers, None) or ask_cluster(table)

    monkeypatch.setattr(cut.world.storage, "kv_snapshots", kv_snapshots)
    return requests


def test_the_kv_snapshots_of_a_table_are_asked_for_once(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make: Callable[..., TableInfo] = world.keyed_table if isinstance(world, PaimonWorld) else world.primary_key_table
    case = Cut(world, make("ships", buckets=3, log_ttl="1 s"))
    case.upsert(0, {key: f"row {key}" for key in range(40)})
    world.tier(case.table)
    world.storage.take_kv_snapshots(case.table.path)
    world.clock.advance(60)
    world.storage.maintenance.run()
    assert all(log.log_start > 0 for log in world.storage.offsets(case.table).values())
    requests = count_snapshot_requests(case, monkeypatch)
    assert not faults(check(world, case.table))
    assert len(requests) == 1


def test_a_kv_snapshot_that_is_deleted_meanwhile_is_replaced_by_a_newer_one(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = dict(cut.world.storage.kv_snapshots(cut.table))
    for number in range(4):
        cut.upsert(2 + number, {KEYS + number: f"newer {number}"})
        cut.world.storage.take_kv_snapshots(cut.table.path)
    cut.world.tier(cut.table)
    requests = count_snapshot_requests(cut, monkeypatch, stale)
    assert rows_of(cut) == [(True, "1005", "1005")]
    assert len(requests) == 2
