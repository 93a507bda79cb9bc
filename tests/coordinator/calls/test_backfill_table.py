"""`CALL sys.backfill_table` over a real lake: rows of another lake table come in once, and nothing later loses or doubles them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.background import tick
from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON_CLEAN
from support.stories.killed_calls import killed
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering import crash_points, errors
from tiering.cluster.log_writer import LogWriter
from tiering.coordinator.lake_repair.backfill_copy import CopiedRows, RowCopier
from tiering.lake.rules.upkeep import small_files
from tiering.model.schema.changes import AddColumn, ChangeType, DropColumn, RenameColumn, SchemaChange
from tiering.model.tables import TableInfo, TablePath
from tiering.model.upkeep import UpkeepOrder
from tiering.procedures.backfill_table import BackfillTable, BackfillTableResult
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult
from tiering.procedures.validate_table import CheckResult
from tiering.round.steps import actions as act
from tiering.validate.results import Level
from tiering.validate.run import validate


@pytest.fixture(params=[ICEBERG_CLEAN, PAIMON_CLEAN], ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=request.param)
    yield lake_world
    lake_world.close()


SOURCE = TablePath("archive", "orders")


def history(world: LakeWorld, first: int = -30, count: int = 30, schema: pa.Schema = SCHEMA, path: TablePath = SOURCE) -> str:
    """A lake table that an earlier pipeline wrote, in three files."""
    world.by_hand.create(path, schema)
    more(world, first, count, path)
    return str(path)


def more(world: LakeWorld, first: int, count: int, path: TablePath = SOURCE) -> None:
    for start in range(first, first + count, 10):
        numbers = range(start, min(start + 10, first + count))
        rows = pa.table({"id": numbers, "text": [f"old {number}" for number in numbers]}, schema=SCHEMA)
        world.by_hand.append(path, rows, {})


def backfill(world: LakeWorld, table: TableInfo, source: str, **more: object) -> BackfillTableResult:
    call = BackfillTable(table.path, source, caller="alice", **more)  # type: ignore[arg-type]
    return asyncio.run(world.coordinator.control.perform(call))


def tiered(world: LakeWorld, **options: object) -> TableInfo:
    """A table of which the lake has 20 rows, and the log 20 more."""
    table = world.table("orders", **options)  # type: ignore[arg-type]
    world.append(table, 0, 20)
    world.tier(table)
    world.append(table, 20, 20)
    return table


def ids(world: LakeWorld, table: TableInfo) -> list[int]:
    return sorted(world.by_hand.rows(table.path)["id"].to_pylist())


def validated(world: LakeWorld, table: TableInfo) -> list[CheckResult]:
    """The checks at level rows, of which none may fail."""
    results = list(validate(world.owner, world.lake, table.path, Level.ROWS))
    assert [row for row in results if row.ok is False] == []
    return results


def test_copied_rows_are_in_the_lake_and_proved_and_later_rounds_go_on(world: LakeWorld) -> None:
    table = tiered(world)
    source = history(world)
    before = world.view(table)
    result = backfill(world, table, source)
    assert (result.outcome, result.rows_copied, result.source_table) == ("backfilled", 30, "archive.orders")
    view = world.view(table)
    assert view.head == view.tiered == result.lake_snapshot_id
    assert view.head not in before.snapshots
    assert view.ranges == before.ranges, "a backfill moves no offset"
    assert ids(world, table) == list(range(-30, 20))
    [check] = [row for row in validated(world, table) if row.check == "backfilled"]
    assert (check.ok, check.actual) == (True, "30")
    assert check.details == f"30 rows were backfilled from archive.orders (snapshot {result.source_snapshot_id})"
    assert world.begin(table).end().error is None
    assert ids(world, table) == list(range(-30, 40))
    assert [row.details for row in validated(world, table) if row.check == "backfilled"] == [check.details]


def reconcile(world: LakeWorld, table: TableInfo, action: str) -> ReconcileLakeResult:
    return asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, action, caller="alice")))


def test_rows_may_come_before_the_first_round(world: LakeWorld) -> None:
    table = world.table("orders")
    world.lake.ensure_table(table)
    world.append(table, 0, 20)
    assert backfill(world, table, history(world)).rows_copied == 30
    assert ids(world, table) == list(range(-30, 0))
    assert world.begin(table).end().error is None
    assert ids(world, table) == list(range(-30, 20))
    assert len([row for row in validated(world, table) if row.check == "backfilled"]) == 1


def test_a_repeat_copies_nothing(world: LakeWorld) -> None:
    table = tiered(world)
    source = history(world)
    first = backfill(world, table, source, idempotency_key="k")
    world.begin(table).end()
    assert backfill(world, table, source, idempotency_key="k") == first
    again = backfill(world, table, source, idempotency_key="other")
    assert (again.outcome, again.round_id, again.rows_copied, again.checksum) == (
        "already_backfilled",
        first.round_id,
        first.rows_copied,
        first.checksum,
    )
    assert again.lake_snapshot_id == world.view(table).tiered
    assert ids(world, table) == list(range(-30, 40))


def test_another_snapshot_of_the_same_lake_table_is_refused(world: LakeWorld) -> None:
    table = tiered(world)
    backfill(world, table, history(world))
    more(world, -40, 10)
    with pytest.raises(errors.InvalidArgument, match=r"30 rows of its snapshot [0-9]+ were copied before"):
        backfill(world, table, str(SOURCE))
    assert ids(world, table) == list(range(-30, 20))
    further = history(world, -40, 10, path=TablePath("archive", "further"))
    assert backfill(world, table, further).rows_copied == 10
    assert ids(world, table) == list(range(-40, 20))
    [check] = [row for row in validated(world, table) if row.check == "backfilled"]
    assert check.details is not None
    assert check.details.startswith("30 rows were backfilled from archive.orders")
    assert "; 10 rows were backfilled from archive.further" in check.details


def test_parts_of_a_source_come_by_condition_each_once(world: LakeWorld) -> None:
    table = tiered(world)
    source = history(world)
    first = backfill(world, table, source, condition="id < -20 OR text = 'old -7'")
    assert (first.outcome, first.rows_copied) == ("backfilled", 11)
    assert backfill(world, table, source, condition="id<-20 or text='old -7'").outcome == "already_backfilled"
    for condition in ("id BETWEEN -25 AND -10", "id IN (-7)", "text LIKE 'old%'"):
        for dry_run in (True, False):
            with pytest.raises(errors.InvalidArgument, match="rows that match it were copied before"):
                backfill(world, table, source, condition=condition, dry_run=dry_run)
    with pytest.raises(errors.InvalidArgument, match=r"11 rows of its snapshot [0-9]+ were copied before"):
        backfill(world, table, source)
    more(world, -40, 10)
    assert backfill(world, table, source, condition="id >= -20 AND NOT (text = 'old -7')").rows_copied == 19
    assert ids(world, table) == list(range(-30, 20))
    assert sum(int(row.actual or 0) for row in validated(world, table) if row.check == "backfilled") == 30


def changed(world: LakeWorld, table: TableInfo, *changes: SchemaChange) -> TableInfo:
    """The table after changes of its columns."""
    now = world.storage.alter_table(table.path, {}, list(changes))
    tick(world.coordinator)
    return now


def test_rows_of_a_former_condition_are_known_after_its_column_got_another_name(world: LakeWorld) -> None:
    table = tiered(world)
    source = history(world)
    assert backfill(world, table, source, condition="text = 'old -7' OR text = 'old -8'").rows_copied == 2
    table = changed(world, table, RenameColumn(("text",), "note"))
    world.by_hand.rename_column(SOURCE, "text", "note")
    changed(world, table, AddColumn(pa.field("text", pa.string())))
    with pytest.raises(errors.InvalidArgument, match="rows that match it were copied before") as refusal:
        backfill(world, table, source, condition="id > -10")
    assert refusal.value.hint == "Exclude these rows, for example with AND NOT (...). Nothing was copied."
    assert backfill(world, table, source, condition="text = 'old -7' OR text = 'old -8'").outcome == "backfilled", "of another column"
    assert backfill(world, table, source, condition="id > -10 AND note NOT IN ('old -7', 'old -8')").rows_copied == 7
    assert ids(world, table) == list(range(-9, 20))


def test_a_condition_on_a_column_that_is_gone_cannot_be_compared(world: LakeWorld) -> None:
    table = tiered(world)
    source = history(world)
    backfill(world, table, source, condition="text = 'old -7'")
    changed(world, table, DropColumn(("text",)))
    world.by_hand.drop_column(SOURCE, "text")
    with pytest.raises(
        errors.InvalidArgument, match=r"the condition `text` = 'old -7' of an earlier backfill, because the column 'text' is gone"
    ):
        backfill(world, table, source, condition="id < -7")
    assert ids(world, table) == [-7, *range(20)]


def test_a_condition_on_a_float_selects_the_same_rows_after_it_became_a_double(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("price", pa.float32())])
    table = world.table("orders", schema=schema)
    world.lake.ensure_table(table)
    world.by_hand.create(SOURCE, schema)
    world.by_hand.append(SOURCE, pa.table({"id": [1, 2], "price": [1.1, 2.2]}, schema=schema), {})
    assert backfill(world, table, str(SOURCE), condition="price <= 1.1").rows_copied == 1
    changed(world, table, ChangeType(("price",), pa.float64()))
    with pytest.raises(errors.InvalidArgument, match="rows that match it were copied before"):
        backfill(world, table, str(SOURCE), condition="id < 3")
    assert ids(world, table) == [1]


def test_a_part_that_another_call_copied_meanwhile_is_not_copied_twice(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tiered(world)
    source, copy = history(world), RowCopier.copy

    def overtaken(copier: RowCopier, batches: Iterator[pa.RecordBatch], names: pa.Schema | None) -> CopiedRows:
        copied = copy(copier, batches, names)
        monkeypatch.setattr(RowCopier, "copy", copy)
        backfill(world, table, source, condition="id < -10")
        return copied

    monkeypatch.setattr(RowCopier, "copy", overtaken)
    with pytest.raises(errors.CannotReconcile, match=r"another CALL copied rows of archive\.orders into it"):
        backfill(world, table, source, condition="id < -20")
    assert ids(world, table) == list(range(-30, -10)) + list(range(20))


def test_a_dry_run_counts_the_rows_and_changes_nothing(world: LakeWorld) -> None:
    table = tiered(world)
    source, files = history(world), sorted(world.by_hand.data_files(table.path))
    before = world.view(table).head
    shown = backfill(world, table, source, dry_run=True, idempotency_key="k")
    assert (shown.outcome, shown.rows_copied, shown.round_id) == ("would_backfill", 30, None)
    assert (world.view(table).head, sorted(world.by_hand.data_files(table.path))) == (before, files)
    done = backfill(world, table, source, idempotency_key="k")
    assert (done.outcome, done.checksum) == ("backfilled", shown.checksum)


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("point", [crash_points.RECONCILE_CLAIMED, crash_points.RECONCILE_SENT, crash_points.RECONCILE_TOLD])
def test_wherever_a_backfill_dies_the_same_call_completes_it_once(
    world: LakeWorld, monkeypatch: pytest.MonkeyPatch, point: str, key: str | None
) -> None:
    table = tiered(world)
    source = history(world)
    killed(world, monkeypatch, point, lambda: backfill(world, table, source, idempotency_key=key))
    has_landed = point != crash_points.RECONCILE_CLAIMED
    assert world.tier(table).error is None, "rounds go on without any CALL"
    assert ids(world, table) == list(range(-30 if has_landed else 0, 40))
    again = backfill(world, table, source, idempotency_key=key)
    assert again.outcome == ("already_backfilled" if has_landed and key is None else "backfilled")
    assert again.rows_copied == 30
    world.append(table, 40, 20)
    assert world.tier(table).error is None
    assert ids(world, table) == list(range(-30, 60))
    validated(world, table)


def test_a_running_round_is_fenced_and_its_rows_come_with_the_next(world: LakeWorld) -> None:
    table = tiered(world)
    source = history(world)
    world.due()
    stepped = world.begin(table).advance_to(act.BeginCommit)
    backfill(world, table, source)
    assert isinstance(stepped.end().error, errors.Fenced)
    assert world.begin(table).end().error is None
    assert ids(world, table) == list(range(-30, 40))
    validated(world, table)


def test_it_is_refused_while_a_granted_round_is_open(world: LakeWorld) -> None:
    table = tiered(world)
    source = history(world)
    world.due()
    stepped = world.begin(table).advance_to(act.CommitLake)
    with pytest.raises(errors.CannotReconcile, match="was granted its commit and has not ended"):
        backfill(world, table, source)
    assert stepped.end().error is None
    assert backfill(world, table, source).outcome == "backfilled"
    assert ids(world, table) == list(range(-30, 40))


def test_after_a_compaction_of_another_program_the_totals_prove_all_rows_and_rounds_go_on(world: LakeWorld) -> None:
    table = tiered(world)
    backfill(world, table, history(world))
    world.by_hand.rewrite(table.path)
    assert [row.check for row in validated(world, table) if row.check == "backfilled"] == []
    assert any("without 30 rows that CALL sys.backfill_table copied" in (row.details or "") for row in validated(world, table))
    assert reconcile(world, table, "retier").outcome == "not_needed"
    world.by_hand.maintain(table.path)
    assert reconcile(world, table, "retier").outcome == "not_needed"
    world.begin(table).end()
    assert ids(world, table) == list(range(-30, 40))
    validated(world, table)


def test_a_rollback_below_a_backfill_takes_it_away_and_it_can_come_again(world: LakeWorld) -> None:
    table = tiered(world)
    source, before = history(world), world.by_hand.head(table.path)
    backfill(world, table, source)
    world.by_hand.roll_back(table.path, before)
    error = world.tier(table).error
    if world.lake_format == "iceberg":  # in Paimon, only missing offsets show a roll-back
        assert isinstance(error, errors.LakeRolledBack)
        assert reconcile(world, table, "retier").outcome == "reconciled"
        error = world.begin(table).end().error
    assert error is None
    assert ids(world, table) == list(range(40))
    assert [row.check for row in validated(world, table) if row.check == "backfilled"] == []
    assert backfill(world, table, source).outcome == "backfilled"
    assert ids(world, table) == list(range(-30, 40))
    validated(world, table)


def test_a_rollback_above_a_backfill_keeps_it(world: LakeWorld) -> None:
    table = tiered(world)
    backfill(world, table, history(world))
    kept = world.by_hand.head(table.path)
    world.begin(table).end()
    world.by_hand.roll_back(table.path, kept)
    world.append(table, 40, 20)
    assert world.tier(table).error is not None
    assert reconcile(world, table, "retier").outcome == "reconciled"
    assert world.begin(table).end().error is None
    assert ids(world, table) == list(range(-30, 60))
    assert len([row for row in validated(world, table) if row.check == "backfilled"]) == 1


def test_a_changed_value_and_a_lost_file_of_backfilled_rows_are_found(world: LakeWorld) -> None:
    table = tiered(world)
    backfill(world, table, history(world))
    [file] = [file for file in world.by_hand.data_files(table.path) if "backfill" in file.name]
    rows = pq.read_table(file)
    changed = rows.set_column(1, rows.schema.field(1), pa.array(["changed", *rows["text"].to_pylist()[1:]]))
    pq.write_table(changed, file)
    assert failed(world, table) == [("values", f"the file {file} has other rows than were backfilled into it")]
    world.by_hand.take_out(table.path, file.name)
    assert ("backfilled", "30 rows that CALL sys.backfill_table copied are missing") in failed(world, table)


def test_a_deleted_backfilled_row_is_found(world: LakeWorld) -> None:
    table = tiered(world)
    backfill(world, table, history(world))
    world.by_hand.delete(table.path, "id", -7)
    assert "rows" in [check for check, _ in failed(world, table)]
    with pytest.raises(errors.CannotReconcile):
        reconcile(world, table, "retier")


def test_upkeep_leaves_backfilled_files_alone(world: LakeWorld) -> None:
    table = tiered(world)
    backfill(world, table, history(world))
    [copied] = [file for file in world.by_hand.data_files(table.path) if "backfill" in file.name]
    with patch.object(small_files, "SMALL_FILES", 1):
        for number in range(2, 5):
            world.append(table, number * 20, 20)
            world.tier_all()
    world.tier_all(upkeep=UpkeepOrder(full=True))
    assert copied in world.by_hand.data_files(table.path)
    assert ids(world, table) == list(range(-30, 100))
    assert len([row for row in validated(world, table) if row.check == "backfilled"]) == 1


KEYS = [pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)]
REGIONS = pa.schema([*KEYS, pa.field("n", pa.int16())])


def test_rows_go_to_their_partitions_and_buckets(world: LakeWorld) -> None:
    """Some partitions are only in the history. The history has fewer columns, in another order, and deleted rows."""
    table = world.table("visits", 3, ("region",), REGIONS, ("id",))
    live = pa.table({"region": ["eu", "us"] * 15, "id": range(30), "n": pa.array(range(30), pa.int16())}, schema=REGIONS)
    LogWriter(world.storage, table.path, "live").append(live)
    world.tier_all()
    stored = pa.schema(KEYS[::-1])
    world.by_hand.create(SOURCE, stored)
    old = pa.table({"id": range(100, 400), "region": ["eu", "cn", "at"] * 100}, schema=stored)
    world.by_hand.append(SOURCE, old, {})
    world.by_hand.delete(SOURCE, "id", 103)
    assert backfill(world, table, str(SOURCE)).rows_copied == 299
    rows = world.by_hand.rows(table.path).sort_by("id").to_pylist()
    copied = [{"region": row["region"], "id": row["id"], "n": None} for row in old.to_pylist() if row["id"] != 103]
    assert rows == [*live.to_pylist(), *copied]
    checks = {row.scope: row.actual for row in validated(world, table) if row.check == "backfilled"}
    assert checks == {"at": "100", "cn": "100", "eu": "99"}
    LogWriter(world.storage, table.path, "later").append(pa.table({"region": ["cn"], "id": [1000], "n": [1]}, schema=REGIONS))
    world.tier_all()
    validated(world, table)
    world.by_hand.rewrite(table.path)
    assert reconcile(world, table, "retier").outcome == "not_needed"
    validated(world, table)


def failed(world: LakeWorld, table: TableInfo) -> list[tuple[str, str | None]]:
    results = validate(world.owner, world.lake, table.path, Level.ROWS)
    return [(row.check, row.details) for row in results if row.ok is False]


def test_rows_of_a_sorted_table_are_sorted_and_proved(world: LakeWorld) -> None:
    if world.lake_format != "iceberg":
        pytest.skip("only Iceberg tables can be sorted")
    table = tiered(world, datalake_sort="text DESC")
    backfill(world, table, history(world))
    [file] = [file for file in world.by_hand.data_files(table.path) if "backfill" in file.name]
    texts = pq.read_table(file)["text"].to_pylist()
    assert texts == sorted(texts, reverse=True)
    assert world.begin(table).end().error is None
    assert len([row for row in validated(world, table) if row.check == "backfilled"]) == 1
    world.by_hand.rewrite(table.path)
    assert reconcile(world, table, "retier").outcome == "not_needed"
    validated(world, table)


@pytest.mark.parametrize("on_drop", ["keep", "drop"])
def test_columns_change_before_and_after_a_backfill(world: LakeWorld, on_drop: str) -> None:
    """Rows of a backfill stay proved when columns are renamed, added, widened and dropped, also after a compaction of another program."""
    columns = pa.schema([*SCHEMA, pa.field("n", pa.int32()), pa.field("gone", pa.string())])
    table = world.table("orders", schema=columns, **{"datalake.on-drop-column": on_drop})
    rows = pa.table({"id": range(10), "text": ["new"] * 10, "n": pa.array(range(10), pa.int32()), "gone": ["x"] * 10}, schema=columns)
    LogWriter(world.storage, table.path, "first").append(rows)
    world.tier_all()
    world.by_hand.create(SOURCE, columns)
    world.by_hand.append(SOURCE, rows.set_column(0, columns.field(0), pa.array(range(-10, 0), pa.int64())), {})
    assert backfill(world, table, str(SOURCE)).rows_copied == 10
    changes = [RenameColumn(("text",), "note"), AddColumn(pa.field("more", pa.string())), DropColumn(("gone",))]
    table = world.storage.alter_table(table.path, {}, changes)
    tick(world.coordinator)
    later = pa.table({"id": [10], "note": ["new"], "n": pa.array([1], pa.int32()), "more": ["y"]}, schema=table.schema)
    LogWriter(world.storage, table.path, "later").append(later)
    world.tier_all()
    assert ids(world, table) == list(range(-10, 11))
    assert len([row for row in validated(world, table) if row.check == "backfilled"]) == 1
    history(world, -20, 10, path=TablePath("archive", "other"))
    with pytest.raises(errors.InvalidArgument, match="lacks its column 'text'"):
        backfill(world, table, "archive.other")
    world.by_hand.create(TablePath("archive", "further"), pa.schema([pa.field("id", pa.int64()), pa.field("note", pa.string())]))
    world.by_hand.append(TablePath("archive", "further"), pa.table({"id": [-11], "note": ["old"]}), {})
    assert backfill(world, table, "archive.further").rows_copied == 1
    validated(world, table)
    world.by_hand.rewrite(table.path)
    validated(world, table)
    assert ids(world, table) == list(range(-11, 11))
