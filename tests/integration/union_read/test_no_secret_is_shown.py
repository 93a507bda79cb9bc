"""Plans, logs, the UI, events, checkpoints and errors of fresh reads have no token, ticket, task, signing key or key of the storage."""

from __future__ import annotations

import sqlite3
import sys
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession

from support.object_store.deployment import DeploymentOnS3, on_s3
from support.object_store.rest_server import rest_catalog_server
from support.object_store.s3_server import S3Server
from support.running.cluster_of_processes import KEYED
from support.running.spark_sessions import spark_session
from support.spark.leaks import leaks, shown_by_ui
from tiering.cli.processes.service_access import owner_token_path
from tiering.cli.service_lake import service_lake
from tiering.cli.spark.properties import CATALOG, LAKE_CATALOG, catalog_lake_properties, catalog_properties, plugin_jar
from tiering.coordinator.readers.reads import TICKET_KEY
from tiering.coordinator.readers.tickets import TicketSigner
from tiering.model.reading.open_reads import OpenRead
from tiering.model.reading.scans import ReadMoment, ReadPart, ReadScan
from tiering.model.tables import TablePath
from tiering.union_read.read_client import ReadClient
from tiering.union_read.task_codec import decode, encode
from tiering.union_read.tasks import ReadTask
from tiering.wire.channel import Connection

ORDERS, STOCK = TablePath("sales", "orders"), TablePath("sales", "stock")
STATEMENTS = (
    f"SELECT * FROM {CATALOG}.{ORDERS} WHERE id > 5",
    f"SELECT count(*) FROM {CATALOG}.{ORDERS}",
    f"SELECT * FROM {CATALOG}.{STOCK}",
    f"SELECT * FROM {CATALOG}.sales.`orders$changelog`",
    f"SELECT * FROM {CATALOG}.sales.`stock$lake`",
    f"CACHE TABLE cached AS SELECT * FROM {CATALOG}.{STOCK}",
    f"CREATE TABLE copy USING parquet AS SELECT * FROM {CATALOG}.{ORDERS}",
    f"DESCRIBE TABLE EXTENDED {CATALOG}.{ORDERS}",
    f"EXPLAIN EXTENDED SELECT * FROM {CATALOG}.{ORDERS}",
    f"EXPLAIN FORMATTED SELECT * FROM {CATALOG}.{STOCK}",
    f"EXPLAIN CODEGEN SELECT * FROM {CATALOG}.{ORDERS} JOIN {CATALOG}.{STOCK} USING (id)",
    f"EXPLAIN COST SELECT * FROM {CATALOG}.{STOCK}",
)
KEY_OF_STORAGE = "s3.secret-access-key"


@pytest.fixture(scope="module")
def service(s3_store: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeploymentOnS3]:
    """A service that asks for tokens. Its catalog vends no keys, so the service and Spark have keys of their own."""
    with rest_catalog_server(tmp_path_factory.mktemp("catalog"), s3_store, vends=False) as catalog:
        deployment = on_s3(tmp_path_factory.mktemp("service"), catalog)
        try:
            deployment.start_coordinator("--auth", "token")
            deployment.start_inline_tierer("tierer")
            for part in range(2):  # the first part is in the lake, the second one in the log alone
                write(deployment, part)
                if part == 0:
                    deployment.lakeward("tier", str(ORDERS))
                    deployment.lakeward("tier", str(STOCK))
            yield deployment
        finally:
            deployment.close()


def write(service: DeploymentOnS3, part: int) -> None:
    """Writes 30 orders, and 20 rows of stock of which half are new."""
    if part == 0:
        service.create(ORDERS, freshness="1 h")
        service.create_keyed(STOCK)
    service.append(ORDERS, 30 * part, 30)
    with service.cluster() as cluster:
        keys = range(10 * part, 10 * part + 20)
        cluster.upsert(STOCK, pa.table({"id": keys, "text": [f"part {part}"] * 20}, schema=KEYED), f"stock-{part}", 0)


@pytest.fixture(scope="module")
def secrets(service: DeploymentOnS3) -> dict[str, bytes]:
    """The secret part of the owner's token, the key that signs tickets, and the secret key of the lake's storage."""
    token = owner_token_path(service.data.root).read_text().strip()
    with sqlite3.connect(service.data.store_file) as store:
        [(signing_key,)] = store.execute("SELECT key FROM lakeward_keys WHERE name = ?", (TICKET_KEY,)).fetchall() or [(b"",)]
    assert signing_key, "no ticket was signed"
    return {
        "token": token.split("_", 2)[2].encode(),
        "signing key": bytes(signing_key),
        "key of the storage": service.catalog.store.secret_key.encode(),
    }


def properties(service: DeploymentOnS3, events: Path) -> dict[str, str]:
    """Properties of a Spark with one executor, its UI, and an event log."""
    events.mkdir()
    return {
        **catalog_properties(service.uri, plugin_jar(), python=Path(sys.executable)),
        **catalog_lake_properties(service_lake(service.uri).properties),
        **{f"spark.sql.catalog.{LAKE_CATALOG}.{name}": value for name, value in service.catalog.secrets.items()},
        "spark.master": "local-cluster[1,2,1024]",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def shown_by_statements(spark: SparkSession) -> dict[str, bytes]:
    """Returns what each statement shows, and what its plan is as text and as JSON."""
    shown = {}
    for statement in STATEMENTS:
        frame = spark.sql(statement)
        execution = frame._jdf.queryExecution()
        texts = [str(frame.collect()), execution.toString(), execution.stringWithStats()]
        texts += [plan.toJSON() for plan in (execution.analyzed(), execution.optimizedPlan(), execution.executedPlan())]
        shown[statement] = "\n".join(texts).encode()
    return shown


def shown_by_plain_source(spark: SparkSession, service: DeploymentOnS3) -> dict[str, bytes]:
    """Returns what the data source `lakeward` shows."""
    frame = spark.read.format("lakeward").options(table=str(STOCK), uri=service.uri).load()
    assert frame.count() == 30
    return {"plain source": frame._jdf.queryExecution().toString().encode()}


def run_streams(spark: SparkSession, service: DeploymentOnS3, folder: Path) -> None:
    """Reads the orders by name and by the data source into files."""
    by_name = spark.readStream.table(f"{CATALOG}.{ORDERS}")
    by_source = spark.readStream.format("lakeward").options(table=str(ORDERS), uri=service.uri).load()
    for name, frame in {"by_name": by_name, "by_source": by_source}.items():
        writer = frame.writeStream.option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        query = writer.format("parquet").option("path", str(folder / name)).trigger(availableNow=True).start()
        query.awaitTermination()
        assert spark.read.parquet(str(folder / name)).count() == 60


def errors_of_tasks(spark: SparkSession, service: DeploymentOnS3) -> dict[str, bytes]:
    """Returns the errors of reads whose files were deleted from the store."""
    store, catalog = service.catalog.store, load_catalog("lake", **service.lake_properties)
    for path in (ORDERS, STOCK):
        folder = catalog.load_table(str(path)).location().split("/", 3)[3]
        for file in store.files(folder):
            if file.endswith(".parquet"):
                store.file_system().delete_file(file)
    frames: dict[str, Callable[[], DataFrame]] = {
        "error of Iceberg's scan": lambda: spark.table(f"{CATALOG}.{ORDERS}"),
        "error of a Python task": lambda: spark.table(f"{CATALOG}.{STOCK}"),
        "error of the plain source": lambda: spark.read.format("lakeward").options(table=str(STOCK), uri=service.uri).load(),
    }
    return {name: error_of(frame).encode() for name, frame in frames.items()}


def error_of(frame: Callable[[], DataFrame]) -> str:
    with pytest.raises(Exception, match=r"\w") as raised:  # of Spark, of py4j, or of Iceberg
        frame().collect()
    return str(raised.value)


def files_below(*folders: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}


def test_no_secret_is_in_plans_logs_the_ui_events_checkpoints_and_errors(
    service: DeploymentOnS3, tmp_path: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    with spark_session(tmp_path / "warehouse", properties(service, tmp_path / "events")) as spark:
        spark.sparkContext.setLogLevel("INFO")
        shown = {**shown_by_statements(spark), **shown_by_plain_source(spark, service)}
        run_streams(spark, service, tmp_path / "streams")
        shown |= errors_of_tasks(spark, service) | shown_by_ui(spark)
    output = capfd.readouterr()
    shown |= {"output of the driver": f"{output.out}\n{output.err}".encode(), "log of the service": service.coordinator.log.read_bytes()}
    shown |= files_below(tmp_path / "events", tmp_path / "streams")

    assert_complete(shown)
    secrets = request.getfixturevalue("secrets")  # the key exists once a ticket is signed
    assert {name: names for name, content in shown.items() if (names := leaks(content, secrets))} == {}


def assert_complete(shown: Mapping[str, bytes]) -> None:
    """Fails if one of the places where a secret could be was not looked at."""
    expected = {
        "/api/v1/": b"LakewardScan",
        "/environment": KEY_OF_STORAGE.encode(),
        "/SQL/execution/": b"LakewardScan",
        "logType=stderr": b"Executor",
        "events": b"SparkListenerSQLExecutionStart",
        "output of the driver": b"LakeUnavailable",
        "checkpoint/offsets": b'"v":1',
        "error of a Python task": b"LakeUnavailable",
        "error of the plain source": b"LakeUnavailable",
    }
    missing = {place for place, text in expected.items() if not any(place in name and text in content for name, content in shown.items())}
    assert missing == set()


def test_a_task_has_the_keys_of_the_storage_where_it_reads_the_lake_and_no_other_secret(
    service: DeploymentOnS3, request: pytest.FixtureRequest
) -> None:
    contents = {}
    with Connection(service.uri) as connection:
        client = ReadClient(connection, "python")
        for path, part in ((STOCK, ReadPart.ROWS), (ORDERS, ReadPart.ROWS), (ORDERS, ReadPart.LOG_ROWS)):
            read = client.open(path)
            tasks, _ = client.plan(read.ticket, ReadScan(part))
            client.close(read.ticket)
            contents[path, part] = b"".join(zlib.decompress(task[task.index(b"x\x01") :]) for task in tasks)
            assert service.catalog.store.secret_key not in "".join(repr(decode(task)) for task in tasks)

    secrets = request.getfixturevalue("secrets")
    assert {scan: leaks(content, secrets) for scan, content in contents.items()} == {
        (STOCK, ReadPart.ROWS): {"key of the storage"},
        (ORDERS, ReadPart.ROWS): {"key of the storage"},
        (ORDERS, ReadPart.LOG_ROWS): set(),
    }


def signed(data: bytes) -> bytes:
    """The bytes as Java prints an array."""
    return str([byte - 256 if byte > 127 else byte for byte in data]).encode()


@pytest.mark.parametrize(
    "form",
    [
        bytes,
        b64encode,
        lambda data: b64encode(b"." + data),
        lambda data: urlsafe_b64encode(b".." + data),
        lambda data: data.hex().encode(),
        lambda data: b"0" + data.hex().upper().encode(),
        lambda data: repr(data).encode(),
        lambda data: str(list(data)).encode(),
        signed,
    ],
)
def test_the_search_finds_secrets_in_each_form(form: Callable[[bytes], bytes]) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    key = bytes(range(0, 256, 8))
    ticket = TicketSigner(key).sign(OpenRead("read", ReadMoment(ORDERS, 1, None, {}, {}), "ann", "spark", "app", now, now, now))
    secrets = {"key": key}

    for secret, name in ((key, "key"), (ticket, "ticket"), (encode(ReadTask((), ())), "task")):
        assert leaks(b"before " + form(secret) + b" behind", secrets) == {name}
    assert leaks(b"before " + form(key[:-1]) + b" behind", secrets) == set()
