"""Drawn CALLs to a real coordinator, through the real service and as SQL text: clear answers, and nothing that was not asked for.

`LAKEWARD_FUZZ_EXAMPLES` draws more of them than the suite does, `LAKEWARD_FUZZ_SEED` others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from support.background import tick
from support.depth import examples
from support.running.processes import wait_for
from support.services.fuzzed_calls import TABLES, Calls
from support.services.sys_catalog import Client, error_of, serving
from support.worlds.data_folders import FolderWorld
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, SCHEMA
from sys_tables.offline.engine import OfflineEngine, OfflineSource
from sys_tables.query.reading import statement_view_of
from sys_tables.registry import default_registry
from tiering import errors
from tiering.cli.sql.fresh_reads import reads_of_folder
from tiering.clock import RandomIds, SystemClock
from tiering.coordinator.server.coordinator import Coordinator
from tiering.model.tables import TablePath
from tiering.procedures.tier_table import TierTable
from tiering.procedures.validate_table import CheckResult, ValidateTable
from tiering.rpc.v1.common_pb2 import PbError
from tiering.rpc.v1.control_pb2 import CallProcedureRequest
from tiering.validate.results import level_of
from tiering.validate.run import validate
from tiering.wire.error_status import sent_error

EXAMPLES = examples(100)
SEED = int(os.environ.get("LAKEWARD_FUZZ_SEED", "20261122"))
AT_ONCE = 8
SECONDS = 10.0
REPEATED = 0.3
"""Share of the calls that are sent several times."""

Answer = tuple[str, Any]


class CalledWorld(FolderWorld):
    """Has the real clock, for calls that wait until a time is over; it validates in this process."""

    def _start(self) -> Coordinator:
        prove = lambda call, _: self.validated(call)  # noqa: E731
        coordinator = Coordinator(self.store, self.storage, lambda _: self.lake, clock=SystemClock(), ids=RandomIds(), validator=prove)
        tick(coordinator)
        return coordinator

    def validated(self, call: ValidateTable) -> list[CheckResult]:
        return list(validate(self.storage, self.lake, call.path, level_of(call.level), call.snapshot_id))

    def fill(self) -> None:
        """The tables that the drawn CALLs are about."""
        logs = self.table("logs")
        self.append(logs, 0, 10)
        primary_keys = self.primary_key_table("primary_keys")
        rows = pa.table({"id": range(5), "text": list("abcde")}, schema=PRIMARY_KEY_SCHEMA)
        self.storage.upsert(primary_keys.path, rows, "w", 0)
        self.storage.take_kv_snapshots(primary_keys.path)
        regions = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string(), nullable=False)])
        parts = self.table("parts", 1, ("region",), regions)
        self.storage.append(parts.path, pa.table({"id": [1, 2], "region": ["eu", "us"]}, schema=regions), "w", 0)
        plain = self.table("plain", 1, (), SCHEMA)
        self.storage.alter_table(plain.path, {"table.datalake.enabled": "false"})
        tick(self.coordinator)
        for tiered in (logs, primary_keys):
            asyncio.run(self._asked_for(tiered.path))
            self.begin(tiered).end()
        wait_for("the lease that the rounds released in the background is gone", lambda: not self.storage.leases())

    async def _asked_for(self, path: TablePath) -> None:
        async for _ in self.coordinator.control.perform_with_progress(TierTable(path, wait=False, caller="ann")):
            pass

    def everything(self) -> list[object]:
        """Returns all that CALLs change of tables and leases, without the observations of a lake."""
        records = {
            record.table_id: (record.state, record.tiering_epoch, record.pause, record.error, record.error_count)
            for record in self.coordinator.table_records.live()
        }
        return [records, list(self.storage.leases())]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CalledWorld]:
    called_world = CalledWorld(tmp_path)
    called_world.fill()
    yield called_world
    called_world.close()


@contextlib.asynccontextmanager
async def passing_time(coordinator: Coordinator) -> AsyncIterator[None]:
    """Wakes calls that wait, so that they look at the clock, as a tick of the service does; tables stay as they are."""

    async def wake() -> None:
        while True:
            coordinator.table_records.wake_ups.notify()
            await asyncio.sleep(0.02)

    waking = asyncio.create_task(wake())
    try:
        yield
    finally:
        waking.cancel()


async def answer_to(client: Client, request: CallProcedureRequest) -> Answer:
    """Rows, or the error; what is wrong with either raises AssertionError."""
    try:
        pieces = [step.arrow async for step in client.control.CallProcedure(request, timeout=SECONDS)]
    except grpc.RpcError as error:
        return "error", _checked(error)
    return "rows", pa.ipc.open_stream(b"".join(pieces)).read_all().to_pylist()


def _checked(error: Any) -> PbError:
    sent = sent_error(error)
    assert sent, f"{error.code()} without details: {error.details()}"
    _check_class(sent.error_class)
    assert error.code() is not grpc.StatusCode.INTERNAL, sent
    assert sent.message
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in sent.message + sent.hint), sent
    assert "hunter2" not in sent.message + sent.hint
    return sent


def _check_class(name: str) -> None:
    assert hasattr(errors, name), f"{name} is none of Lakeward's errors"


def is_dry(request: CallProcedureRequest) -> bool:
    return any(argument.name.lower() == "dry_run" and argument.value.truth for argument in request.arguments)


def named(request: CallProcedureRequest) -> bool:
    """Whether it has an idempotency key, and a procedure that takes one."""
    key = request.HasField("idempotency_key") or any(argument.name == "idempotency_key" for argument in request.arguments)
    return key and any(procedure.name == request.name.lower() and procedure.mutates for procedure in default_registry().procedures)


UNSTEADY = ("duration_ms", "lag_ms_before", "lag_ms_after", "state", "status")
"""A call that only begins a round is answered with how things stand, each time."""


def steady(answer: Answer) -> object:
    kind, content = answer
    if kind == "error":
        return kind, content.error_class
    return kind, [{name: value for name, value in row.items() if name not in UNSTEADY} for row in content]


def test_drawn_calls_get_clear_answers_and_repeats_the_same_ones(world: CalledWorld) -> None:
    calls = Calls(random.Random(SEED), lambda: [record.round.round_id for record in world.coordinator.table_records.live() if record.round])

    async def scenario() -> None:
        async with serving(world.coordinator) as client, passing_time(world.coordinator):
            for number in range(EXAMPLES):
                request = calls.request()
                before = world.everything()
                try:
                    repeats = AT_ONCE if calls.rng.random() < REPEATED else 1
                    answers = await asyncio.gather(*(answer_to(client, request) for _ in range(repeats)))
                    if is_dry(request):
                        assert world.everything() == before, "a dry run changed something"
                    if named(request):
                        assert all(steady(repeat) == steady(answers[0]) for repeat in answers), answers
                except BaseException as failure:
                    failure.add_note(f"call {number} of seed {SEED}: {str(request)[:2_000]}")
                    raise
            for table in default_registry().tables:
                await client.read(table.name)

    asyncio.run(scenario())
    world.restart()
    statuses = {f"{status.database_name}.{status.table_name}" for status in world.coordinator.view().table_statuses()}
    assert statuses == set(TABLES) - {"sales.plain"}


def test_drawn_statements_get_clear_answers_from_the_offline_engine(world: CalledWorld) -> None:
    calls = Calls(random.Random(SEED), list)
    look = lambda: statement_view_of(world.coordinator.view())  # noqa: E731
    engine = OfflineEngine(
        OfflineSource(
            look,
            lambda _: world.lake,
            reads_of_folder(world.store, world.storage, lambda _: world.lake),
            "iceberg",
            world.validated,
            "lakeward up",
        )
    )
    for number in range(EXAMPLES):
        statement = calls.statement()
        before = world.everything()
        try:
            engine.execute(statement)
        except errors.LakewardError as error:
            _check_class(error.error_class)
        except BaseException as failure:
            failure.add_note(f"statement {number} of seed {SEED}: {statement[:2_000]!r}")
            raise
        assert world.everything() == before, statement


def test_a_dry_run_with_the_key_of_a_known_call_is_told_what_tables_there_are(world: CalledWorld) -> None:
    async def scenario() -> None:
        async with serving(world.coordinator) as client:
            await client.call("retry_tiering", key="key-1", table="sales.logs")
            error = await error_of(client.call("retry_tiering", key="key-1", table="sales.nothing", dry_run=True))
            assert isinstance(error, errors.UnknownTable)
            assert error.hint == "The tables of sales are: logs, parts, plain, primary_keys."

    asyncio.run(scenario())


def test_the_drawn_calls_name_every_procedure_and_parameter() -> None:
    calls = Calls(random.Random(SEED), list)
    drawn = [calls.request() for _ in range(2_000)]
    wanted = {(procedure.name, parameter.name) for procedure in default_registry().procedures for parameter in procedure.parameters}
    assert wanted <= {(request.name, argument.name) for request in drawn for argument in request.arguments}
    assert TablePath("sales", "logs") in {TablePath(*name.split(".")) for name in TABLES}
