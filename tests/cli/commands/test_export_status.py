"""`lakeward export-status`: every system table of one moment in one file, without secrets; what fails is named, nothing overwritten."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from support.repository import ROOT
from support.running.commands import Lakeward
from support.worlds.memory_coordinator import NOON, MemoryCoordinator
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import SystemTable, system_table
from sys_tables.registry import Registry, default_registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import add_SysCatalogServicer_to_server
from sys_tables.server.service import SysCatalogService
from tiering.access.requirements import EVERY_CALLER
from tiering.cli.main import app
from tiering.coordinator.interface import CoordinatorView
from tiering.errors import ClusterUnavailable
from tiering.model.declare import column
from tiering.wire.server import open_server

EVERY_TABLE = [table.name for table in default_registry().tables]
LINE = ["table_name", "observed_time", "row_number", "row", "error"]


def test_json_has_every_table_of_one_moment_with_its_columns(lakeward: Lakeward, tmp_path: Path) -> None:
    ended = lakeward("export-status", str(tmp_path / "s.json"), "--format", "json")
    assert (ended.status, ended.err) == (0, "")
    bundle = json.loads((tmp_path / "s.json").read_text())
    assert (bundle["format"], bundle["version"]) == ("lakeward-status", 1)
    assert list(bundle["tables"]) == EVERY_TABLE
    assert len({table["observed_time"] for table in bundle["tables"].values()}) == 1
    status = bundle["tables"]["lake_tiering_status"]
    assert [(row["database_name"], row["table_name"]) for row in status["rows"]] == [("sales", "orders"), ("web", "clicks")]
    assert status["columns"]["lag_ms"] == "int64"
    assert list(status["columns"]) == list(status["rows"][0])
    assert {"tier_table", "help"} <= {row["procedure_name"] for row in bundle["tables"]["procedures"]["rows"]}
    printed = json.loads(ended.out)
    assert [(row["table"], row["rows"]) for row in printed] == [
        (f"sys.{name}", len(bundle["tables"][name]["rows"])) for name in EVERY_TABLE
    ]


def test_the_page_lists_every_table() -> None:
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    answer = page.split("$ lakeward export-status status.json", 1)[1].split("```", 1)[0]
    assert re.findall(r"│ sys\.(\w+)", answer) == EVERY_TABLE


def test_csv_and_parquet_have_a_line_a_row_and_the_same_rows(lakeward: Lakeward, tmp_path: Path) -> None:
    assert lakeward("export-status", str(tmp_path / "s.csv")).status == 0
    assert lakeward("export-status", str(tmp_path / "S.PARQUET")).status == 0
    in_csv = list(csv.DictReader((tmp_path / "s.csv").read_text().splitlines()))
    parquet = pq.read_table(tmp_path / "S.PARQUET")
    assert list(in_csv[0]) == parquet.schema.names == LINE
    assert (parquet.schema.metadata or {})[b"lakeward.format"] == b"lakeward-status"
    rows = parquet.to_pylist()
    for name in EVERY_TABLE:
        lines = [line for line in in_csv if line["table_name"] == name]
        others = [row for row in rows if row["table_name"] == name]
        assert lines, name
        assert [line["row_number"] for line in lines] == ["" if row["row_number"] is None else str(row["row_number"]) for row in others]
    [orders] = [json.loads(row["row"]) for row in rows if row["table_name"] == "tables" and '"orders"' in row["row"]]
    assert orders["bucket_count"] == 3


def test_a_file_that_is_there_is_overwritten_by_force_alone(lakeward: Lakeward, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text("mine")
    refused = lakeward("export-status", str(file))
    assert (refused.status, refused.out) == (2, "")
    assert f"{file} already exists" in refused.err
    assert "--force" in refused.err
    assert file.read_text() == "mine"
    assert lakeward("export-status", str(file), "--force").status == 0
    assert json.loads(file.read_text())["format"] == "lakeward-status"
    assert os.listdir(tmp_path) == ["s.json"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("status.txt", "does not end with .parquet, .csv or .json"), ("status", "does not end with"), ("no/s.json", "cannot write")],
)
def test_a_file_that_cannot_be_is_refused_and_leaves_nothing(lakeward: Lakeward, tmp_path: Path, name: str, words: str) -> None:
    refused = lakeward("export-status", str(tmp_path / name))
    assert refused.status in (1, 2)
    assert words in refused.err
    assert os.listdir(tmp_path) == []


def test_without_a_service_there_is_no_file(lakeward: Lakeward, tmp_path: Path) -> None:
    assert lakeward("export-status", str(tmp_path / "s.parquet"), "--uri", "127.0.0.1:1").status == 3
    assert os.listdir(tmp_path) == []


# --- services that fail, and rows with secrets


@dataclass(frozen=True)
class Secretive:
    text: str = column("Free text.")
    options: dict[str, str] = column("A MAP.")
    words: tuple[str, ...] = column("An ARRAY.")
    api_token: str | None = column("Hidden by its name.")
    at: datetime | None = column("A time.")


@system_table("secretive", Secretive, requires=EVERY_CALLER, comment="Rows with secrets.")
def secretive(view: CoordinatorView, scan: ScanRequest) -> Iterator[Secretive]:
    options = {"s3.secret-access-key": "hush-1", "uri": "postgresql://me:hush-2@db/lake", "plain": "kept"}
    words = ("password=hush-3", "kept too")
    yield Secretive("see https://host/f?X-Amz-Signature=hush-4 and \u2603", options, words, "hush-5", datetime(2026, 1, 1, tzinfo=UTC))


@system_table("nothing", Secretive, requires=EVERY_CALLER, comment="No rows.")
def nothing(view: CoordinatorView, scan: ScanRequest) -> Iterator[Secretive]:
    yield from ()


@system_table("broken", Secretive, requires=EVERY_CALLER, comment="Fails after its first rows.")
def broken(view: CoordinatorView, scan: ScanRequest) -> Iterator[Secretive]:
    yield from secretive.rows(view, scan)
    raise ClusterUnavailable("cannot ask the cluster at postgresql://me:hush-6@db", hint="Start it.")


class Dying(SysCatalogService):
    """Goes down in the middle of the second table."""

    async def ReadAllTables(self, request: Any, context: Any) -> AsyncGenerator[pb.ReadAllTablesResponse, None]:
        async for message in super().ReadAllTables(request, context):
            yield pb.ReadAllTablesResponse(name=message.name, arrow=message.arrow) if message.name == "broken" else message
            if message.name == "nothing":
                await context.abort(grpc.StatusCode.UNAVAILABLE, "going down")


def exported(file: Path, *tables: SystemTable, service: type[SysCatalogService] = SysCatalogService) -> tuple[int, str]:
    """The command against a service with these tables: its exit status and what it printed."""

    async def run() -> tuple[int, str]:
        server = open_server()
        servicer = service(MemoryCoordinator(), Registry(tables))
        add_SysCatalogServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            arguments = ["export-status", str(file), "--uri", f"127.0.0.1:{port}", "--format", "csv"]
            with capture_logs():  # the service's own, which are not what the command says
                result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
        finally:
            await server.stop(grace=None)
            servicer.close()
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    return asyncio.run(run())


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
def test_a_table_that_cannot_be_read_is_named_and_the_others_are_there(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"s.{ending}"
    status, printed = exported(file, secretive, broken, nothing)
    assert status == 1
    outcomes = {row["table"]: (row["rows"], row["error"]) for row in csv.DictReader(io.StringIO(printed))}
    error = "ClusterUnavailable: cannot ask the cluster at postgresql://***@db"
    assert outcomes == {"sys.broken": ("", error), "sys.nothing": ("0", ""), "sys.secretive": ("1", "")}
    contents = tables_of(file)
    assert list(contents) == ["broken", "nothing", "secretive"]
    assert (contents["broken"], contents["nothing"]) == (error, [])
    assert contents["secretive"] == [
        {
            "text": "see https://host/f?X-Amz-Signature=*** and \u2603",
            "options": {"s3.secret-access-key": "***", "uri": "postgresql://***@db/lake", "plain": "kept"},
            "words": ["password=***", "kept too"],
            "api_token": "***",
            "at": "2026-01-01T00:00:00+00:00",
        }
    ]
    assert b"hush" not in file.read_bytes()


def tables_of(file: Path) -> dict[str, Any]:
    """By table its rows, or the text of its error."""
    if file.suffix == ".json":
        tables = json.loads(file.read_text())["tables"]
        assert tables["nothing"]["observed_time"] == NOON.isoformat()
        return {
            name: f"{contents['error']['error_class']}: {contents['error']['message']}" if "error" in contents else contents["rows"]
            for name, contents in tables.items()
        }
    lines = pq.read_table(file).to_pylist() if file.suffix == ".parquet" else list(csv.DictReader(file.read_text().splitlines()))
    by_table: dict[str, Any] = {}
    for line in lines:
        rows = by_table.setdefault(line["table_name"], [])
        if line["row"]:
            rows.append(json.loads(line["row"]))
        elif line["error"]:
            by_table[line["table_name"]] = line["error"]
    return by_table


def test_a_service_that_goes_down_meanwhile_leaves_what_it_said_and_names_the_rest(tmp_path: Path) -> None:
    status, printed = exported(tmp_path / "s.json", nothing, secretive, service=Dying)
    assert status == 1
    errors = {row["table"]: row["error"] for row in csv.DictReader(io.StringIO(printed))}
    assert errors["sys.secretive"].startswith("ServiceUnreachable: no Lakeward service answers at 127.0.0.1:")
    assert "going down" in errors["sys.secretive"]
    assert list(json.loads((tmp_path / "s.json").read_text())["tables"]) == ["nothing", "secretive"]
