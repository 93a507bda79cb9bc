"""A service whose tables go to Paimon, as a user meets it: tiered, listed, read in SQL and proved, with the service and without."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.running.cluster_of_processes import Deployment
from tiering.child_process import module_command
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

PLANES = TablePath("sales", "planes")
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 s", "table.datalake.format": "paimon"}
QUERY = "SELECT count(*) AS rows, sum(id) AS total, max(text) AS newest FROM fluss.sales.planes"


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    service = Deployment(tmp_path)
    try:
        service.start_up()
        yield service
    finally:
        service.close()


def test_a_primary_key_table_is_tiered_read_and_proved(deployment: Deployment) -> None:
    with deployment.cluster() as cluster:
        cluster.create_database("sales")
        cluster.create_table(PLANES, TableSpec(SCHEMA, 2, properties=LAKE, primary_key=("id",)))
        for number in range(2):
            rows = pa.table({"id": range(20), "text": [f"{number} of {key}" for key in range(20)]}, schema=SCHEMA)
            cluster.upsert(PLANES, rows, "w", 2 * number)
            keys = pa.table({"id": [number]}, schema=pa.schema([SCHEMA.field("id")]))
            cluster.delete(PLANES, keys, "w", 2 * number + 1)
            deployment.wait_tiered(PLANES)
    status = deployment.status(PLANES)
    assert (status.lake_format, status.last_error) == ("paimon", None)
    root = deployment.data.root / "lake" / "sales.db" / "planes"
    files = [file for file in root.glob("bucket-*/*.parquet") if "-changelog-" not in file.name]
    assert (status.lake_files, status.lake_bytes) == (len(files), sum(file.stat().st_size for file in files))

    folder = ("--data", str(deployment.data.root))
    for place in (("--uri", deployment.uri), folder):
        answer = printed("sql", "--engine", "duckdb", QUERY, *place)
        assert all(word in answer for word in ("19", "189", "1 of 9")), answer
        assert "the newest change of each key" in printed("validate", str(PLANES), "--level", "rows", "--format", "json", *place)
    files[0].unlink()
    assert "1 file of the snapshot not there" in printed("validate", str(PLANES), "--format", "json", *folder, status=1)


def printed(*arguments: str, status: int = 0) -> str:
    """Returns the output of a command."""
    ended = subprocess.run([*module_command("tiering.cli.main"), *arguments], capture_output=True, text=True, check=False, timeout=90)
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended.stdout
