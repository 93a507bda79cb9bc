"""A real Spark session and a real coordinator, with TLS and a token: what is served, what is refused, and in which words."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from support.running.spark_sessions import complaint, spark_session
from support.services.certificates import DAY, Authority
from tiering.access.tokens import add_token, new_token, revoke_token
from tiering.cli.commands.token import tokens_path
from tiering.cli.spark.jars import SPARK_JARS, jar_path
from tiering.cli.spark.properties import CATALOG_CLASS, plugin_jar


class Secured:
    """A coordinator with TLS and tokens, and a Spark session of another user of the machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.deployment = Deployment(folder)
        self.tls = self.authority.server()
        self.token_file = folder / "token"
        arguments = ("--server-cert", str(self.tls.certificate), "--server-key", str(self.tls.key))
        self.deployment.start_coordinator("--auth", "token", *arguments)
        self.tokens = tokens_path(self.deployment.data.root, None)
        self.show("ann")

    def show(self, principal: str, **fields: object) -> str:
        """Makes a token, writes it into the file that the session names, and returns its id."""
        token, stored = new_token(principal, datetime.now(UTC), **fields)  # type: ignore[arg-type]
        add_token(self.tokens, stored)
        self.token_file.write_text(token + "\n")
        return stored.token_id

    def catalog(self, spark: SparkSession, name: str, **options: str) -> str:
        """Another catalog, as if this Spark had been started with it."""
        start_up = spark.sparkContext._jsc.sc().conf()  # type: ignore[union-attr]
        start_up.set(f"spark.sql.catalog.{name}", CATALOG_CLASS)
        spark.conf.set(f"spark.sql.catalog.{name}", CATALOG_CLASS)
        for option, value in ({"uri": self.deployment.uri} | options).items():
            start_up.set(f"spark.sql.catalog.{name}.{option}", value)
            spark.conf.set(f"spark.sql.catalog.{name}.{option}", value)
        return name

    @property
    def options(self) -> dict[str, str]:
        return {"token-file": str(self.token_file), "tls.ca": str(self.authority.certificate)}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured = Secured(tmp_path_factory.mktemp("secured"))
    yield secured
    secured.deployment.close()


@pytest.fixture(scope="module")
def spark(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    patch = pytest.MonkeyPatch()
    patch.setenv("LAKEWARD_HOME", str(folder / "home"))  # the session's user finds no token of the service's owner
    jars = ":".join(str(path) for path in (plugin_jar(), *(jar_path(jar) for jar in SPARK_JARS)))
    with spark_session(folder, {"spark.driver.extraClassPath": jars}) as session:
        yield session
    patch.undo()


def test_a_session_with_a_token_over_tls_reads_and_is_who_its_token_says(secured: Secured, spark: SparkSession) -> None:
    secured.show("ann")
    name = secured.catalog(spark, "reading", **secured.options)
    assert spark.sql(f"SELECT count(*) AS n FROM {name}.sys.procedures").first().n > 10  # type: ignore[union-attr]
    assert {row.namespace for row in spark.sql(f"SHOW NAMESPACES IN {name}").collect()} >= {"sys"}
    spark.sql(f"CALL {name}.sys.help()").collect()


def test_no_token_and_revoked_ones_are_refused_in_words_and_a_new_one_needs_no_new_session(secured: Secured, spark: SparkSession) -> None:
    token_id = secured.show("ann")
    name = secured.catalog(spark, "revoked", **secured.options)
    query = f"SELECT count(*) AS n FROM {name}.sys.tables"
    assert spark.sql(query).first() is not None
    revoke_token(secured.tokens, token_id, datetime.now(UTC))
    message = complaint(spark, query)
    assert "[Unauthenticated]" in message
    assert f"the token {token_id} was revoked" in message
    secured.show("ann", expires_time=datetime.now(UTC) - timedelta(seconds=1))
    assert "expired at" in complaint(spark, query)
    secured.show("ann")
    assert spark.sql(query).first() is not None
    without = secured.catalog(spark, "nobody", **{"tls.ca": str(secured.authority.certificate)})
    assert "the call has no token" in complaint(spark, f"SHOW NAMESPACES IN {without}")


def test_what_keeps_a_connection_from_being_safe_is_named(secured: Secured, spark: SparkSession, tmp_path: Path) -> None:
    other = secured.options | {"tls.ca": str(Authority(tmp_path, "other").certificate)}
    assert "this Spark does not trust the issuer" in complaint(spark, f"SHOW NAMESPACES IN {secured.catalog(spark, 'unknown', **other)}")
    plain = {"token-file": str(secured.token_file)}
    assert "it speaks TLS" in complaint(spark, f"SHOW NAMESPACES IN {secured.catalog(spark, 'plain', **plain)}")


def test_a_token_is_in_no_option_and_no_message(secured: Secured, spark: SparkSession) -> None:
    name = secured.catalog(spark, "printed", token="very-secret")
    message = complaint(spark, f"SHOW NAMESPACES IN {name}")
    assert "spark.sql.catalog.printed.token-file" in message
    assert "very-secret" not in message


class Listener:
    """A gRPC server of another user, at `[::1]` or 127.0.0.1, which records the headers of each call."""

    def __init__(self, host: str, port: int = 0) -> None:
        self.headers: list[tuple[str, str | bytes]] = []
        self._server = grpc.server(ThreadPoolExecutor(1), handlers=[self])  # type: ignore[list-item]  # duck typed
        self.port = self._server.add_insecure_port(f"{host}:{port}")
        self._server.start()

    def service(self, call: grpc.HandlerCallDetails) -> None:
        self.headers += [(name, value) for name, value in call.invocation_metadata or ()]

    def close(self) -> None:
        self._server.stop(None)


def test_a_user_of_a_shared_spark_cannot_have_a_token_sent_to_another_address(secured: Secured, spark: SparkSession) -> None:
    """SET of a session changes neither the address of the service nor what is shown to it, and `LAKEWARD_TOKEN_FILE` goes nowhere else."""
    secured.show("ann")
    listener = Listener("127.0.0.1")
    evil = {"uri": f"127.0.0.1:{listener.port}", "token-file": str(secured.token_file)}
    try:
        shared = spark.newSession()
        for number, options in enumerate(({"uri": evil["uri"]}, evil, {"token-file": evil["token-file"]}, {"tls.ca": "/etc/hostname"})):
            shared.conf.set(f"spark.sql.catalog.mine{number}", CATALOG_CLASS)
            for option, value in options.items():
                shared.conf.set(f"spark.sql.catalog.mine{number}.{option}", value)
            assert "was set in this session" in complaint(shared, f"SHOW NAMESPACES IN mine{number}")
        name = secured.catalog(spark, "bound", **secured.options)
        moved = spark.newSession()
        moved.conf.set(f"spark.sql.catalog.{name}.uri", evil["uri"])
        assert "was set in this session" in complaint(moved, f"SHOW NAMESPACES IN {name}")
        unprotected = spark.newSession()
        unprotected.conf.unset(f"spark.sql.catalog.{name}.tls.ca")
        assert unprotected.sql(f"SHOW NAMESPACES IN {name}").collect() != []  # still over TLS
    finally:
        listener.close()
    assert listener.headers == []


def test_a_certificate_of_another_name_is_named(secured: Secured, spark: SparkSession, tmp_path: Path) -> None:
    elsewhere = Deployment(tmp_path)
    tls = secured.authority.issue("elsewhere", x509.DNSName("lake.example"), ends=DAY)
    try:
        elsewhere.start_coordinator("--auth", "token", "--server-cert", str(tls[0]), "--server-key", str(tls[1]))
        name = secured.catalog(spark, "elsewhere", **secured.options, uri=elsewhere.uri)
        assert "another name" in complaint(spark, f"SHOW NAMESPACES IN {name}")
    finally:
        elsewhere.close()


def test_of_two_addresses_the_one_that_answers_is_used(secured: Secured, spark: SparkSession) -> None:
    """The certificate is checked for the name of the first address."""
    secured.show("ann")
    uri = f"127.0.0.1:1,{secured.deployment.uri}"
    name = secured.catalog(spark, "two", **secured.options, uri=uri)
    assert spark.sql(f"SELECT count(*) AS n FROM {name}.sys.procedures").first().n > 10  # type: ignore[union-attr]
    other = secured.catalog(spark, "misnamed", **secured.options, uri=f"no-such-host.invalid:1,{secured.deployment.uri}")
    assert "another name" in complaint(spark, f"SHOW NAMESPACES IN {other}")
