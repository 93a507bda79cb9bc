"""The Python program of docs/load.md runs as it stands there, but for the address of the service."""

from __future__ import annotations

import re
from pathlib import Path

from support.clusters.embedded import LoopbackServer, scan_all
from support.repository import ROOT
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.model.tables import TablePath

PATH = TablePath("travel", "cities")


def test_the_program_writes_its_rows_once_however_often_it_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "load.md").read_text(encoding="utf-8")
    [program] = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert "127.0.0.1:7707" in program

    with EmbeddedStorage(tmp_path / "cluster") as storage:
        server = LoopbackServer(storage)
        try:
            for _ in range(2):
                exec(program.replace("127.0.0.1:7707", server.uri), {})
            with RemoteEmbeddedCluster(server.uri) as cluster:
                table = cluster.table(PATH)
                rows = scan_all(cluster, table)
        finally:
            server.stop()

    assert (table.lake_enabled, table.freshness_ms, table.bucket_count) == (True, 30_000, 2)
    assert sorted(rows["city"].to_pylist()) == ["Lima", "Oslo"]
