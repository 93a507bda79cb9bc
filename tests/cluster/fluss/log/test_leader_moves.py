"""A bucket with two replicas, whose leader is killed while its log is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from support.clusters.fluss_server import tablet_server_address
from support.clusters.fluss_tables import FlussTables
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.local_cluster import local_cluster
from tiering.cluster.fluss.log import fetch
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.log_offsets import oldest_headers
from tiering.model.tables import BucketKey

BUCKET = BucketKey(None, 0)
ROWS = 5_000


@pytest.mark.soak
@pytest.mark.integration
def test_the_next_leader_goes_on_where_the_one_before_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_cluster(tmp_path, ClusterSettings(tablet_servers=2)) as cluster:
        tables = FlussTables(cluster.bootstrap_servers)
        table = tables.create("replicated", pa.schema({"n": pa.int64()}), properties={"table.replication.factor": "2"})
        tables.append(table, [pa.record_batch({"n": pa.array(np.arange(first, first + 100))}) for first in range(0, ROWS, 100)])
        monkeypatch.setattr(fetch, "FETCH_BYTES", 1_000)
        log = BucketLog(tables.client, table.path, table.table_id, BUCKET)
        chunks = fetch.log_chunks(log, 0, ROWS, {})
        headers = list(next(chunks).headers)
        before = tables.client.leader_of(table.path, table.table_id, BUCKET)
        (leader,) = [number for number in cluster.tablet_servers if tablet_server_address(cluster, number) == str(before)]
        cluster.tablet_servers[leader].kill()
        headers += [header for chunk in chunks for header in chunk.headers]
        assert tables.client.leader_of(table.path, table.table_id, BUCKET) != before
        assert sum(header.count for header in headers) == ROWS
        assert headers[-1].stopping_offset == ROWS
        assert set(oldest_headers(tables.client, table, {BUCKET: 0}, {})) == {BUCKET}
        tables.close()
