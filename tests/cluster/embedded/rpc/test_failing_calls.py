"""Calls of the embedded cluster that fail for an unexpected reason."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from support.clusters.embedded import LoopbackServer
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import RoundFailed

SECRET = "hunter2Xq9"
LONG = f"password={SECRET} " + "x" * 10_000


def test_the_embedded_cluster_fails_through_the_guard(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError(LONG)

    monkeypatch.setattr(storage, "databases", broken)
    server = LoopbackServer(storage)
    try:
        with RemoteEmbeddedCluster(server.uri) as cluster, capture_logs() as logs, pytest.raises(RoundFailed) as raised:
            cluster.databases()
    finally:
        server.stop()
    assert raised.value.error_class == "ZeroDivisionError"
    assert SECRET not in raised.value.message
    assert [(line["event"], line["method"]) for line in logs] == [
        ("a call failed unexpectedly", "/tiering.rpc.v1.EmbeddedCluster/ListDatabases")
    ]
