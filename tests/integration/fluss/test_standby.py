"""Two coordinators on one PostgreSQL beside a real Fluss: whatever dies, one leads, and each row is in the lake once."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.clusters.fluss_tables import FlussTables
from support.running.cluster_of_processes import wait_stopped, wake
from support.running.fluss_deployment import StandbyDeployment, make_orders
from support.running.postgresql import PostgresqlServer, postgresql_server
from support.running.processes import wait_for
from support.running.spark_sessions import spark_session
from support.services.certificates import Authority
from tiering import crash_points
from tiering.access.client_access import ClientAccess
from tiering.access.tokens import add_token, new_token
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cli.spark.jars import SPARK_JARS, jar_path
from tiering.cli.spark.properties import access_properties, catalog_properties, plugin_jar
from tiering.client import LakewardClient

ENDED_SECONDS = 180
"""Time limit of steps that take some ten seconds on an idle machine."""


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    with tempfile.TemporaryDirectory(prefix="lakeward-postgresql-") as folder, postgresql_server(Path(folder) / "server") as server:
        yield server


@pytest.fixture
def deployment(fluss: LocalFlussCluster, postgresql: PostgresqlServer, tmp_path: Path) -> Iterator[StandbyDeployment]:
    deployment = StandbyDeployment(tmp_path, servers=fluss.bootstrap_servers, state=postgresql.new_database())
    try:
        yield deployment
    finally:
        deployment.close()


def test_a_standby_passes_calls_on_and_takes_over_when_the_leader_is_killed(deployment: StandbyDeployment, tables: FlussTables) -> None:
    leader, standby = deployment.start_both()
    deployment.start_inline_tierer("only")
    table = make_orders(tables, "standby_killed")
    deployment.write(tables, table, 0, 60)
    both, (_, second) = deployment.uri, deployment.uri.split(",")
    deployment.uri = second  # through the standby alone
    deployment.wait_tiered(table.path)
    with LakewardClient(second) as client:
        client.pause_tiering(table.path, reason="through the standby")
        client.resume_tiering(table.path)
    deployment.uri = both
    deployment.write(tables, table, 60, 60)
    killed = time.monotonic()
    leader.send(signal.SIGKILL)
    taken_over = wait_for("the standby leads", lambda: "lakeward is ready" in standby.output() and time.monotonic()) - killed
    status = deployment.wait_tiered(table.path)
    deployment.assert_exact(table.path, 120)
    assert status.last_tiered_time is not None
    print(f"took over in {taken_over:.2f} s, next round after {time.monotonic() - killed:.2f} s")


@pytest.mark.soak
@pytest.mark.parametrize("points", [crash_points.IN_TAKE_OVER], ids=["take-over"])
def test_a_standby_that_dies_in_its_take_over_leaves_it_to_the_next(
    deployment: StandbyDeployment, tables: FlussTables, points: Sequence[str]
) -> None:
    leader = deployment.start_member("first")
    deployment.uri = leader.wait_ready()
    deployment.start_inline_tierer("only")
    table = make_orders(tables, "standby_dies")
    for number, point in enumerate(points):
        doomed = deployment.start_member("second", **{crash_points.VARIABLE: point})
        doomed.wait_standing_by()
        deployment.write(tables, table, number * 60, 60)
        leader.send(signal.SIGKILL)
        assert doomed.wait_ended(ENDED_SECONDS) == -signal.SIGKILL
        leader = deployment.start_member("first", port=deployment.port)
        leader.wait_ready()
    deployment.wait_tiered(table.path)
    deployment.assert_exact(table.path, len(points) * 60)


@pytest.mark.soak
@pytest.mark.parametrize("point", [crash_points.TAKE_OVER_LOCKED, crash_points.TAKE_OVER_RESTORED])
def test_a_standby_that_falls_asleep_in_its_take_over_replaces_no_leader(
    deployment: StandbyDeployment, tables: FlussTables, point: str
) -> None:
    leader = deployment.start_member("first")
    first = leader.wait_ready()
    sleeper = deployment.start_member("second", **{crash_points.VARIABLE: f"{point}:stop"})
    sleeper.wait_standing_by()
    leader.send(signal.SIGKILL)
    wait_stopped(sleeper)
    third = deployment.start_member("third", port=int(first.rpartition(":")[2]))
    deployment.uri = third.wait_ready(ENDED_SECONDS)
    deployment.start_inline_tierer("only")
    table = make_orders(tables, f"sleeps_at_{point}")
    wake(sleeper)
    assert sleeper.wait_ended(ENDED_SECONDS) != 0
    assert "another coordinator took over the store" in sleeper.output()
    deployment.write(tables, table, 0, 60)
    deployment.wait_tiered(table.path)
    deployment.assert_exact(table.path, 60)
    assert third.popen.poll() is None


@pytest.mark.soak
def test_clients_over_tls_go_on_through_the_standby(
    deployment: StandbyDeployment, tables: FlussTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tierer, commands, Python and a Spark session, all with both addresses, one authority and a token that both coordinators know."""
    authority, tokens, token_file = Authority(tmp_path), tmp_path / "tokens.json", tmp_path / "token"
    tls = authority.server()
    token, stored = new_token("etl", datetime.now(UTC))
    add_token(tokens, stored)
    token_file.write_text(token + "\n")
    for name, value in ClientAccess(token_file, authority.certificate).environment.items():
        monkeypatch.setenv(name, value)
    deployment.options = ("--auth", "token", "--tokens", str(tokens), "--server-cert", str(tls.certificate), "--server-key", str(tls.key))
    leader, standby = deployment.start_both()
    deployment.start_inline_tierer("only")
    table = make_orders(tables, "standby_tls")
    deployment.write(tables, table, 0, 60)
    deployment.wait_tiered(table.path, 120)
    jars = ":".join(str(path) for path in (plugin_jar(), *(jar_path(jar) for jar in SPARK_JARS)))
    properties = catalog_properties(deployment.uri, plugin_jar()) | access_properties()
    properties |= {"spark.driver.extraClassPath": jars, "spark.sql.catalog.fluss.timeout": "180s"}  # machines are busy
    with spark_session(tmp_path / "warehouse", properties) as spark:
        query = f"SELECT status FROM fluss.sys.lake_tiering_status WHERE table_name = '{table.path.table_name}'"
        assert spark.sql(query).count() == 1
        spark.sql("CREATE TABLE fluss.sales.standby_rows (id BIGINT) TBLPROPERTIES ('bucket.num' = '2')")
        spark.sql("INSERT INTO fluss.sales.standby_rows SELECT id FROM range(0, 50, 1, 2)")
        leader.send(signal.SIGKILL)
        assert spark.sql(query).count() == 1
        spark.sql(f"CALL fluss.sys.pause_tiering('{table.path}', reason => 'through the standby')").collect()
        spark.sql(f"CALL fluss.sys.resume_tiering('{table.path}')").collect()
        standby.wait_ready()
        spark.sql("INSERT INTO fluss.sales.standby_rows SELECT id FROM range(50, 90, 1, 2)")
        assert spark.sql("SELECT count(*), sum(id) FROM fluss.sales.standby_rows").collect() == [(90, sum(range(90)))]
    deployment.write(tables, table, 60, 60)
    deployment.wait_tiered(table.path, 120)
    deployment.assert_exact(table.path, 120)


def test_a_standby_over_tls_that_cannot_check_its_leader_is_refused(deployment: StandbyDeployment, tmp_path: Path) -> None:
    tls = Authority(tmp_path).server()
    deployment.options = ("--server-cert", str(tls.certificate), "--server-key", str(tls.key))
    deployment.start_member("first").wait_ready()
    second = deployment.start_member("second")
    assert second.wait_ended() != 0
    assert "LAKEWARD_TLS_CA" in second.output()


@pytest.mark.soak
def test_a_leader_that_was_asleep_is_fenced_at_its_first_write(deployment: StandbyDeployment, tables: FlussTables) -> None:
    leader, standby = deployment.start_both()
    deployment.start_inline_tierer("only")
    table = make_orders(tables, "standby_asleep")
    deployment.write(tables, table, 0, 60)
    deployment.wait_tiered(table.path)
    leader.send(signal.SIGSTOP)
    standby.wait_ready(ENDED_SECONDS)
    deployment.uri = deployment.uri.split(",")[1]
    deployment.write(tables, table, 60, 60)
    leader.send(signal.SIGCONT)
    assert leader.wait_ended(ENDED_SECONDS) != 0
    assert "another coordinator took over the store" in leader.output()
    deployment.wait_tiered(table.path)
    deployment.assert_exact(table.path, 120)


def test_a_database_that_is_away_stops_nothing_for_good(
    deployment: StandbyDeployment, tables: FlussTables, postgresql: PostgresqlServer
) -> None:
    leader = deployment.start_member("first")
    deployment.uri = leader.wait_ready()
    deployment.start_inline_tierer("only")
    table = make_orders(tables, "database_away")
    deployment.write(tables, table, 0, 60)
    deployment.wait_tiered(table.path)
    postgresql.stop()
    try:
        deployment.write(tables, table, 60, 60)
        wait_for("the leader finds the database gone", lambda: "the database does not answer" in leader.output())
    finally:
        postgresql.start()
    deployment.wait_tiered(table.path)
    deployment.assert_exact(table.path, 120)
    assert leader.popen.poll() is None
