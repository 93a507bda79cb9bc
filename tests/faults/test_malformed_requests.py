"""Some 500 malformed inputs to a real coordinator: bounded memory and threads, clear answers, and everything works afterwards."""

from __future__ import annotations

import re
from pathlib import Path

import grpc
import pyarrow as pa

from support.running.cluster_of_processes import Deployment
from support.services import http2, malformed
from sys_tables.catalog_client import SystemCatalog
from tiering import errors
from tiering.client import LakewardClient
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath
from tiering.wire.error_status import sent_error

SEED = 20_261_122
REQUESTS = 400
"""A dozen for each method."""
NOISES = 40
LEFT_OPEN = 64

MAX_MEMORY_KB = 900_000
"""Peak memory of the whole process; an idle coordinator has some 250,000."""
MAX_THREADS = 120
"""Upper bound of threads: the service's pools have some 60, Arrow and gRPC a dozen for each core."""

SECONDS = 20.0
HELD = ("LakeTieringHeartbeat", "CallProcedure")
"""RPCs that may wait on purpose, as long as the request says."""
HELD_SECONDS = 1.0
OF_GRPC = {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED}
HEALTHY = TablePath("sales", "orders")


def figure(pid: int, name: str) -> int:
    """A number of /proc/PID/status."""
    match = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1])


def complaint(channel: grpc.Channel, case: malformed.Case) -> str | None:
    """Returns the problem of the answer; None for a good one."""
    seconds = HELD_SECONDS if case.method.name in HELD else SECONDS
    try:
        if case.streams:
            for _ in channel.unary_stream(case.path)(case.body, timeout=seconds):
                pass
        else:
            channel.unary_unary(case.path)(case.body, timeout=seconds)
    except grpc.RpcError as error:
        return _complaint(case, error)
    return None


def _complaint(case: malformed.Case, error: grpc.Call) -> str | None:
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return None if case.method.name in HELD else "it takes too long"
    sent = sent_error(error)
    if sent is None:
        return None if code in OF_GRPC else f"{code.name} without details: {details}"
    if not hasattr(errors, sent.error_class):
        return f"{code.name} with {sent.error_class}: {sent.message}"
    return None


def prepare(deployment: Deployment) -> None:
    with RemoteEmbeddedCluster(deployment.uri) as cluster:
        cluster.create_database(malformed.DATABASE)
        plain = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 h"}
        cluster.create_table(TablePath(malformed.DATABASE, malformed.LOG_TABLE), TableSpec(malformed.SCHEMA, 2, properties=plain))
        primary_keys = TableSpec(malformed.SCHEMA, 2, primary_key=("id",), properties=plain)
        cluster.create_table(TablePath(malformed.DATABASE, malformed.PRIMARY_KEY_TABLE), primary_keys)
        rows = pa.Table.from_pylist([{"id": 1, "text": "a", "tags": []}], schema=malformed.SCHEMA)
        cluster.append(TablePath(malformed.DATABASE, malformed.LOG_TABLE), rows, "w", 0)
        cluster.upsert(TablePath(malformed.DATABASE, malformed.PRIMARY_KEY_TABLE), rows, "w", 0)


def test_malformed_inputs_are_refused_clearly_and_cost_little(deployment: Deployment) -> None:
    deployment.create(HEALTHY)
    prepare(deployment)
    pid, address = deployment.processes[0].popen.pid, ("127.0.0.1", deployment.port)
    open_calls = [http2.say(address, http2.BEGUN + http2.opening(http2.READ), stay=True) for _ in range(LEFT_OPEN)]
    for _, words in http2.conversations(SEED, NOISES):
        http2.say(address, words)
    with grpc.insecure_channel(deployment.uri) as channel:
        complaints = [(case.path, case.kind, complaint(channel, case)) for case in malformed.cases(SEED, REQUESTS)]
    assert [entry for entry in complaints if entry[2] is not None] == []
    assert figure(pid, "VmHWM") < MAX_MEMORY_KB
    assert figure(pid, "Threads") < MAX_THREADS
    http2.close_all(open_calls)
    assert_works(deployment)


def assert_works(deployment: Deployment) -> None:
    """A SELECT, a CALL, an append and a round."""
    deployment.start_inline_tierer("after")
    deployment.append(HEALTHY, 0, 15)
    deployment.wait_tiered(HEALTHY)
    deployment.append(HEALTHY, 15, 15)
    with LakewardClient(deployment.uri) as client:
        assert client.tier_table(HEALTHY).state in ("SUCCEEDED", "EMPTY")
    deployment.assert_exact(HEALTHY, 30)
    with SystemCatalog(deployment.uri) as catalog:
        [row] = catalog.read("tables", ["table_name"], database_name=HEALTHY.database_name)
    assert row == {"table_name": HEALTHY.table_name}
