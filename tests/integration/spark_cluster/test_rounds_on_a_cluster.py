"""Rounds on a Spark standalone cluster whose machines share nothing with the driver: a real Fluss and its remote files, the lake in S3."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.clusters.fluss_plugin import no_tables_plugins
from support.clusters.fluss_server import PROPERTIES
from support.clusters.fluss_tables import FlussTables
from support.object_store.rest_server import RestCatalog
from support.object_store.s3_server import BUCKET, REGION, S3Server
from support.running.fluss_deployment import FlussDeployment, make_orders
from support.running.processes import wait_for
from support.spark.class_archive import executor_conf
from support.spark.standalone import BASE_PYTHON, EXECUTOR, StandaloneCluster, standalone_cluster
from tiering import crash_points
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.jars import plugins_folder
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster, local_cluster

COUNT = 6_000
ENVIRONMENT = "lakeward-env"


@pytest.fixture(scope="module")
def fluss_on_s3(s3_store: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFlussCluster]:
    """A Fluss cluster whose remote files are in the object store of the lake."""
    folder = tmp_path_factory.mktemp("fluss-on-s3proxy")
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "no-tables").symlink_to(no_tables_plugins() / "no-tables")
    (plugins / "s3").symlink_to(plugins_folder() / "s3")
    of_s3 = {"s3.endpoint": s3_store.endpoint, "s3.region": REGION, "s3.path-style-access": "true"}
    keys = {"s3.access-key": s3_store.access_key, "s3.secret-key": s3_store.secret_key}
    properties = {**PROPERTIES, "remote.data.dir": f"s3://{BUCKET}/fluss", **of_s3, **keys}
    lake = {"type": "hadoop", "warehouse": "/nowhere"}
    with local_cluster(folder / "fluss", ClusterSettings(plugins, lake, server_properties=properties)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("spark-cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By the documented command."""
    target = tmp_path_factory.mktemp("archive") / "lakeward.tar.gz"
    subprocess.run([sys.executable, "-m", "tiering.round.tasks.executor_archive", str(target)], check=True)
    return target


@pytest.mark.soak
def test_an_executor_and_a_worker_die_under_a_round_and_everything_is_there_once(
    fluss_on_s3: LocalFlussCluster, rest_catalog_on_s3: RestCatalog, spark: StandaloneCluster, archive: Path, tmp_path: Path
) -> None:
    tables = FlussTables(fluss_on_s3.bootstrap_servers)
    orders = make_orders(tables, "orders_on_a_cluster", buckets=6)
    deployment = FlussDeployment(tmp_path, servers=fluss_on_s3.bootstrap_servers)
    lake = tuple(word for name, value in rest_catalog_on_s3.lake.items() for word in ("--lake-property", f"{name}={value}"))
    conf = ("--fluss-conf", str(fluss_on_s3.server_yaml))
    settings = {
        "spark.archives": f"{archive}#{ENVIRONMENT}",
        "spark.executorEnv.PYTHONPATH": f"./{ENVIRONMENT}",
        "spark.pyspark.python": BASE_PYTHON,
        "spark.pyspark.driver.python": sys.executable,
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        f"spark.executorEnv.{crash_points.VARIABLE}": f"{crash_points.IN_SPLIT}:stop",
        "spark.executorEnv.FLUSS_S3_ACCESS_KEY": rest_catalog_on_s3.store.access_key,
        "spark.executorEnv.FLUSS_S3_SECRET_KEY": rest_catalog_on_s3.store.secret_key,
    }
    try:
        deployment.start_coordinator("--inline-round-bytes", "0", "--service-timeout-ms", "60000", *lake, *conf)
        deployment.write(tables, orders, 0, COUNT)
        wait_for("the coordinator sees all rows", lambda: deployment.status(orders.path).pending_records == COUNT)
        words = [*conf, *executor_conf()] + [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        tierer = deployment.start_program(
            *("-m", "tiering.cli.main", "tierer", "--uri", deployment.uri, "--tierer-id", "driver", "--master", spark.uri, *words),
            log_name="tierer",
            env={"PYSPARK_PYTHON": BASE_PYTHON},
        )
        wait_for(f"both machines are in a task, see {tierer.log}", lambda: all(worker.stopped() for worker in spark.workers), 180)

        first, second = spark.workers
        [victim] = first.processes(EXECUTOR)
        os.kill(victim, signal.SIGKILL)
        wait_for("another executor on that machine", lambda: set(first.processes(EXECUTOR)) - {victim}, 120)
        second.kill()

        def tiered() -> bool:
            """Each Python worker stops once, in its first task."""
            for pid in spark.stopped():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            status = deployment.status(orders.path)
            return status.pending_records == 0 and status.lake_records == COUNT

        wait_for("the round ends", tiered, 240)
        deployment.assert_exact(orders.path, COUNT, rest_catalog_on_s3.all_properties)
        assert not [worker for worker in spark.workers if list(worker.folder.rglob("site-packages"))]
    finally:
        deployment.close()
        tables.close()
