"""dbt itself runs the example project of `integrations/dbt`: through a session of its own, and over the Thrift server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.dbt.project import Outcome, Project
from support.doc_blocks import DocBlocks
from support.readers.environment import TEST_SECONDS
from support.running.cluster_of_processes import Deployment
from support.services.client_statements import ROWS
from sys_tables.registry import default_registry
from tiering.model.tables import TablePath

FLIGHTS, BOATS, SHIPS = (TablePath("demo", name) for name in ("flights", "boats", "ships"))

pytestmark = pytest.mark.timeout(TEST_SECONDS)


@pytest.fixture(scope="module")
def over_thrift(thrift_server: Path, blocks: DocBlocks, tmp_path_factory: pytest.TempPathFactory) -> Project:
    port = blocks["beeline"].partition("127.0.0.1:")[2].partition("/")[0]
    project = Project.copied(tmp_path_factory.mktemp("dbt"), DBT_TARGET="thrift", DBT_THRIFT_PORT=port)
    assert_succeeded(*project.run("deps"))
    return project


def catalog_columns(project: Project, kind: str) -> dict[str, list[str]]:
    """The columns of sources or nodes in `catalog.json`, by the last two parts of their ids."""
    catalog: Mapping[str, Any] = project.written("catalog.json")
    return {".".join(name.split(".")[2:]): list(entry["columns"]) for name, entry in catalog[kind].items()}


def assert_succeeded(*outcomes: Outcome) -> None:
    assert [(outcome.error, dict(outcome.nodes)) for outcome in outcomes if not outcome.success] == []


def test_the_example_over_the_thrift_server(over_thrift: Project) -> None:
    """dbt opens a session for each model, and closes it. Its first session is short, and closes what Spark loaded for it."""
    built, again, docs = over_thrift.run("build", "run", "docs generate")

    assert_succeeded(built, again, docs)
    assert {built.status(name) for name in ("flights_of_length", "late_tables")} == {"success"}
    assert {built.status(name) for name in ("no_table_fails", "source_unique_demo_flights_id")} == {"pass"}
    assert_the_catalog_is_complete(over_thrift)


def assert_the_catalog_is_complete(project: Project) -> None:
    sources = catalog_columns(project, "sources")
    assert sources.pop("demo.flights") == ["id", "text"]
    tables = {f"sys.{table.name}": table.schema.names for table in default_registry().tables}
    assert sources == {name: tables[name] for name in ("sys.lake_tiering_status", "sys.tiering_rounds")}
    assert catalog_columns(project, "nodes") == {
        "flights_of_length": ["text_length", "flights", "newest_id"],
        "late_tables": ["database_name", "table_name", "status", "lag_ms", "freshness_ms", "next_action"],
    }


def test_models_in_the_lake(over_thrift: Project) -> None:
    """A table of Iceberg in the catalog `lake`, which dbt replaces the second time."""
    in_the_lake = Project(over_thrift.folder, {**over_thrift.environment, "DBT_SCHEMA": "lake.reports"})
    build = "build --select flights_of_length"

    first, second, shown, docs = in_the_lake.run(build, build, "show --select flights_of_length --output json", "docs generate")

    assert_succeeded(first, second, shown, docs)
    assert catalog_columns(in_the_lake, "nodes") == {"flights_of_length": ["text_length", "flights", "newest_id"]}


def operation(macro: str, tables: str, timeout_ms: int = 60_000) -> list[str]:
    return ["run-operation", f"lakeward.{macro}", "--args", f"{{{tables}, timeout_ms: {timeout_ms}}}"]


def test_the_macros_wait_tier_and_fail_in_time(over_thrift: Project, service: Deployment) -> None:
    service.create(BOATS, freshness="1 h")
    service.append(BOATS, 0, ROWS)
    try:
        early, tiered, waited, unknown = over_thrift.run(
            operation("wait_until_fresh", "table: demo.boats", 0),
            operation("tier_before_run", "tables: [demo.boats]"),
            operation("wait_until_fresh", "table: demo.boats"),
            operation("wait_until_fresh", "table: demo.baots"),
        )
        status = service.status(BOATS)
    finally:
        service.drop(BOATS)

    assert "wait_until_fresh: rows of demo.boats are not in the lake after 0 ms" in early.message("wait_until_fresh")
    assert_succeeded(tiered, waited)
    assert (status.lake_records, status.pending_records) == (ROWS, 0)
    assert "[UnknownTable] there is no table demo.baots" in unknown.message("wait_until_fresh")


def test_a_round_that_fails_or_comes_too_late_fails_the_run(over_thrift: Project, service: Deployment, jdbc_url: str, jvm: Any) -> None:
    """The run fails with the error of the round. A paused table of `on-run-start` ends the run before its models."""
    spark = jvm.java.sql.DriverManager.getConnection(jdbc_url, "ann", "")
    for path in (SHIPS, BOATS):
        service.create(path, freshness="1 h")
        service.append(path, 0, ROWS)
    try:
        spark.createStatement().execute("CREATE TABLE lake.demo.ships USING iceberg AS SELECT 1 AS id")
        spark.createStatement().execute(f"CALL fluss.sys.pause_tiering('{FLIGHTS}')")
        failed, late, run = over_thrift.run(
            operation("tier_before_run", "tables: [demo.ships, demo.boats]"),
            operation("tier_before_run", "tables: [demo.boats]", 0),
            "run --select late_tables",
        )
    finally:
        spark.createStatement().execute(f"CALL fluss.sys.resume_tiering('{FLIGHTS}')")
        service.drop(SHIPS)
        service.drop(BOATS)
        spark.createStatement().execute("DROP TABLE IF EXISTS lake.demo.ships")
        spark.close()

    assert not failed.success
    assert "[UntrackedLakeTable]" in failed.message("tier_before_run")
    assert not late.success
    assert re.search(r"tier_before_run: the round of demo.boats is [A-Z]\w+ after 0 ms", late.message("tier_before_run"))
    assert not run.success
    assert "[TablePaused]" in run.error + str(dict(run.nodes))


def test_the_example_in_a_session(service: Deployment, home: Path, tmp_path: Path) -> None:
    """dbt is the Spark driver."""
    properties = f"--properties-file {home / 'fluss.conf'} pyspark-shell"
    project = Project.copied(tmp_path, DBT_TARGET="session", PYSPARK_SUBMIT_ARGS=properties)

    built, fresh, docs = project.run("deps", "build --exclude-resource-type test", "source freshness", "docs generate")[1:]

    assert_succeeded(built, fresh, docs)
    assert (fresh.status("flights"), fresh.status("flights_in_lake")) == ("pass", "pass")
    results = {result["unique_id"].rpartition(".")[2]: result for result in project.written("sources.json")["results"]}
    tiered_time = service.status(FLIGHTS).last_tiered_time
    assert tiered_time is not None
    assert abs(datetime.fromisoformat(results["flights"]["max_loaded_at"]) - tiered_time) < timedelta(milliseconds=1)
    assert results["flights_in_lake"]["max_loaded_at_time_ago_in_s"] < 1, "every row is in the lake"
    assert_the_catalog_is_complete(project)
