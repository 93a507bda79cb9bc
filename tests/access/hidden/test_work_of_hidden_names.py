"""A page about a hidden table costs the same work as one about an unknown table, so its time tells nothing.

The measure is calls and not seconds: the reads that the console sends are the same, and so are the functions of the service and the
statements of its store that answer them. `bench/access/hidden_tables.py` measures the time.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from starlette.testclient import TestClient

from support.clusters.memory_cluster import log_table
from support.repository import ROOT
from support.worlds.coordinator_world import START, World
from sys_tables.console.app import console_app
from sys_tables.console.sign_in_pages import Site
from sys_tables.console.signing_in import SignInCodes
from sys_tables.query.reading import read_table
from sys_tables.registry import default_registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.server.messages import scan_request_from_pb
from tiering.access.grants import Grants
from tiering.access.identity import Authentication, Identity, acting_as
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.model.tables import TablePath

ANA = Identity("ana", Authentication.TOKEN)
POLICIES = """
permit (principal == User::"ana", action, resource in Database::"sales");
forbid (principal == User::"ana", action, resource == Table::"sales.layoffs");
"""
HIDDEN, UNKNOWN = "layoffs", "laypigs"
"""Names of the same length."""
PRODUCT = tuple(str(ROOT / package) for package in ("tiering", "sys_tables"))
PAGES = [
    "/tables/sales/NAME",
    "/?q=NAME",
    "/?q=sales.NAME",
    "/table-names?q=NAME",
    "/table-names?privilege=OPERATE&argument_table=NAME",
    "/events?table=sales.NAME",
    "/privileges?table=sales.NAME",
    "/actions/pause_tiering?table=sales.NAME",
    "/sql?statement=SELECT event_type FROM sys.tiering_events WHERE table_name = 'NAME'",
    *(
        f"/system/{table.name}?column=table_name&text=NAME"
        for table in default_registry().tables
        if "table_name" in table.schema.names and table.requires.privilege != "ADMIN"
    ),
]


class ReadsInThisThread:
    """The reads of the console as Ana, in the thread of the page. `work` counts what they did."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._registry = default_registry()
        self.work = Counter[str]()

    def rows(self, request: pb.ReadTableRequest) -> list[dict[str, Any]]:
        self.work[str(request).replace(HIDDEN, "NAME").replace(UNKNOWN, "NAME")] += 1
        return pa.ipc.open_stream(self.stream(request)).read_all().to_pylist()

    def stream(self, request: pb.ReadTableRequest) -> bytes:
        scan = scan_request_from_pb(request, self._registry.procedures)
        with acting_as(ANA):
            sys.setprofile(self._count)
            try:
                return b"".join(read_table(self._registry.table(request.name), self._world.coordinator.view(), scan))
            finally:
                sys.setprofile(None)

    def call(self, procedure: str, **arguments: Any) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _count(self, frame: FrameType, kind: str, argument: object) -> None:
        if kind == "call" and frame.f_code.co_filename.startswith(PRODUCT):
            self.work[f"{Path(frame.f_code.co_filename).name}: {frame.f_code.co_qualname}"] += 1


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadsInThisThread]:
    """A service of which Ana may describe two tables. The hidden one has a history like the others."""
    folder = tmp_path_factory.mktemp("world")
    tables = tuple(log_table(number, TablePath("sales", name)) for number, name in enumerate(("orders", HIDDEN, "places"), 1))
    world = World(tables, store=SqlStore(sqlite_url(folder / "coordinator.db")))
    (folder / "policy.cedar").write_text(POLICIES)
    world.coordinator.grants = Grants(folder / "policy.cedar", clock=lambda: 0.0)  # it does not look at the file each second
    for table in tables:
        world.append(10, table=table)
    world.due()
    tierer = world.tierer()
    for _ in tables:
        tierer.fail(tierer.get())
    counting = ReadsInThisThread(world)

    def statement(connection: Any, cursor: Any, text: str, *others: Any) -> None:
        counting.work[text] += 1

    event.listen(Engine, "before_cursor_execute", statement)
    yield counting
    event.remove(Engine, "before_cursor_execute", statement)
    world.coordinator.close()


@pytest.fixture(scope="module")
def browser(reads: ReadsInThisThread) -> TestClient:
    codes = SignInCodes()
    opened = TestClient(console_app(reads, codes, Site(7717), now=lambda: START), base_url="http://127.0.0.1:7717")
    opened.post(f"/sign-in/{codes.new()}")
    return opened


@pytest.mark.parametrize("page", PAGES)
def test_a_page_about_a_hidden_table_costs_the_work_of_one_about_an_unknown_table(
    browser: TestClient, reads: ReadsInThisThread, page: str
) -> None:
    work, answers = dict[str, Counter[str]](), dict[str, tuple[int, str]]()
    for name in (UNKNOWN, HIDDEN, UNKNOWN):  # the first time fills caches
        reads.work = Counter()
        answer = browser.get(page.replace("NAME", name))
        work[name], answers[name] = reads.work, (answer.status_code, answer.text.replace(name, "NAME"))
    assert answers[HIDDEN] == answers[UNKNOWN]
    assert sum(work[UNKNOWN].values()) > 5
    assert work[HIDDEN] == work[UNKNOWN]
