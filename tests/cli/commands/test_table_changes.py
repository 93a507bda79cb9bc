"""`lakeward set-option`, `set-freshness`, `pause`, `resume`, `add-column` and `drop`: what they change, what they say, what they refuse."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON_CLEAN, LakeKind
from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from support.running.processes import wait_for
from support.running.terminals import Terminal
from tiering.cli.commands.set_option import option_changes
from tiering.cli.spark.types import arrow_type
from tiering.client import LakewardClient
from tiering.errors import InvalidArgument, UnknownTable
from tiering.lake.base import LakeSnapshot, LakeView
from tiering.lake.maintenance import LakeSurvey, check_own_lake_table
from tiering.lake.marker import Marker
from tiering.lake.registry import open_lake
from tiering.model.names import table_path
from tiering.model.tables import TableInfo

TOOLS = table_path("changes", "tools")
FRESHNESS = "table.datalake.freshness"


@pytest.fixture
def tools(stocked: Deployment) -> Iterator[Deployment]:
    """The service with one more table, which is gone after the test."""
    stocked.create(TOOLS, freshness="1 h", buckets=1)
    with LakewardClient(stocked.uri) as client:
        wait_for("the coordinator knows the table", lambda: len(client.list_tiering_statuses(database_name="changes")) == 1)
        yield stocked
        with stocked.cluster() as cluster:
            if any(table.path == TOOLS for table in cluster.tables("changes")):
                cluster.drop_table(TOOLS)
        wait_for("the coordinator knows that it is gone", lambda: len(client.list_tiering_statuses(database_name="changes")) == 0)


def table(deployment: Deployment) -> TableInfo:
    with deployment.cluster() as cluster:
        return cluster.table(TOOLS)


def test_options_are_set_and_reset(tools: Deployment, lakeward: Lakeward) -> None:
    ended = lakeward("set-option", str(TOOLS), f"{FRESHNESS}=5 min", "table.log.ttl=7 d", "--format", "csv")
    assert (ended.status, ended.err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    assert [(row["name"], row["value"], row["outcome"]) for row in rows] == [(FRESHNESS, "5 min", "set"), ("table.log.ttl", "7 d", "set")]
    assert table(tools).freshness_ms == 300_000
    assert lakeward("set-option", str(TOOLS), f"{FRESHNESS}=", "--unset", "table.log.ttl").status == 0
    assert not {FRESHNESS, "table.log.ttl"} & table(tools).properties.keys()


def test_a_freshness_is_promised(tools: Deployment, lakeward: Lakeward) -> None:
    ended = lakeward("set-freshness", str(TOOLS), "5 min", "--dry-run", "--format", "csv")
    assert (ended.status, ended.out.splitlines()[-1]) == (0, f"{TOOLS},3600000,300000")
    assert table(tools).freshness_ms == 3_600_000
    assert lakeward("set-freshness", str(TOOLS), "5 min").status == 0
    assert table(tools).freshness_ms == 300_000
    with LakewardClient(tools.uri) as client:
        assert client.set_freshness(TOOLS, "6 min", idempotency_key="k").previous_ms == 300_000
        assert client.set_freshness(TOOLS, "6 min", idempotency_key="k").previous_ms == 300_000, "the answer of the first"
    refused = lakeward("set-freshness", str(TOOLS), "soon")
    assert refused.status == 2
    assert "'soon' is not a valid freshness" in refused.err


def test_a_table_is_paused_until_a_moment_and_resumed(tools: Deployment, lakeward: Lakeward) -> None:
    refused = lakeward("pause", str(TOOLS), "--until", "soon")
    assert (refused.status, "--until 'soon' is neither a time nor a duration" in refused.err) == (2, True)
    paused = lakeward("pause", str(TOOLS), "--until", "2100-01-01T02:00:00+02:00", "--format", "csv")
    assert (paused.status, paused.out.splitlines()) == (0, ["table,previous_paused,paused,status", f"{TOOLS},false,true,Scheduled"])
    with LakewardClient(tools.uri) as client:
        assert client.list_tiering_statuses(TOOLS)[0].paused_until == datetime(2100, 1, 1, tzinfo=UTC)
        assert lakeward("pause", str(TOOLS), "--until", "2100-01-02").status == 0
        assert client.list_tiering_statuses(TOOLS)[0].paused_until == datetime(2100, 1, 2, tzinfo=UTC), "UTC unless it has a zone"
    resumed = lakeward("resume", str(TOOLS), "--format", "csv")
    assert (resumed.status, resumed.out.splitlines()) == (0, ["table,previous_paused,paused,status", f"{TOOLS},true,false,Scheduled"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no option is named"),
        ((f"{FRESHNESS}=5 parsecs",), "'5 parsecs' is not a valid value of table.datalake.freshness"),
        (("table.colour=red",), "unknown table option 'table.colour'"),
        (("freshness",), "'freshness' does not have the form NAME=VALUE"),
        ((f"{FRESHNESS}=1 s", "--unset", FRESHNESS), "is named twice"),
        ((f"{FRESHNESS}=1 s", "table.log.ttl=soon"), "'soon' is not a valid value of table.log.ttl"),
    ],
)
def test_what_cannot_be_set_is_said_and_nothing_changes(
    tools: Deployment, lakeward: Lakeward, words: tuple[str, ...], message: str
) -> None:
    before = table(tools).properties
    ended = lakeward("set-option", str(TOOLS), *words)
    assert ended.status == 2
    assert message in ended.err
    assert table(tools).properties == before


def test_an_empty_value_resets_and_a_name_twice_is_refused() -> None:
    assert option_changes(["a=1", "b="], ["c"]) == {"a": "1", "b": None, "c": None}
    with pytest.raises(InvalidArgument, match="'a' is named twice"):
        option_changes(["a=1", "a=2"], ())


def test_a_column_is_added_behind_the_others(tools: Deployment, lakeward: Lakeward) -> None:
    ended = lakeward("add-column", str(TOOLS), "price", "decimal(10,2)")
    assert (ended.status, ended.out) == (
        0,
        "changes.tools: the column price DECIMAL(10,2) was added; the next round adds it to the lake table\n",
    )
    assert table(tools).schema.field(2) == pa.field("price", pa.decimal128(10, 2))
    again = lakeward("add-column", str(TOOLS), "price", "decimal(10,2)")
    assert again.status == 2
    assert "already has a column 'price'" in again.err


@pytest.mark.parametrize(
    ("name", "column_type", "message"),
    [
        ("c", "VARCHAR(10)", "the type 'VARCHAR(10)' is not supported: its length would not be checked; use STRING"),
        ("c", "VARIANT", "the type 'VARIANT' is not supported"),
        ("c", "INTERVAL DAY", "the type 'INTERVAL DAY' is not supported"),
        ("c", "text; DROP TABLE x", "is not a type of Spark SQL"),
        ("c", "DECIMAL(40,2)", "DECIMAL(p,s) has p digits, from 1 to 38"),
        ("__offset", "BIGINT", "__offset"),
    ],
)
def test_a_column_that_cannot_be_is_refused_by_name(
    tools: Deployment, lakeward: Lakeward, name: str, column_type: str, message: str
) -> None:
    before = table(tools).schema
    ended = lakeward("add-column", str(TOOLS), name, column_type)
    assert ended.status == 2
    assert message in ended.err
    assert table(tools).schema == before


def test_nested_types_are_read_as_spark_writes_them() -> None:
    expected = pa.struct([pa.field("a", pa.list_(pa.int32())), pa.field("b c", pa.map_(pa.string(), pa.timestamp("us")))])
    assert arrow_type("STRUCT<a: ARRAY<INT>, `b c`: MAP<STRING, TIMESTAMP_NTZ>>") == expected
    assert arrow_type("timestamp") == pa.timestamp("us", tz="UTC")
    assert arrow_type("dec(5)") == pa.decimal128(5, 0)


def test_a_table_is_dropped_without_a_question_only_if_told_so(tools: Deployment, lakeward: Lakeward) -> None:
    refused = lakeward("drop", str(TOOLS))
    assert refused.status == 2
    assert "Add --yes." in refused.err
    assert table(tools).path == TOOLS
    ended = lakeward("drop", str(TOOLS), "--yes")
    assert (ended.status, ended.out) == (0, "changes.tools was dropped. It had no rows in the lake.\n")
    with pytest.raises(UnknownTable):
        table(tools)
    assert "there is no table" in lakeward("drop", str(TOOLS), "--yes").err


@pytest.mark.parametrize("kind", [ICEBERG_CLEAN, PAIMON_CLEAN], ids=lambda kind: kind.name)
def test_a_lake_table_goes_with_its_table_or_after_it(tools: Deployment, lakeward: Lakeward, kind: LakeKind) -> None:
    lake = open_lake(kind.format, tools.lake_properties)
    path = table_path("changes", f"of_{kind.format}")
    for drop in (("--yes", "--with-lake"), ("--yes",)):
        tools.create(path, kind=kind)
        with tools.cluster() as cluster:
            lake.ensure_table(cluster.table(path))
        assert lakeward("drop", str(path), *drop).status == 0
        assert (lake.view(path) is None) is ("--with-lake" in drop)

    refused = lakeward("drop", str(path), "--with-lake")
    assert (refused.status, "Add --yes." in refused.err) == (2, True)
    ended = lakeward("drop", str(path), "--with-lake", "--yes")

    assert (ended.status, ended.out) == (0, f"The lake table {path} was dropped. The table itself was dropped before.\n")
    assert lake.view(path) is None
    nothing = lakeward("drop", str(path), "--with-lake", "--yes")
    assert (nothing.status, nothing.err.splitlines()[0]) == (
        2,
        f"lakeward: there is no table {path}, and no lake table with that name",
    )


def test_a_lake_table_that_lakeward_did_not_write_stays_and_its_table_too(tools: Deployment, lakeward: Lakeward) -> None:
    lake = open_lake("iceberg", tools.lake_properties)
    with tools.cluster() as cluster:
        lake.ensure_table(cluster.table(TOOLS))
    foreign = load_catalog("lake", **tools.lake_properties).load_table((TOOLS.database_name, TOOLS.table_name))
    foreign.append(foreign.schema().as_arrow().empty_table())

    ended = lakeward("drop", str(TOOLS), "--with-lake", "--yes")

    assert ended.status == 2
    assert "has snapshots without a marker of Lakeward" in ended.err
    assert table(tools).path == TOOLS
    assert lake.view(TOOLS) is not None
    assert lakeward("drop", str(TOOLS), "--yes").status == 0
    assert lakeward("drop", str(TOOLS), "--with-lake", "--yes").status == 2
    assert lake.view(TOOLS) is not None
    load_catalog("lake", **tools.lake_properties).purge_table((TOOLS.database_name, TOOLS.table_name))


@pytest.mark.parametrize(("cluster_id", "is_refused"), [("ours", False), ("theirs", True)])
def test_a_lake_table_that_another_cluster_tiers_is_not_dropped(cluster_id: str, *, is_refused: bool) -> None:
    marker = Marker(cluster_id, 1, "u", "r", 1, None, {})
    survey = LakeSurvey(
        LakeView(TOOLS, "u", 1, 1, marker, {1: LakeSnapshot(1, None, 1, datetime(2026, 1, 1, tzinfo=UTC), "append")}), marker
    )
    with pytest.raises(InvalidArgument, match="was tiered from the cluster theirs") if is_refused else nullcontext():
        check_own_lake_table(survey, "ours")


def test_a_person_is_asked_and_told_what_would_be_lost(tools: Deployment) -> None:
    tools.append(TOOLS, 0, 30)
    with LakewardClient(tools.uri) as client:
        wait_for("the lag is known", lambda: client.list_tiering_statuses(table_path=TOOLS)[0].pending_records == 30)
    with Terminal("drop", str(TOOLS), "--uri", tools.uri) as terminal:
        terminal.wait_for("30 records that are not in the lake yet would be lost. This cannot be undone. [y/N]")
        terminal.type("n\n")
        assert terminal.wait_ended() == 1
    assert table(tools).path == TOOLS
    with Terminal("drop", str(TOOLS), "--uri", tools.uri) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\n")
        assert terminal.wait_ended() == 0
    with pytest.raises(UnknownTable):
        table(tools)
