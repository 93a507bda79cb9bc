"""CALL sys.prove_table over the real service, and `lakeward prove` as a user types it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from support.proofs.prover import Prover
from support.services.sys_catalog import error_of, serving
from support.worlds.lake_world import LakeWorld
from support.worlds.memory_store import MemoryStore
from sys_tables.console.cells import shown
from tiering.access.grants import Grants
from tiering.access.identity import Authentication, Identity
from tiering.cluster.registry import EMBEDDED
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import InvalidArgument, UnknownTable
from tiering.model.tables import TableInfo
from tiering.validate.archive.sealing import TableProver
from tiering.validate.archive.spark_reader import NOT_ASKED, SparkReader
from tiering.validate.child import ClusterValidation

NO_JAVA = "not installed: no Java"
Scenario = Callable[[Any], Coroutine[Any, Any, None]]


def served(
    world: LakeWorld, prover: Prover, folder: Path, scenario: Scenario, spark: Callable[[], SparkReader] = lambda: NOT_ASKED
) -> MemoryStore:
    """Runs a scenario with a client of a service that proves tables, and returns the service's store."""
    store, validation = MemoryStore(), ClusterValidation(EMBEDDED, folder / "cluster", "iceberg", world.lake_properties)
    coordinator = Coordinator(
        store,
        world.storage,
        lambda _: world.lake,
        clock=world.clock,
        prover=TableProver(validation, folder / "proof-key.pem", spark),
    )

    async def run() -> None:
        async with serving(coordinator) as client:
            await scenario(client)

    asyncio.run(run())
    return store


def test_the_answer_has_the_archive_and_what_it_says(world: LakeWorld, prover: Prover, table: TableInfo, tmp_path: Path) -> None:
    async def scenario(client: Any) -> None:
        progress, rows = await client.call("prove_table", table="sales.orders")
        assert progress[0] == "compares the lake table sales.orders with its log, level rows"
        [row] = rows.to_pylist()
        archive = base64.b64decode(row.pop("archive"))
        assert next((reader["reader"], reader["rows"]) for reader in row.pop("readers")) == ("DuckDB", 60)
        assert row == {
            "table": "sales.orders",
            "lake_snapshot_id": world.view(table).head,
            "verdict": "equal",
            "details": None,
            "files": 4,
            "rows": 60,
            "fingerprint": prover.key.fingerprint,
            "archive_sha256": hashlib.sha256(archive).hexdigest(),
            "archive_bytes": len(archive),
        }
        assert prover.verified(archive, "--fingerprint", row["fingerprint"])[0] == 0

    store = served(world, prover, tmp_path, scenario)
    assert {(result.level, result.ok) for result in store.validations()} == {("rows", True)}


def test_each_proof_is_recorded_with_its_caller_and_what_it_says(
    world: LakeWorld, prover: Prover, table: TableInfo, tmp_path: Path
) -> None:
    async def scenario(client: Any) -> None:
        _, rows = await client.call("prove_table", table="sales.orders", caller="ann")
        [answer] = rows.to_pylist()
        [recorded] = (await client.read("table_proofs")).to_pylist()
        same = ("lake_snapshot_id", "verdict", "details", "rows", "readers", "files", "fingerprint", "archive_sha256", "archive_bytes")
        assert {name: recorded[name] for name in same} == {name: answer[name] for name in same}
        assert (recorded["database_name"], recorded["table_name"]) == ("sales", "orders")
        assert shown(recorded["readers"], "readers").endswith(": 60, Spark: not counted")

    [proof] = served(world, prover, tmp_path, scenario).proofs()
    assert proof.principal == "ann"


@pytest.mark.parametrize(
    ("options", "largest", "missing", "note"),
    [
        ((), 1 << 30, NO_JAVA, f"{NO_JAVA}\n"),
        (("--no-spark",), 1 << 30, NO_JAVA, "not asked\n"),
        ((), 1_000, "", "not asked: the lake files have 0 MiB, and by default Spark counts tables up to 0 MiB\n"),
        (("--spark",), 1_000, NO_JAVA, f"{NO_JAVA}\n"),
    ],
)
def test_spark_is_asked_unless_the_caller_says_otherwise(
    world: LakeWorld,
    prover: Prover,
    table: TableInfo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    largest: int,
    missing: str,
    note: str,
) -> None:
    monkeypatch.setattr("tiering.validate.archive.sealing.LARGEST_BYTES", largest)

    async def scenario(client: Any) -> None:
        done = await prove(client, "--out", str(tmp_path / "orders.zip"), *options)
        assert f"not counted by Spark: {note}" in done.stderr

    served(world, prover, tmp_path, scenario, lambda: SparkReader("", {}, missing))


def test_tables_that_cannot_be_proved(world: LakeWorld, prover: Prover, table: TableInfo, tmp_path: Path) -> None:
    world.table("new")

    async def scenario(client: Any) -> None:
        assert isinstance(await error_of(client.call("prove_table", table="sales.nothing")), UnknownTable)
        error = await error_of(client.call("prove_table", table="sales.new"))
        assert isinstance(error, InvalidArgument)
        assert "sales.new was never tiered" in error.message
        error = await error_of(client.call("prove_table", table="sales.orders", snapshot_id=7))
        assert "has no snapshot 7" in error.message

    assert served(world, prover, tmp_path, scenario).proofs() == []


async def prove(client: Any, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tiering.cli.main", "prove", "sales.orders", "--uri", f"127.0.0.1:{client.port}", *words]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)


def test_the_command_writes_the_archive(world: LakeWorld, prover: Prover, table: TableInfo, tmp_path: Path) -> None:
    file = tmp_path / "orders.zip"

    async def scenario(client: Any) -> None:
        done = await prove(client, "--out", str(file), "--format", "json")
        assert done.returncode == 0, done.stderr
        assert [(row["scope"], row["verdict"], row["rows_in_log"], row["rows_in_lake"]) for row in json.loads(done.stdout)] == [
            ("0", "equal", 30, 30),
            ("1", "equal", 30, 30),
        ]
        assert f"sales.orders is equal. To check it again: python verify.py {file}" in done.stderr
        assert re.search(r"rows counted by DuckDB \S+: 60, pyiceberg \S+: 60, polars \S+: 60\n", done.stderr)
        assert "not counted by Spark: not asked\n" in done.stderr
        assert prover.verified(file.read_bytes())[0] == 0
        written = file.read_bytes()
        again = await prove(client, "--out", str(file))
        assert (again.returncode, f"the file {file} already exists" in again.stderr) == (2, True)
        assert file.read_bytes() == written
        [lake_file, *_] = (tmp_path / "lake").rglob("*.parquet")
        lake_file.unlink()
        forced = await prove(client, "--out", str(file), "--force")
        assert (forced.returncode, "differs" in forced.stdout) == (1, True)
        status, printed = prover.verified(file.read_bytes())
        assert (status, "the service found a difference: files of table: 1 file of the snapshot not there" in printed) == (1, True)

    served(world, prover, tmp_path, scenario)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ('action == Action::"DESCRIBE", resource == Table::"sales.orders"', "ann lacks SELECT on sales.orders"),
        ('action, resource == Table::"sales.planes"', "there is no database 'sales'"),
    ],
    ids=["may describe the table", "may not know the table"],
)
def test_a_user_without_the_privilege_gets_one_error_and_no_file(
    world: LakeWorld, prover: Prover, table: TableInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, message: str
) -> None:
    policies, file = tmp_path / "policies.cedar", tmp_path / "orders.zip"
    policies.write_text(f'permit (principal == User::"ann", {policy});')
    access = Grants(policies).access_of(Identity("ann", Authentication.TOKEN))
    monkeypatch.setattr(Grants, "current", lambda grants: access)

    async def scenario(client: Any) -> None:
        done = await prove(client, "--out", str(file))
        assert done.returncode != 0
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert not file.exists()

    assert served(world, prover, tmp_path, scenario).proofs() == []


def test_an_archive_has_nothing_of_other_tables(world: LakeWorld, prover: Prover, table: TableInfo, tmp_path: Path) -> None:
    other = world.table("salaries")
    world.append(other, 0, 10)
    world.tier_all()
    archive = prover.archive(table)
    names = [other.path.table_name, *(file.name for file in world.by_hand.data_files(other.path))]
    assert [name for name in names if name.encode() in archive] == []


@pytest.mark.parametrize("place", ["nowhere/orders.zip", "VERSION/orders.zip"])
def test_a_file_that_cannot_be_written_is_refused_before_the_service_works(
    world: LakeWorld, prover: Prover, table: TableInfo, tmp_path: Path, place: str
) -> None:
    (tmp_path / "VERSION").write_text("1\n")

    async def scenario(client: Any) -> None:
        done = await prove(client, "--out", str(tmp_path / place))
        assert (done.returncode != 0, "cannot write" in done.stderr) == (True, True)

    assert served(world, prover, tmp_path, scenario).proofs() == []
