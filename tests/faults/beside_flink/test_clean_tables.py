"""Clean tables of both formats beside Flink's tiering: what it added is adopted if it is what the log has, and refused by name if not.

Its committer of Fluss 1.0, which writes such tables, is scripted here: 0.9.1, the server of the tests, always writes system columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.flink.flink_on_iceberg import flink_on, share
from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON_CLEAN
from support.on_call import call, follow, in_lake
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.validated import check, faults
from tiering.cluster.log_writer import LogWriter
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.errors import CannotReconcile, LakeUnavailable
from tiering.lake.iceberg.reading import added_rows as iceberg_rows
from tiering.lake.paimon.reading import added_rows as paimon_rows
from tiering.lake.paimon.reading.clean_rows import OUT_OF_ORDER
from tiering.model.rounds import RoundState
from tiering.model.schema.changes import additions
from tiering.model.tables import BucketKey, TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake

NOT_OF_THE_LOG = "was given {} that are not those of the log"


@pytest.fixture(params=[ICEBERG_CLEAN, PAIMON_CLEAN], ids=lambda kind: kind.format)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path, kind=request.param)
    share(world)
    yield world
    world.close()


def tiered(world: LakeWorld, rows: int = 50) -> TableInfo:
    """A log table whose two buckets share files, tiered by us."""
    table = world.table("orders")
    world.append(table, 0, rows)
    assert world.tier(table).state is RoundState.SUCCEEDED
    return table


def ids(world: LakeWorld, table: TableInfo) -> list[int]:
    return sorted(world.by_hand.rows(table.path)["id"].to_pylist())


def refused(world: LakeWorld, table: TableInfo) -> str:
    """The message with which our next round refuses; nothing is adopted."""
    before = world.record(table).lake.offsets
    outcome = world.tier(table)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == ("ForeignTieringUnproved", False), outcome.error
    assert world.record(table).lake.offsets == before
    return outcome.error.message


def set_back(world: LakeWorld, table: TableInfo) -> None:
    """Follows the error's hint for a log table: with the named statement, or by hand, since Spark has none for Paimon."""
    if world.lake_format == "iceberg":
        [statement] = follow(world.coordinator, table, in_lake(world))
        assert "set_current_snapshot" in statement
        return
    assert follow(world.coordinator, table, in_lake(world)) == []
    [status] = world.coordinator.view().table_statuses()
    hint = re.search(r"Set the main branch on snapshot (\d+) \(in Paimon: CALL sys.rollback_to\)", status.error_hint or "")
    assert hint is not None, status.error_hint
    world.by_hand.roll_back(table.path, int(hint[1]))
    call(world.coordinator, "CALL fluss.sys.retry_tiering('sales.orders')")


def test_offsets_that_cannot_be_read_now_refuse_nothing_for_good(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The offsets may prove what the rows do not prove, so the next attempt reads them again."""
    table = tiered(world)
    world.append(table, 50, 30)
    flink = flink_on(world, table).plan().append()  # it has not told Fluss yet
    reader = iceberg_rows if world.lake_format == "iceberg" else paimon_rows
    with monkeypatch.context() as patched:
        patched.setattr(reader, "foreign_offsets", unavailable)
        error = world.tier(table).error
    assert error is not None
    assert (error.error_class, error.retryable) == ("LakeUnavailable", True)
    assert "503" in error.message
    flink.tell()
    assert_quiet(world, table, 80)


def unavailable(*_: object) -> None:
    raise LakeUnavailable("503 slow down")


def assert_quiet(world: LakeWorld, table: TableInfo, rows: int) -> None:
    """Every row once; both services go on."""
    assert world.tier(table).error is None
    assert ids(world, table) == list(range(rows))
    assert faults(check(world, table)) == []
    world.append(table, rows, 20)
    flink_on(world, table).plan().append().tell()
    assert world.tier(table).error is None
    world.append(table, rows + 20, 20)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert ids(world, table) == list(range(rows + 40))
    assert faults(check(world, table)) == []


def test_healthy_rounds_are_adopted_and_validated_against_the_log(world: LakeWorld) -> None:
    table = tiered(world)
    for start in (50, 80):
        world.append(table, start, 30)
        flink_on(world, table).plan().append().tell()
    assert world.tier(table).state is RoundState.EMPTY
    assert world.record(table).lake.offsets == {"0": 55, "1": 55}
    results = check(world, table)
    assert faults(results) == []
    assert [result.actual for result in results if (result.check, result.scope) == ("rows", "table")] == ["110"]
    assert_quiet(world, table, 110)


def test_proofs_begin_anew_behind_what_was_adopted(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 30)
    flink_on(world, table).plan().append().tell()
    world.append(table, 80, 10)
    assert world.tier(table).state is RoundState.SUCCEEDED
    marker = world.view(table).marker
    assert marker is not None
    assert {bucket: (proof.since, proof.rows) for bucket, proof in marker.proofs.items()} == {
        BucketKey(None, 0): (40, 5),
        BucketKey(None, 1): (40, 5),
    }
    assert faults(check(world, table)) == []


def test_one_that_died_before_it_told_is_adopted_and_told_for(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 30)
    flink_on(world, table).plan().append()
    assert world.tier(table).state is RoundState.SUCCEEDED
    recorded = world.storage.lake_snapshot(table)
    assert recorded is not None
    assert recorded.lake_snapshot_id == world.view(table).head
    assert_quiet(world, table, 80)


def test_a_table_that_only_the_other_tiered_is_taken_over(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 50)
    world.lake.ensure_table(table)
    flink_on(world, table).plan().append().tell()
    assert_quiet(world, table, 50)


def test_rows_of_a_round_that_slept_are_refused_and_the_former_head_mends_it(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 50)
    late = flink_on(world, table).plan()
    world.tier(table)
    late.append().tell()
    assert "was given rows that are not those of the log: 50 with the checksum" in refused(world, table)
    set_back(world, table)
    assert_quiet(world, table, 100)


def test_two_incarnations_are_refused_although_each_alone_would_fit(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 50)
    first, second = flink_on(world, table).plan(), flink_on(world, table).plan()
    first.append().tell()
    second.append().tell()
    assert "100 with the checksum" in refused(world, table)
    set_back(world, table)
    assert_quiet(world, table, 100)


def test_rows_behind_a_roll_back_are_refused(world: LakeWorld) -> None:
    table = tiered(world)
    ours = world.view(table).head
    assert ours is not None
    world.append(table, 50, 50)
    flink_on(world, table).plan().append().tell()
    world.append(table, 100, 20)
    late = flink_on(world, table).plan()
    world.by_hand.roll_back(table.path, ours)
    late.append().tell()
    assert "20 with the checksum" in refused(world, table)
    set_back(world, table)
    assert_quiet(world, table, 120)


def test_as_many_rows_with_another_value_are_refused(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 50)
    flink = flink_on(world, table).plan()
    flink.spoil = lambda rows: rows.set_column(1, rows.schema.field(1), pa.array(["other"] * rows.num_rows))
    flink.append().tell()
    message = refused(world, table)
    assert message.count("50 with the checksum") == 2
    for action in ("adopt", "accept", "deduplicate", "retier"):
        with pytest.raises(CannotReconcile, match="are not those of the log"):
            reconcile_lake(world.coordinator.call_parts, ReconcileLake(table.path, action, caller="alice"))


def test_what_cannot_be_compared_any_more_is_refused_and_adopted_on_a_word(world: LakeWorld) -> None:
    table = world.table("orders", log_ttl="1 s")
    world.append(table, 0, 50)
    world.tier(table)
    world.append(table, 50, 30)
    flink_on(world, table).plan().append().tell()
    world.clock.advance(60)
    world.storage.maintenance.run()
    assert all(log.log_start > 25 for log in world.storage.offsets(table).values())
    assert "does not hold all of the offsets [25, 40) of bucket 0" in refused(world, table)
    done = reconcile_lake(world.coordinator.call_parts, ReconcileLake(table.path, "adopt", caller="alice"))
    assert dict(done.offsets) == {"0": 40, "1": 40}
    world.append(table, 80, 10)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert ids(world, table) == list(range(90))


def test_offsets_that_can_be_read_nowhere_are_refused(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 30)
    flink = flink_on(world, table).plan().append()
    flink.offsets_file.unlink()
    assert "the present end of the table is unknown" in refused(world, table)


def test_one_that_comes_last_with_less_is_refused_and_its_word_moves_nothing_back(world: LakeWorld) -> None:
    """docs/beside-flink.md trace 5: the cluster's record goes back with it."""
    table = tiered(world)
    world.append(table, 50, 30)
    late = flink_on(world, table).plan()
    world.append(table, 80, 40)
    flink_on(world, table).plan().append().tell()
    assert world.tier(table).error is None
    late.append().tell()
    assert "was given rows that are not those of the log: 30 with the checksum" in refused(world, table)
    set_back(world, table)
    assert world.tier(table).error is None
    recorded = world.storage.lake_snapshot(table)
    assert recorded is not None
    assert dict(recorded.offsets) == {bucket: log.log_end for bucket, log in world.storage.offsets(table).items()}
    assert_quiet(world, table, 120)


def test_copies_that_a_compaction_put_together_are_refused_all_the_same(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 50)
    late = flink_on(world, table).plan()
    world.tier(table)
    late.append().tell()
    world.by_hand.rewrite(table.path)
    assert "50 with the checksum" in refused(world, table)
    set_back(world, table)
    assert_quiet(world, table, 100)


def test_a_compaction_behind_an_adoption_hides_nothing(world: LakeWorld) -> None:
    """Our round was EMPTY: the head that it passed is remembered, with its ends."""
    table = tiered(world)
    world.append(table, 50, 30)
    flink_on(world, table).plan().append().tell()
    assert world.tier(table).state is RoundState.EMPTY
    world.by_hand.rewrite(table.path)
    assert world.tier(table).error is None
    world.append(table, 80, 10)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert_quiet(world, table, 90)


def test_no_reader_needs_a_file_of_offsets_that_is_deleted_after_the_adoption(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 30)
    flink = flink_on(world, table).plan().append().tell()
    assert world.tier(table).state is RoundState.EMPTY
    flink.offsets_file.unlink()
    assert world.tier(table).error is None
    assert world.record(table).lake.offsets == {"0": 40, "1": 40}
    assert_quiet(world, table, 80)


def test_the_record_of_the_cluster_tells_ends_where_the_file_cannot_be_read(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 30)
    flink = flink_on(world, table).plan().append().tell()
    flink.offsets_file.unlink()
    assert world.tier(table).error is None
    assert world.record(table).lake.offsets == {"0": 40, "1": 40}
    assert_quiet(world, table, 80)


def test_a_column_that_is_new_at_the_source_hinders_no_comparison(world: LakeWorld) -> None:
    """The other service committed before any round gave it to the lake table."""
    table = tiered(world)
    world.append(table, 50, 30)
    flink_on(world, table).plan().append().tell()
    wider = world.storage.alter_table(table.path, {}, additions([pa.field("note", pa.string())]))
    assert world.tier(wider).error is None
    assert ids(world, table) == list(range(80))
    assert faults(check(world, wider)) == []


def keyed_rows(numbers: range | list[int], text: str) -> pa.Table:
    return pa.table({"id": list(numbers), "text": [f"{text} {number}" for number in numbers]}, schema=PRIMARY_KEY_SCHEMA)


def planes(world: LakeWorld) -> tuple[TableInfo, LogWriter]:
    """A primary-key table with 50 rows, tiered by us."""
    table = world.primary_key_table("planes", buckets=2)
    writer = LogWriter(world.storage, table.path, "writer")
    writer.upsert(keyed_rows(range(50), "first"))
    assert world.tier(table).state is RoundState.SUCCEEDED
    return table, writer


def change(writer: LogWriter, text: str, start: int) -> None:
    """Updates, one key twice, inserts, a key that comes and goes, deletes."""
    writer.upsert(keyed_rows(range(5), text))
    writer.upsert(keyed_rows([3, start, start + 1, start + 2], f"{text} again"))
    writer.delete(pa.table({"id": [start + 2, start // 10]}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")])))


def test_changes_of_healthy_rounds_are_adopted(world: LakeWorld) -> None:
    table, writer = planes(world)
    for number, text in enumerate(("second", "third", "fourth")):
        change(writer, text, 100 + 50 * number)
        flink_on(world, table).plan().append().tell()
    assert world.tier(table).state is RoundState.EMPTY
    assert faults(check(world, table)) == []
    change(writer, "fifth", 300)
    assert world.tier(table).state is RoundState.SUCCEEDED
    change(writer, "sixth", 400)
    flink_on(world, table).plan().append().tell()
    assert world.tier(table).error is None
    assert faults(check(world, table)) == []


def test_keys_that_only_the_other_tiered_are_taken_over(world: LakeWorld) -> None:
    """The live keys of a first round count: it may have begun with a KV snapshot. Its second round follows before the check."""
    table = world.primary_key_table("planes", buckets=2)
    writer = LogWriter(world.storage, table.path, "writer")
    writer.upsert(keyed_rows(range(50), "first"))
    world.lake.ensure_table(table)
    for text, start in (("second", 100), ("third", 200)):
        change(writer, text, start)
        flink_on(world, table).plan().append().tell()
    assert world.tier(table).error is None
    assert faults(check(world, table)) == []
    change(writer, "fourth", 300)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert faults(check(world, table)) == []


def test_keys_set_back_of_which_the_log_was_cut_begin_anew_with_kv_snapshots(world: LakeWorld) -> None:
    """docs/beside-flink.md trace 8c."""
    table = world.primary_key_table("planes", buckets=2, log_ttl="1 s")
    writer = LogWriter(world.storage, table.path, "writer")
    writer.upsert(keyed_rows(range(50), "first"))
    assert world.tier(table).state is RoundState.SUCCEEDED
    change(writer, "second", 100)
    stale = flink_on(world, table).plan()
    change(writer, "third", 200)
    assert world.tier(table).state is RoundState.SUCCEEDED
    truth = sorted(world.by_hand.rows(table.path).to_pylist(), key=lambda row: row["id"])
    stale.append().tell()
    world.storage.take_kv_snapshots(table.path)
    world.clock.advance(60)
    world.storage.maintenance.run()
    assert "another tiering service committed rows" in refused(world, table)
    [statement] = follow(world.coordinator, table, in_lake(world))
    assert "'retier'" in statement
    assert world.tier(table).error is None
    assert sorted(world.by_hand.rows(table.path).to_pylist(), key=lambda row: row["id"]) == truth


def test_keys_that_a_stale_round_set_back_are_refused_and_begin_anew(world: LakeWorld) -> None:
    table, writer = planes(world)
    change(writer, "second", 100)
    stale = flink_on(world, table).plan()
    change(writer, "third", 200)
    world.tier(table)
    assert faults(check(world, table)) == []
    stale.append().tell()
    expected = {"iceberg": NOT_OF_THE_LOG.format("rows"), "paimon": OUT_OF_ORDER}
    assert expected[world.lake_format] in refused(world, table)
    [statement] = follow(world.coordinator, table, in_lake(world))
    assert "'retier'" in statement
    assert world.tier(table).error is None
    assert faults(check(world, table)) == []
    change(writer, "fourth", 300)
    flink_on(world, table).plan().append().tell()
    assert world.tier(table).error is None
    assert faults(check(world, table)) == []


def test_rounds_that_came_in_the_wrong_order_are_refused_although_they_add_up(world: LakeWorld) -> None:
    """Number and checksum of all rows and deletes are those of the log, but the older value of a key lives."""
    table, writer = planes(world)
    writer.upsert(keyed_rows([7], "second"))
    first = flink_on(world, table).plan()
    writer.upsert(keyed_rows([7], "third"))
    second = flink_on(world, table).plan()
    second.starts = dict(first.ends)
    second.append()
    first.append()
    second.tell()
    expected = {"iceberg": NOT_OF_THE_LOG.format("living rows"), "paimon": OUT_OF_ORDER}
    assert expected[world.lake_format] in refused(world, table)


def test_deletes_that_the_log_does_not_have_are_refused(world: LakeWorld) -> None:
    table, writer = planes(world)
    writer.upsert(keyed_rows([7], "second"))
    flink = flink_on(world, table).plan()

    def with_another_delete(rows: pa.Table) -> pa.Table:
        first = rows.slice(0, 1)
        return pa.concat_tables([rows, first.set_column(0, rows.schema.field(0), pa.array([9] * first.num_rows, pa.int64()))])

    flink.spoil = with_another_delete
    flink.append().tell()
    assert "was given deletes that are not those of the log" in refused(world, table)
