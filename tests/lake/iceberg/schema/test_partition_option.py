"""Lake tables of log tables with the option `table.datalake.partition`: their files, and how readers leave files out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual

from support.evolving.world import EvolvingWorld
from support.lake_kinds.kinds import ICEBERG_CLEAN
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.lake.iceberg.schema.layout import PARTITION_RECORD
from tiering.lake.iceberg.writing import partitioned_files
from tiering.lake.rules.upkeep import small_files
from tiering.lake.table_options import ON_DROP_COLUMN, PARTITION, SORT
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.schema.changes import AddColumn, DropColumn, RenameColumn
from tiering.model.sql_types import Instant
from tiering.model.upkeep import UpkeepOrder, UpkeepStats
from tiering.round.steps import actions as act

VISITS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("ts", pa.timestamp("us")),
        pa.field("seen", pa.timestamp("us", tz="UTC")),
        pa.field("day", pa.date32()),
        pa.field("page", pa.string()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("code", pa.binary()),
        pa.field("small", pa.int16()),
        pa.field("ok", pa.bool_()),
    ]
)
START = datetime(1969, 12, 30, 22, 30)


def visit(number: int) -> dict[str, Any]:
    """A row whose values are NULL if the number ends with a 7."""
    ts = START + timedelta(hours=7 * number, microseconds=number)
    values = {
        "ts": ts,
        "seen": ts.replace(tzinfo=UTC),
        "day": date(1969, 12, 28) + timedelta(days=number),
        "page": f"päge/{number % 5}=😀",
        "price": Decimal(number - 5) / 4,
        "code": bytes([number % 3, 255]),
        "small": number - 5,
        "ok": number % 2 == 0,
    }
    return {"id": number, **({} if number % 10 == 7 else values)}


@pytest.fixture
def new_world(tmp_path: Path) -> Callable[[str], EvolvingWorld]:
    return lambda partition: EvolvingWorld(tmp_path, ICEBERG_CLEAN, VISITS, options={PARTITION.name: partition})


def spec_of(world: EvolvingWorld) -> list[tuple[str, str]]:
    return [(field.name, str(field.transform)) for field in world.iceberg(world.info).spec().fields]


def partitions(world: EvolvingWorld) -> Sequence[Any]:
    return [task.file.partition for task in world.iceberg(world.info).scan().plan_files()]


EVERY_TRANSFORM = [
    "days(ts), bucket(4, id)",
    "hours(seen), ok",
    "months(ts), truncate(3, page)",
    "years(day), bucket(3, page)",
    "day, truncate(10, small)",
    "price, code",
    "truncate(50, price), truncate(1, code)",
    "bucket(2, price), bucket(2, code), bucket(2, day), bucket(2, seen)",
    "ts, seen, page, small, id",
    "days(day), months(seen)",
]


@pytest.mark.parametrize("partition", EVERY_TRANSFORM)
def test_rounds_write_each_row_into_its_partition_and_prove_it(new_world: Callable[[str], EvolvingWorld], partition: str) -> None:
    world = new_world(partition)
    for first in (0, 20):
        world.append(*map(visit, range(first, first + 20)))
        world.tier_now()
        world.assert_exact()
    iceberg = world.iceberg(world.info)
    spec, schema = iceberg.spec(), iceberg.schema()
    for task in iceberg.scan().plan_files():
        rows = _rows_of(iceberg, task.file.file_path)
        for row in rows.to_pylist():
            for place, field in enumerate(spec.fields):
                source = schema.find_field(field.source_id)
                expected = field.transform.transform(source.field_type)(_stored(row[source.name]))
                assert task.file.partition[place] == expected, (field, row)
    world.cut_log()
    world.assert_exact()


def _rows_of(iceberg: Any, location: str) -> pa.Table:
    from pyarrow import parquet

    with iceberg.io.new_input(location).open() as stream:
        table: pa.Table = parquet.read_table(stream)
    return table


def _stored(value: Any) -> Any:
    """A value as Iceberg's transforms take it: times as integers."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def test_the_fields_have_the_names_that_spark_gives_them(new_world: Callable[[str], EvolvingWorld]) -> None:
    world = new_world("days(ts), bucket(4, id), truncate(2, page), small")
    world.append(visit(1))
    world.tier_now()
    expected = [("ts_day", "day"), ("id_bucket_4", "bucket[4]"), ("page_trunc_2", "truncate[2]"), ("small", "identity")]
    assert spec_of(world) == expected
    assert world.iceberg(world.info).properties[PARTITION_RECORD] == "0/0"


def test_conditions_leave_out_files_in_pyiceberg_and_in_fresh_reads(new_world: Callable[[str], EvolvingWorld]) -> None:
    world = new_world("days(ts)")
    world.append(*map(visit, range(40)))
    world.tier_now()
    iceberg, since = world.iceberg(world.info), START + timedelta(days=9)
    everything = len(list(iceberg.scan().plan_files()))
    recent = iceberg.scan(GreaterThanOrEqual("ts", since.isoformat()))
    assert 0 < len(list(recent.plan_files())) < everything / 3
    assert sorted(recent.to_arrow()["id"].to_pylist()) == [row["id"] for row in map(visit, range(40)) if row.get("ts", START) >= since]
    view = world.view(world.info)
    assert view.head is not None
    condition = Filter("ts", Operator.GREATER_OR_EQUAL, (Instant(_stored(since)),))
    readers = world.lake.row_readers(world.info, view, view.head, [condition])
    assert len(readers) == len(list(recent.plan_files()))


def test_duckdb_reads_only_the_files_of_a_bucket(new_world: Callable[[str], EvolvingWorld]) -> None:
    world = new_world("bucket(8, page)")
    world.append(*map(visit, range(40)))
    world.tier_now()
    iceberg, page = world.iceberg(world.info), visit(3)["page"]
    tasks = list(iceberg.scan(EqualTo("page", page)).plan_files())
    paths = [task.file.file_path.removeprefix("file://") for task in tasks]
    assert len(paths) < len(list(iceberg.scan().plan_files()))
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT id FROM read_parquet($paths) WHERE page = $page ORDER BY id", {"paths": paths, "page": page})
        assert [number for (number,) in rows.fetchall()] == [n for n in range(40) if visit(n).get("page") == page]


def test_all_values_share_one_budget_of_memory_and_few_open_files(
    new_world: Callable[[str], EvolvingWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned_files, "ROW_GROUP_BYTES", 2_000)
    monkeypatch.setattr(partitioned_files, "MAX_OPEN_FILES", 2)
    world = new_world("bucket(8, id)")
    world.append(*map(visit, range(200)))
    world.tier_now()
    assert len(partitions(world)) > 16, "files ended early"
    world.assert_exact()


def test_too_many_values_in_a_split_are_an_error_that_names_the_option(
    new_world: Callable[[str], EvolvingWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned_files, "MAX_VALUES", 5)
    world = new_world("id")
    world.append(*map(visit, range(40)))
    error = world.tier(world.info).error
    assert "more than 5 values of the option table.datalake.partition" in str(error)


def test_long_values_of_a_partition_are_no_names_of_folders(new_world: Callable[[str], EvolvingWorld]) -> None:
    world = new_world("page")
    world.append(*({"id": number, "page": "x" * 300 + str(number % 3)} for number in range(12)), {"id": 12, "page": "null"}, {"id": 13})
    world.tier_now()
    world.assert_exact()
    assert len({tuple(partition[place] for place in range(len(partition))) for partition in partitions(world)}) == 5


CHANGED = ["none", "days(ts)", "bucket(4, id)", "days(ts), page", "days(ts)", "none", "hours(ts), bucket(4, id)"]


def test_the_lake_table_follows_each_change_of_the_option_in_a_commit_of_its_own(new_world: Callable[[str], EvolvingWorld]) -> None:
    world = new_world(CHANGED[0])
    specs = []
    for number, text in enumerate(CHANGED):
        world.set_options(**{PARTITION.name: text})
        heads = len(world.iceberg(world.info).snapshots()) if number else 0
        world.lake.ensure_table(world.info)
        assert len(world.iceberg(world.info).snapshots()) == heads
        world.append(*map(visit, range(number * 20, number * 20 + 20)))
        world.tier_now()
        world.assert_exact()
        specs.append((world.iceberg(world.info).spec().spec_id, spec_of(world)))
    ids = [spec_id for spec_id, _ in specs]
    assert ids == [0, 1, 2, 3, 1, 0, 4], "an equal former spec is taken again"
    assert specs[-1][1] == [("ts_hour", "hour"), ("id_bucket_4", "bucket[4]")]
    metadata = world.iceberg(world.info).metadata
    fields = {(field.source_id, str(field.transform)): field.field_id for spec in metadata.partition_specs for field in spec.fields}
    assert len(fields) == len(set(fields.values())), "each field has one id in all specs"
    world.cut_log()
    world.assert_exact()


def test_a_spec_that_another_program_changed_is_a_drift(new_world: Callable[[str], EvolvingWorld]) -> None:
    world = new_world("days(ts)")
    world.append(*map(visit, range(20)))
    world.tier_now()
    with world.iceberg(world.info).update_spec() as spec:
        spec.add_field("page", "identity", "page")
    world.append(visit(21))
    error = world.tier(world.info).error
    assert "is partitioned by [ts_day: day(ts), page: identity(page)]" in str(error)
    with world.iceberg(world.info).update_spec() as spec:
        spec.remove_field("page")
    world.lake.check_fit(world.info)


def test_a_round_that_began_before_the_option_changed_still_commits_its_files(new_world: Callable[[str], EvolvingWorld]) -> None:
    world = new_world("days(ts)")
    world.append(*map(visit, range(20)))
    world.due()
    table = world.info
    running = world.begin(table).advance_to(act.CommitLake)
    world.set_options(**{PARTITION.name: "bucket(4, id)"})
    world.lake.ensure_table(world.info)  # as another process does
    assert running.end().error is None
    world.tiered = list(world.rows)
    world.assert_exact()
    assert {len(partition) for partition in partitions(world)} == {1}


def test_files_of_former_columns_and_options_are_read_together(new_world: Callable[[str], EvolvingWorld]) -> None:
    world = new_world("days(ts), page")
    world.append(*map(visit, range(20)))
    world.tier_now()
    world.change(RenameColumn(("page",), "site"), RenameColumn(("ts",), "moment"))
    world.set_options(**{PARTITION.name: "days(moment), site"})
    world.append({"id": 20, "site": "x", "moment": START})
    world.tier_now()
    world.assert_exact()
    assert spec_of(world) == [("ts_day", "day"), ("page", "identity")], "a renamed column changes no spec"
    world.set_options(**{PARTITION.name: "none"})
    world.change(DropColumn(("site",)), DropColumn(("moment",)))
    world.set_options(**{ON_DROP_COLUMN.name: "drop"})
    world.append({"id": 21})
    world.tier_now()
    world.assert_exact()
    assert {"site", "moment"} <= set(world.iceberg(world.info).schema().column_names), "columns of former specs stay"


def upkeep(world: EvolvingWorld) -> UpkeepStats:
    world.due()
    outcome = world.begin(world.info, upkeep=UpkeepOrder(full=True, manifests=True)).end()
    assert outcome.error is None, outcome.error
    assert outcome.stats.upkeep is not None
    return outcome.stats.upkeep


def test_rounds_merge_the_small_files_of_a_partition_value(
    new_world: Callable[[str], EvolvingWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_files, "SMALL_FILES", 1)
    world = new_world("truncate(400, price), code")
    for first in range(0, 100, 20):
        world.append(*map(visit, range(first, first + 20)))
        world.tier_now()
        world.assert_exact()
    files = [(repr(task.file.partition), task.file.file_path) for task in world.iceberg(world.info).scan().plan_files()]
    values = {value for value, _ in files}
    assert len(values) >= 6
    assert len(files) <= 2 * 2 * len(values), "of five rounds at most two files a value and bucket are left"
    world.cut_log()
    world.assert_exact()


def test_upkeep_rewrites_the_files_of_the_present_partition_and_leaves_those_of_former_ones(
    new_world: Callable[[str], EvolvingWorld],
) -> None:
    world = new_world("days(ts)")
    world.cluster.by_path[world.path] = replace(world.info, auto_compaction=False)
    for first in range(0, 60, 20):
        world.append(*map(visit, range(first, first + 20)))
        world.tier_now()
        world.set_options(**{PARTITION.name: "days(ts)" if first == 0 else "bucket(3, price), code"})
    former = {task.file.file_path for task in world.iceberg(world.info).scan().plan_files() if task.file.spec_id == 0}
    assert former
    for first in range(60, 120, 20):
        world.append(*map(visit, range(first, first + 20)))
        world.tier_now()
    stats = upkeep(world)
    assert stats.files_before > stats.files_after > 0
    tasks = list(world.iceberg(world.info).scan().plan_files())
    assert former < {task.file.file_path for task in tasks}
    present = [(repr(task.file.partition), task.file.file_path.split("-")[-2]) for task in tasks if task.file.spec_id == 1]
    assert len(present) == len(set(present)), "one file for each value and bucket"
    world.assert_exact()
    world.cut_log()
    world.assert_exact()


TEXTS = ["none", "days(ts)", "bucket(3, page)", "truncate(7, small), ok", "months(seen), code", "price", "hours(ts), bucket(2, id)"]


@pytest.mark.parametrize("seed", range(6))
def test_random_rounds_and_changes_of_option_and_columns_keep_every_row(
    new_world: Callable[[str], EvolvingWorld], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = Random(seed)
    monkeypatch.setattr(small_files, "SMALL_FILES", rng.choice([1, 8]))
    monkeypatch.setattr(partitioned_files, "ROW_GROUP_BYTES", rng.choice([500, 1 << 20]))
    world = new_world(rng.choice(TEXTS))
    first = 0
    for _ in range(6):
        if rng.random() < 0.5:
            world.set_options(**{PARTITION.name: rng.choice(TEXTS), SORT.name: rng.choice(["none", "page, ts DESC", "price"])})
        if rng.random() < 0.4:
            world.change(AddColumn(pa.field(f"more_{first}", pa.string())))
        count = rng.choice([1, 15, 40])
        world.append(*map(visit, range(first, first + count)))
        first += count
        world.tier_now()
        if rng.random() < 0.3:
            upkeep(world)
        world.assert_exact()
    world.cut_log()
    world.assert_exact()
    iceberg = world.iceberg(world.info)
    assert sorted(iceberg.scan().to_arrow()["id"].to_pylist()) == list(range(first))


SALES = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        pa.field("ts", pa.timestamp("us")),
        pa.field("page", pa.string()),
    ]
)


@pytest.mark.parametrize("bucket_keys", [(), ("id",)], ids=["no bucket key", "bucket key"])
def test_partitions_and_buckets_of_the_source_come_before_those_of_the_option(tmp_path: Path, bucket_keys: tuple[str, ...]) -> None:
    world = LakeWorld(tmp_path, kind=ICEBERG_CLEAN)
    options = {"datalake.partition": "days(ts), bucket(3, page)", "datalake.auto-compaction": "false"}
    table = world.table("sold", 2, ("region",), SALES, bucket_keys, **options)
    for number, regions in enumerate([["north"], ["north", "south"], ["south"], ["north"]]):
        rows = [
            {"region": region, **{name: visit(key)[name] for name in ("id", "ts", "page")}} for region in regions for key in range(1, 6)
        ]
        world.storage.append(table.path, pa.Table.from_pylist(rows, schema=pa.schema(list(table.schema))), "w", number)
        assert world.tier(table).error is None
        assert not faults(check(world, table))
    own = ["region", *(f"{key}_bucket" for key in bucket_keys)]
    iceberg = world.iceberg(table)
    assert [field.name for field in iceberg.spec().fields] == [*own, "ts_day", "page_bucket_3"]
    assert iceberg.properties[PARTITION_RECORD] == f"0/{len(own)}"
    assert world.lake.partition_rows(table, world.view(table)) == {"north": 15, "south": 10}
    files = len(list(iceberg.scan().plan_files()))
    world.due()
    stats = world.begin(table, upkeep=UpkeepOrder(full=True, partitions=frozenset(["north"]))).end().stats.upkeep
    assert stats is not None
    assert stats.files_before > stats.files_after
    assert len(list(world.iceberg(table).scan().plan_files())) == files - stats.files_before + stats.files_after
    assert not faults(check(world, table))
    world.storage.drop_partition(table.path, "north")
    assert not faults(check(world, table))
    assert world.view(table).head is not None
    world.close()
