"""Primary-key tables beside Spark with the Iceberg runtime: all readers see the same rows, and a compaction of others loses nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.clusters.primary_key_table import PrimaryKeyTable, Row, TwoKeysTable, primary_key_info, with_columns
from support.lakes.foreign.spark import (
    RunningCompaction,
    StagedCompaction,
    compact,
    delete_by_equality,
    rewrite_position_delete_files,
)
from support.lakes.lake_kit import LakeKit, PreparedRound
from support.running.spark_sessions import spark_session
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.errors import BaseMoved, CommitOutcomeUnknown
from tiering.lake.base import Committable, LakeView
from tiering.lake.schema.sql_text import quoted
from tiering.model.tables import BucketKey
from tiering.model.upkeep import UpkeepOrder, UpkeepStats
from tiering.validate.duckdb_rows import LakeColumns, live_rows

FULL = UpkeepOrder(full=True)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> LakeKit:
    return LakeKit(tmp_path_factory.mktemp("primary_key"))


@pytest.fixture(scope="module")
def spark(kit: LakeKit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    kit.lake.ensure_table(primary_key_info("first"))  # pyiceberg makes the catalog's tables
    properties = {**lake_properties_for_spark(kit.properties), "spark.sql.catalog.lake.cache-enabled": "false"}
    with spark_session(tmp_path_factory.mktemp("warehouse"), properties) as session:
        yield session


def loaded(kit: LakeKit, name: str, rows: int = 200, bucket_count: int = 1) -> PrimaryKeyTable:
    table = PrimaryKeyTable(kit, primary_key_info(name, bucket_count=bucket_count))
    table.put(*table.rows(rows))
    table.tier("r1")
    return table


def by_spark(spark: SparkSession, table: PrimaryKeyTable) -> list[Row]:
    return sorted(spark.table(f"lake.{table.info.path}").toArrow().to_pylist(), key=table._key)


def by_duckdb(table: PrimaryKeyTable) -> list[Row]:
    """Returns the rows as the validation and SQL without Spark read them, with deletes of any writer."""
    files = table.kit.lake.file_lists(table.kit.view(table.info), None)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("like_ours", table.info.lake_schema().empty_table())
        types = {row[0]: row[1] for row in connection.execute("DESCRIBE SELECT * FROM like_ours").fetchall()}
        rows = live_rows(lambda sql, values: connection.execute(sql, dict(values)).fetchall(), files, LakeColumns(types), table.info.path)
        columns = ", ".join(f"{expression} AS {quoted(name)}" for name, expression in rows.expressions.items())
        read = connection.sql(f"SELECT {columns} FROM {rows.relation}").to_arrow_table()
    return sorted(read.to_pylist(), key=table._key)


def check_all(spark: SparkSession, table: PrimaryKeyTable) -> None:
    expected = table.expected()
    assert table.in_lake() == expected
    assert by_spark(spark, table) == expected
    assert by_duckdb(table) == expected
    assert table.kit.view(table.info).records == len(expected)


def test_every_reader_sees_the_same_rows_after_every_round(kit: LakeKit, spark: SparkSession) -> None:
    table = loaded(kit, "readers", bucket_count=2)
    check_all(spark, table)
    table.put(*table.rows(20, name="second"), *table.rows(10, start=500))
    table.delete(*table.rows(5, start=50))
    table.tier("r2")
    check_all(spark, table)
    with_columns(table, pa.field("note", pa.string()))
    table.put(*(row | {"note": "n"} for row in table.rows(15, start=10, name="third")))
    table.tier("r3")
    check_all(spark, table)
    table.put(*(row | {"note": None} for row in table.rows(150, name="fourth")))
    table.tier("r4")  # rewritten
    check_all(spark, table)
    table.delete(*table.rows(3))
    table.tier("r5")
    check_all(spark, table)


def test_rounds_go_on_after_a_foreign_compaction(kit: LakeKit, spark: SparkSession) -> None:
    table = loaded(kit, "between")
    table.put(*table.rows(20, name="second"))
    table.tier("r2")
    assert compact(spark, table) == 2
    table.put(*table.rows(30, name="third"))
    table.delete(*table.rows(5, start=100))
    prepared = table.prepare("r3")
    assert [result.deletes for result in prepared.committable.results] == [35]
    prepared.commit()
    check_all(spark, table)


@pytest.mark.in_turn("share")
@pytest.mark.parametrize("share", ["few", "most"])
def test_a_compaction_that_began_before_our_commit_and_ends_after_it_is_refused(kit: LakeKit, spark: SparkSession, share: str) -> None:
    """Few changes give position deletes in the file it rewrites, most of them replace that file."""
    table = loaded(kit, f"after_{share}")
    with RunningCompaction(spark, table) as theirs:
        table.put(*table.rows(20 if share == "few" else 150, name="second"))
        table.tier("r2")
        assert "Cannot commit rewrite" in theirs.end()
    check_all(spark, table)
    assert compact(spark, table) == (2 if share == "few" else 1)
    table.put(*table.rows(5, name="third"))
    table.tier("r3")
    check_all(spark, table)


def test_a_compaction_that_ran_while_our_round_did_makes_the_round_look_again(kit: LakeKit, spark: SparkSession) -> None:
    """The compaction begins before the round and ends between the round's reading and its commit."""
    table = loaded(kit, "around")
    with RunningCompaction(spark, table) as theirs:
        table.put(*table.rows(20, name="second"))
        prepared = table.prepare("r2")
        assert theirs.end() == ""
    with pytest.raises(BaseMoved):
        prepared.commit(base=kit.view(table.info))
    table.tier("r2")
    check_all(spark, table)


def test_a_compaction_of_other_buckets_lands_around_our_commit(kit: LakeKit, spark: SparkSession) -> None:
    table = loaded(kit, "beside", bucket_count=2)
    theirs = StagedCompaction(spark, table, bucket=1)
    table.put(*(row for row in table.rows(40, name="second") if table._hashed(row)[0] == BucketKey(None, 0)))
    prepared = table.prepare("r2")
    theirs.commit()
    prepared.commit(base=kit.view(table.info))
    check_all(spark, table)


def test_deletes_that_spark_wrote_are_known_dead(kit: LakeKit, spark: SparkSession) -> None:
    table = loaded(kit, "spark_deletes")
    table.put(*table.rows(20, name="second"))
    table.tier("r2")
    spark.sql(f"DELETE FROM lake.{table.info.path} WHERE id < 5").collect()
    table.put(*table.rows(10, name="third"))
    prepared = table.prepare("r3")
    assert [result.deletes for result in prepared.committable.results] == [5]
    prepared.commit()
    check_all(spark, table)


def test_a_rewrite_never_brings_back_rows_that_were_deleted_meanwhile(kit: LakeKit, spark: SparkSession) -> None:
    table = loaded(kit, "deleted_meanwhile")
    table.put(*table.rows(150, name="second"))
    prepared = table.prepare("r2")
    spark.sql(f"DELETE FROM lake.{table.info.path} WHERE id = 199").collect()
    with pytest.raises(BaseMoved):
        prepared.commit(base=kit.view(table.info))
    table.tier("r2")
    left = [row for row in table.expected() if row["id"] != 199]
    assert table.in_lake() == by_spark(spark, table) == left


def test_rounds_go_on_over_equality_deletes_of_others(kit: LakeKit, spark: SparkSession) -> None:
    """Fluss's own tiering writes them. Dead rows are deleted again, which is harmless, and nothing is rewritten."""
    big = 2**40
    table = PrimaryKeyTable(kit, primary_key_info("equality", bucket_count=1))
    table.put(*table.rows(20), *table.rows(5, start=big))
    table.tier("r1")
    delete_by_equality(spark, table, big, big + 1)
    assert kit.view(table.info).records is None
    assert by_duckdb(table) == by_spark(spark, table) == [row for row in table.expected() if row["id"] not in (big, big + 1)]
    table.put(*table.rows(1, start=big, name="again"), *table.rows(15, name="second"))
    table.tier("r2")
    assert by_duckdb(table) == by_spark(spark, table) == [row for row in table.expected() if row["id"] != big + 1]
    table.put(*table.rows(2, start=big, name="both"))
    table.tier("r3")
    assert by_duckdb(table) == by_spark(spark, table) == table.expected()


def test_buckets_that_share_partitions_go_on_after_a_compaction_mixed_their_rows(kit: LakeKit, spark: SparkSession) -> None:
    """Clean, with two bucket keys: the compacted file has rows of all buckets, and each bucket deletes its own in it."""
    table = TwoKeysTable(kit, "mixed", 3)
    table.put(*table.rows(300))
    table.tier("r1")
    table.put(*table.rows(40, name="second"))
    table.delete(*table.rows(20, start=200))
    table.tier("r2")
    assert by_spark(spark, table) == table.expected()
    assert compact(spark, table) == 6
    for number in range(3, 6):
        table.put(*table.rows(60, start=number * 10, name=f"round {number}"))
        table.delete(*table.rows(5, start=number * 50))
        table.tier(f"r{number}")
        assert table.in_lake() == by_spark(spark, table) == table.expected()
    [victim] = table.rows_of(2, 1, start=280)
    statement = f"DELETE FROM lake.{table.info.path} WHERE id = {victim['id']}"
    spark.sql(statement).collect()  # by position, in a delete file that is no bucket's own
    table.put(*table.rows_of(0, 20, name="last"), *table.rows_of(1, 120, name="last"))
    table.tier("r6")
    without = [row for row in table.expected() if row["id"] != victim["id"]]
    assert table.in_lake() == by_spark(spark, table) == without
    compact(spark, table)
    table.put(*table.rows(300, name="all"))
    table.tier("r7")
    assert table.in_lake() == by_spark(spark, table) == table.expected()


# --- upkeep rounds beside `rewrite_position_delete_files`


def with_own_partitions(kit: LakeKit, name: str) -> PrimaryKeyTable:
    """A table with a partition of the lake table for each of its two buckets."""
    return loaded(kit, name, bucket_count=2)


def with_shared_partition(kit: LakeKit, name: str) -> PrimaryKeyTable:
    """A clean table whose two buckets share a partition of the lake table."""
    table = TwoKeysTable(kit, name)
    table.put(*table.rows(200))
    table.tier("r1")
    return table


TABLES = pytest.mark.parametrize("make", [with_own_partitions, with_shared_partition])


def change(table: PrimaryKeyTable, rng: random.Random, round_id: str) -> None:
    """A round that inserts, updates and deletes some keys; so few that it writes position deletes and no bucket anew."""
    rows = table.rows(220, name=round_id)
    table.put(*rng.sample(rows, 12))
    table.delete(*rng.sample(rows, 5))
    table.tier(round_id)


def prepare_upkeep(table: PrimaryKeyTable, round_id: str) -> PreparedRound:
    """An upkeep round whose files are written and whose commit was not sent yet."""
    lake = table.kit.lake
    view = lake.ensure_table(table.info)
    assert view.marker is not None
    factory = lake.tiering_factory(table.info)
    tasks = lake.plan_upkeep(table.info, view, FULL, {}).tasks
    rewrites = tuple(factory.rewrite(task, round_id, f"{round_id}-{number}", lambda rows: False) for number, task in enumerate(tasks))
    marker = replace(view.marker, round_id=round_id, base_round_id=view.marker.round_id)
    return PreparedRound(table.info, factory, Committable(round_id, (), rewrites, FULL), view, marker)


def commit_upkeep(upkeep: PreparedRound, base: LakeView) -> UpkeepStats:
    committer = upkeep.committer()
    committer.commit(upkeep.committable, base, upkeep.marker)
    assert committer.last_upkeep is not None
    return committer.last_upkeep


def assert_upkeep_works(table: PrimaryKeyTable, round_id: str) -> None:
    """An upkeep round rewrites both buckets, and leaves no delete file."""
    upkeep = prepare_upkeep(table, round_id)
    stats = commit_upkeep(upkeep, upkeep.base)
    deletes = table.kit.lake.file_lists(table.kit.view(table.info), None).position_deletes
    assert (stats.dropped, stats.files_after, len(deletes)) == (0, 2, 0)


def rewrite_deletes(spark: SparkSession, table: PrimaryKeyTable) -> int:
    return rewrite_position_delete_files(spark, table.info.path)


def assert_rows(spark: SparkSession, table: PrimaryKeyTable, deleted_by_user: Collection[int] = ()) -> None:
    """The rows of the log at the marker are in the lake, without those of some ids."""
    expected = [row for row in table.expected() if row["id"] not in deleted_by_user]
    assert table.in_lake() == by_spark(spark, table) == expected


@TABLES
def test_an_upkeep_round_drops_its_work_where_spark_rewrote_the_delete_files(
    kit: LakeKit, spark: SparkSession, make: Callable[[LakeKit, str], PrimaryKeyTable]
) -> None:
    """The rewritten delete files have a user's DELETE, whose row would come back with the files of the upkeep round."""
    table, rng = make(kit, f"deletes_meanwhile_{make.__name__}"), random.Random(5)
    change(table, rng, "r2")
    change(table, rng, "r3")
    upkeep = prepare_upkeep(table, "u1")
    user_deletes = int(rng.choice(table.expected())["id"])
    spark.sql(f"DELETE FROM lake.{table.info.path} WHERE id = {user_deletes}").collect()
    assert rewrite_deletes(spark, table) > 1
    with pytest.raises(CommitOutcomeUnknown):
        commit_upkeep(upkeep, upkeep.base)
    assert commit_upkeep(upkeep, kit.view(table.info)).dropped == len(upkeep.committable.rewrites) == 2
    assert_rows(spark, table, {user_deletes})
    assert_upkeep_works(table, "u2")
    assert_rows(spark, table, {user_deletes})
    table.put(*table.rows(1, start=user_deletes, name="again"))
    change(table, rng, "r4")
    assert_rows(spark, table)
