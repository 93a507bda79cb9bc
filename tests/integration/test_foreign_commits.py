"""Spark's own Iceberg procedures change a lake table between rounds and in the middle of one (DESIGN 6).

Each ends exact, or in the permanent error that says what happened; none loses or doubles a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from support.background import tick
from support.lakes.foreign.spark import StagedCompaction
from support.on_call import follow
from support.running.spark_sessions import spark_session
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.validated import check, faults
from tiering import errors
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.instants import to_milliseconds
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.table_options import SNAPSHOT_MIN_COUNT
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder
from tiering.round.steps import actions as act
from tiering.round.steps.actions import RoundOutcome


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path_factory.mktemp("deployment"))
    yield world
    world.close()


@pytest.fixture(scope="module")
def spark(world: LakeWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    world.lake.view(world.table("first").path)  # pyiceberg makes the catalog's tables
    with spark_session(tmp_path_factory.mktemp("warehouse"), lake_properties_for_spark(world.lake_properties)) as session:
        yield session


@pytest.fixture
def tiered(world: LakeWorld) -> Iterator[Callable[[str], TableInfo]]:
    """A table with three rounds in its lake; it is dropped after the test, so that only one table is due at a time."""
    tables: list[TableInfo] = []

    def make(name: str) -> TableInfo:
        for other in world.storage.tables():
            if other.path.table_name == "first":
                world.storage.drop_table(other.path)
        table = world.table(name)
        tables.append(table)
        for start in (0, 40, 80):
            world.append(table, start, 40)
            assert world.tier(table).state is RoundState.SUCCEEDED
        world.append(table, 120, 40)
        return table

    yield make
    for table in tables:
        world.storage.drop_table(table.path)
        tick(world.coordinator)


def later() -> str:
    return (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%d %H:%M:%S")


def rewrite(spark: SparkSession, table: TableInfo) -> None:
    [done] = spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table.path}', options => map('min-input-files', '2', 'rewrite-all', 'true'))"
    ).collect()
    assert done.rewritten_data_files_count >= 2


def rewrite_in_parts(spark: SparkSession, table: TableInfo) -> None:
    """Several commits, one after the other."""
    options = {
        "rewrite-all": "true",
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "3",
        "max-file-group-size-bytes": "1",
    }
    texts = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
    [done] = spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table.path}', options => map({texts}))").collect()
    assert done.rewritten_data_files_count >= 2


def rewrite_manifests(spark: SparkSession, table: TableInfo) -> None:
    spark.sql(f"CALL lake.system.rewrite_manifests(table => '{table.path}')").collect()


def expire(spark: SparkSession, table: TableInfo) -> None:
    spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{table.path}', older_than => TIMESTAMP '{later()}', retain_last => 1)"
    ).collect()


def remove_old_orphans(spark: SparkSession, table: TableInfo) -> None:
    """Removes orphan files with Spark's default: files of the last three days stay."""
    spark.sql(f"CALL lake.system.remove_orphan_files(table => '{table.path}')").collect()


def roll_back(spark: SparkSession, table: TableInfo) -> None:
    oldest = spark.sql(f"SELECT snapshot_id FROM lake.{table.path}.snapshots ORDER BY committed_at LIMIT 1").collect()[0].snapshot_id
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{table.path}', {oldest})").collect()


def append_by_hand(spark: SparkSession, table: TableInfo) -> None:
    spark.sql(f"INSERT INTO lake.{table.path} VALUES (-1, 'by hand', 0, 1000000, TIMESTAMP '2026-01-01 00:00:00')").collect()


def drop_and_make_anew(spark: SparkSession, table: TableInfo) -> None:
    columns = "id BIGINT, text STRING, __bucket INT NOT NULL, __offset BIGINT NOT NULL, __timestamp TIMESTAMP NOT NULL"
    spark.sql(f"DROP TABLE lake.{table.path}").collect()
    spark.sql(f"CREATE TABLE lake.{table.path} ({columns}) USING iceberg PARTITIONED BY (__bucket)").collect()


Foreign = Callable[[SparkSession, TableInfo], None]
HARMLESS: dict[str, tuple[Foreign, ...]] = {
    "rewrite_data_files": (rewrite,),
    "expire_snapshots": (expire,),
    "remove_orphan_files": (remove_old_orphans,),
    "all_of_them": (rewrite, rewrite_manifests, expire, remove_old_orphans),
    "in_parts": (rewrite_in_parts, expire),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_maintenance_between_rounds_leaves_the_lake_exact(
    world: LakeWorld, spark: SparkSession, tiered: Callable[[str], TableInfo], name: str
) -> None:
    table = tiered(f"between_{name}")
    for procedure in HARMLESS[name]:
        procedure(spark, table)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert sorted(world.assert_exact(table)["id"].to_pylist()) == list(range(160))


@pytest.mark.in_turn("before")
@pytest.mark.parametrize("before", [act.BeginCommit, act.CommitLake], ids=["before the fence", "after the fence"])
@pytest.mark.parametrize("name", HARMLESS)
def test_maintenance_in_the_middle_of_a_round_leaves_the_lake_exact(
    world: LakeWorld, spark: SparkSession, tiered: Callable[[str], TableInfo], name: str, before: type[act.Action]
) -> None:
    table = tiered(f"during_{name}_{before.__name__.lower()}")
    world.due()
    stepped = world.begin(table).advance_to(before)
    for procedure in HARMLESS[name]:
        procedure(spark, table)
    assert stepped.end().state is RoundState.SUCCEEDED
    assert sorted(world.assert_exact(table)["id"].to_pylist()) == list(range(160))


@pytest.mark.in_turn("before")
@pytest.mark.parametrize("before", [act.RewriteFiles, act.CommitLake], ids=["before the rewrite", "after the fence"])
def test_maintenance_in_the_middle_of_an_upkeep_round_leaves_the_lake_exact(
    world: LakeWorld, spark: SparkSession, tiered: Callable[[str], TableInfo], before: type[act.Action]
) -> None:
    table = tiered(f"upkeep_{before.__name__.lower()}")
    world.due()
    stepped = world.begin(table, upkeep=UpkeepOrder(full=True)).advance_to(before)
    for procedure in HARMLESS["all_of_them"]:
        procedure(spark, table)
    stepped.end()  # its files are gone, or it leaves its rewrites out
    assert settled(world, table)
    assert sorted(world.assert_exact(table)["id"].to_pylist()) == list(range(160))
    assert not faults(check(world, table))


def settled(world: LakeWorld, table: TableInfo) -> bool:
    """Whether a round succeeds, once a back-off is over."""
    world.clock.advance(301)
    return world.tier(table).state is RoundState.SUCCEEDED


def test_a_compaction_that_was_planned_before_an_upkeep_round_and_ends_after_it_is_refused(
    world: LakeWorld, spark: SparkSession, tiered: Callable[[str], TableInfo]
) -> None:
    table = tiered("upkeep_around")
    theirs = StagedCompaction(spark, cast(Any, SimpleNamespace(info=table)))
    world.due()
    assert world.begin(table, upkeep=UpkeepOrder(full=True)).end().state is RoundState.SUCCEEDED
    with pytest.raises(Py4JJavaError, match="Missing required files to delete"):
        theirs.commit()
    rewrite(spark, table)
    assert settled(world, table)
    assert sorted(world.assert_exact(table)["id"].to_pylist()) == list(range(160))


def test_a_query_as_of_a_time_reads_within_the_maximum_age_and_fails_beyond_it(
    world: LakeWorld, spark: SparkSession, tiered: Callable[[str], TableInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.clock.wall = datetime.now(UTC)
    monkeypatch.setattr(world, "lake", IcebergLake(world.lake_properties, world.clock))
    table = tiered("as_of")
    tag_oldest(world, table)
    world.storage.set_table_option(table.path, SNAPSHOT_MIN_COUNT.name, "1")
    times = []
    for start, hours in ((160, 1), (200, 80), (240, 10), (280, 1)):
        world.clock.advance(hours * 3_600)
        world.append(table, start, 40)
        assert world.tier(table).state is RoundState.SUCCEEDED
        times.append(world.clock.wall)
    assert rows_as_of(spark, table, times[-1] - timedelta(minutes=30)) == 280
    assert rows_as_of(spark, table, times[-1] - timedelta(hours=20)) == 200, "nothing was committed for three days then"
    with pytest.raises(Exception, match="Cannot find a snapshot older than"):
        rows_as_of(spark, table, times[0] - timedelta(minutes=30))
    assert spark.sql(f"SELECT count(*) AS n FROM lake.{table.path} VERSION AS OF 'audit'").collect()[0].n == 40


def tag_oldest(world: LakeWorld, table: TableInfo) -> None:
    """A user's tag on the oldest snapshot, made at the time of the world's clock: metadata that goes back in time is refused by Java."""
    loaded = world.iceberg(table)
    with patch("pyiceberg.table.update.datetime_to_millis", lambda _: to_milliseconds(world.clock.wall)):
        loaded.manage_snapshots().create_tag(loaded.metadata.snapshots[0].snapshot_id, "audit").commit()


def rows_as_of(spark: SparkSession, table: TableInfo, moment: datetime) -> int:
    spark.sql(f"REFRESH TABLE lake.{table.path}")
    text = moment.strftime("%Y-%m-%d %H:%M:%S+00:00")
    return int(spark.sql(f"SELECT count(*) AS n FROM lake.{table.path} TIMESTAMP AS OF '{text}'").collect()[0].n)


@pytest.mark.parametrize("during", [False, True], ids=["between rounds", "during a round"])
def test_rows_appended_by_hand_stay_beside_every_record(
    world: LakeWorld, spark: SparkSession, tiered: Callable[[str], TableInfo], during: bool
) -> None:
    table = tiered(f"appended_{during}")
    assert disturbed(world, spark, table, append_by_hand, during=during).state is RoundState.SUCCEEDED
    rows = world.iceberg(table).scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
    assert sorted(rows) == list(range(-1, 160))


@pytest.mark.parametrize("during", [False, True], ids=["between rounds", "during a round"])
@pytest.mark.parametrize(("disturb", "error"), [(roll_back, errors.LakeRolledBack), (drop_and_make_anew, errors.LakeTableReplaced)])
def test_what_takes_rows_away_parks_the_table_and_adds_nothing(
    world: LakeWorld,
    spark: SparkSession,
    tiered: Callable[[str], TableInfo],
    disturb: Foreign,
    error: type[errors.LakewardError],
    during: bool,
) -> None:
    table = tiered(f"{disturb.__name__}_{during}")
    outcome = disturbed(world, spark, table, disturb, during=during)
    left = world.iceberg(table).scan().to_arrow().num_rows
    assert isinstance(outcome.error, error)
    record = world.record(table)
    assert (record.state, record.retry_deadline) == ("Failed", None)
    assert left == (40 if disturb is roll_back else 0)
    world.clock.advance(3_600)
    tick(world.coordinator)
    assert world.record(table).state == "Failed"


def disturbed(world: LakeWorld, spark: SparkSession, table: TableInfo, disturb: Foreign, *, during: bool) -> RoundOutcome:
    """A round, and `disturb` before it or just before it sends its commit."""
    world.due()
    stepped = world.begin(table)
    if during:
        stepped.advance_to(act.CommitLake)
    disturb(spark, table)
    return stepped.end()


def write_orc(spark: SparkSession, table: TableInfo) -> None:
    """Data files in ORC, and a file of position deletes in Avro."""
    properties = "'write.format.default' = 'orc', 'write.delete.format.default' = 'avro', 'write.delete.mode' = 'merge-on-read'"
    spark.sql(f"ALTER TABLE lake.{table.path} SET TBLPROPERTIES ({properties})").collect()
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table.path}', options => map('rewrite-all', 'true'))").collect()
    spark.sql(f"DELETE FROM lake.{table.path} WHERE id = 3").collect()


def write_by_another_spec(spark: SparkSession, table: TableInfo) -> None:
    """Data files and a file of position deletes of a former partition spec."""
    spark.sql(f"ALTER TABLE lake.{table.path} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')").collect()
    spark.sql(f"ALTER TABLE lake.{table.path} ADD PARTITION FIELD truncate(1, text)").collect()
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table.path}', options => map('rewrite-all', 'true'))").collect()
    spark.sql(f"DELETE FROM lake.{table.path} WHERE id = 3").collect()
    spark.sql(f"ALTER TABLE lake.{table.path} DROP PARTITION FIELD truncate(1, text)").collect()


@pytest.mark.parametrize(("unusual", "statements"), [(write_orc, 2), (write_by_another_spec, 1)])
def test_files_that_no_round_can_look_into_are_rewritten_by_the_statements_that_are_named(
    world: LakeWorld, spark: SparkSession, unusual: Foreign, statements: int
) -> None:
    for other in world.storage.tables():
        world.storage.drop_table(other.path)
    tick(world.coordinator)
    table = world.primary_key_table(f"keys_{statements}")
    put_keys(world, table, 0, 20)
    assert world.tier(table).error is None
    unusual(spark, table)
    put_keys(world, table, 10, 20)
    outcome = world.tier(table)
    assert isinstance(outcome.error, errors.SchemaDrift), outcome
    ran = follow(world.coordinator, table, lambda statement: spark.sql(statement).collect())
    assert len(ran) == statements, ran
    assert world.tier(table).error is None
    rows = world.by_hand.rows(table.path)
    assert sorted(rows["id"].to_pylist()) == [number for number in range(30) if number != 3]
    assert sorted(number for number, text in zip(*rows.select(["id", "text"]).to_pydict().values(), strict=True) if text == "from 10") == [
        *range(10, 30)
    ]


def put_keys(world: LakeWorld, table: TableInfo, start: int, count: int) -> None:
    rows = pa.table({"id": range(start, start + count), "text": [f"from {start}"] * count}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, rows, f"keys-{start}", 0)
