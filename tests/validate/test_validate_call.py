"""CALL sys.validate_table over the real service: rows, history, one at a time, and a child that goes with its caller."""

from __future__ import annotations

import asyncio
import csv
import io
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from support.services.sys_catalog import error_of, serving
from support.worlds.calling import until
from support.worlds.lake_world import LakeWorld
from support.worlds.memory_store import MemoryStore
from tiering.cluster.registry import EMBEDDED
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.memory.store import Store
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import InvalidArgument
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.validate_table import CheckResult, ValidateTable
from tiering.validate.child import ClusterValidation


@pytest.fixture(params=["memory", "sql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    empty_store = MemoryStore() if request.param == "memory" else SqlStore(sqlite_url(tmp_path / "coordinator.db"))
    yield empty_store
    empty_store.close()


@pytest.fixture
def tiered(world: LakeWorld, table: TableInfo) -> LakeWorld:
    """The world, once `table` is in its lake."""
    return world


def validating(
    world: LakeWorld,
    folder: Path,
    store: Store,
    children: list[subprocess.Popen[str]],
    stop: bool = False,
    stopped: threading.Event | None = None,
) -> Coordinator:
    """A coordinator over the same cluster and lake.

    `stop`: children are stopped (SIGSTOP) as soon as they run; the coordinator learns of them once `stopped` is set.
    """

    def validate(call: ValidateTable, started: Callable[[subprocess.Popen[str]], None]) -> Sequence[CheckResult]:
        def also(child: subprocess.Popen[str]) -> None:
            if stop:
                child.send_signal(19)
            if stopped is None:
                started(child)
                children.append(child)
            else:
                children.append(child)
                assert stopped.wait(30)
                started(child)

        validation = ClusterValidation(EMBEDDED, folder / "cluster", "iceberg", world.lake_properties)
        return validation.run(call.path, call.level, started=also)

    return Coordinator(store, world.storage, lambda _: world.lake, clock=world.clock, validator=validate)


def test_it_answers_a_row_a_check_and_keeps_them(tiered: LakeWorld, tmp_path: Path, store: Store) -> None:
    async def scenario() -> None:
        async with serving(validating(tiered, tmp_path, store, [])) as client:
            progress, rows = await client.call("validate_table", table="sales.orders", level="rows")
            assert rows.column("check").to_pylist() == ["base", "files", "rows", "rows", "offsets", "offsets", "values", "values"]
            assert rows.column("ok").to_pylist() == [True] * 8
            assert (
                progress[0] == "compares the lake table sales.orders with its log, level rows"
            )  # a slow one says later that it still runs
            kept = list(store.validations())
            assert [result.check for result in reversed(kept)] == rows.column("check").to_pylist()
            error = await error_of(client.call("validate_table", table="sales.orders", level="everything"))
            assert isinstance(error, InvalidArgument)
            assert "counts, offsets, rows" in error.hint

    asyncio.run(scenario())


def test_the_command_asks_the_service_unless_a_folder_is_named(tiered: LakeWorld, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(validating(tiered, tmp_path, MemoryStore(), [])) as client:

            async def run(*words: str) -> subprocess.CompletedProcess[str]:
                command = [
                    sys.executable,
                    "-m",
                    "tiering.cli.main",
                    "validate",
                    "sales.orders",
                    "--uri",
                    f"127.0.0.1:{client.port}",
                    *words,
                ]
                return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)

            right = await run("--level", "counts", "--format", "csv")
            assert (right.returncode, right.stderr) == (0, "")
            rows = list(csv.DictReader(io.StringIO(right.stdout)))
            assert [(row["check"], row["ok"]) for row in rows] == [("base", "true"), ("files", "true"), ("rows", "true"), ("rows", "true")]
            [file, *_] = (tmp_path / "lake").rglob("*.parquet")
            file.unlink()
            assert (await run()).returncode == 1
            refused = await run("--memory-limit", "2GB")
            assert refused.returncode == 2
            assert "--memory-limit needs --data or --fluss" in refused.stderr

    asyncio.run(scenario())


def test_a_caller_that_goes_takes_the_child_with_it(tiered: LakeWorld, tmp_path: Path) -> None:
    children: list[subprocess.Popen[str]] = []

    async def scenario() -> None:
        async with serving(validating(tiered, tmp_path, MemoryStore(), children, stop=True)) as client:
            call = client.start("validate_table", table="sales.orders")
            assert (await call.read()).progress
            await until(lambda: len(children) == 1)
            call.cancel()  # the call and not a task around it: what that hears of a cancellation it may keep to itself
            await until(lambda: children[0].poll() is not None)

    asyncio.run(scenario())
    assert children[0].returncode == -9


def test_a_caller_that_goes_while_the_child_is_started_takes_it_along_too(tiered: LakeWorld, tmp_path: Path) -> None:
    children: list[subprocess.Popen[str]] = []
    stopped = threading.Event()
    coordinator = validating(tiered, tmp_path, MemoryStore(), children, stop=True, stopped=stopped)

    async def scenario() -> None:
        steps = coordinator.control.perform_with_progress(ValidateTable(TablePath("sales", "orders"), "offsets", None, caller="ann"))

        async def drawn() -> None:
            async for _ in steps:
                pass

        call = asyncio.create_task(drawn())
        try:
            await until(lambda: len(children) == 1)
            call.cancel()
            await asyncio.sleep(0)  # it hears of it
            stopped.set()
            await until(lambda: children[0].poll() is not None)
        finally:
            for child in children:
                child.kill()

    asyncio.run(scenario())
    assert children[0].returncode == -9
