"""SELECT on a table is needed for each way to read its rows: by its names in Spark, as a stream, by the data source, and in DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.running.cluster_of_processes import Deployment
from support.running.spark_sessions import plugin_properties, spark_session
from tiering.access.tokens import add_token, new_token
from tiering.cli.commands.token import tokens_path
from tiering.cli.spark.properties import CATALOG
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
NAME = f"{CATALOG}.{ORDERS}"
POLICIES = """
permit (principal == User::"ann", action in Action::"read", resource in Database::"sales");
permit (principal == User::"dan", action == Action::"DESCRIBE", resource in Database::"sales");
permit (principal == User::"eve", action in Action::"read", resource in Database::"hr");
"""
Readers = dict[str, Callable[[], DataFrame]]


class Users:
    """A Spark session and commands with the token of one user at a time."""

    def __init__(self, service: Deployment) -> None:
        self.service = service
        self.token_file = service.folder / "user.token"
        self._tokens = {}
        for user in ("ann", "dan", "eve"):
            self._tokens[user], stored = new_token(user, datetime.now(UTC))
            add_token(tokens_path(service.data.root, None), stored)
        self.become("ann")

    def become(self, user: str) -> None:
        """From now on calls show the token of this user."""
        self.token_file.write_text(self._tokens[user])


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    """A table with 60 rows in the lake and 30 in the log."""
    deployment = Deployment(tmp_path_factory.mktemp("service"))
    (deployment.folder / "policies.cedar").write_text(POLICIES)
    try:
        deployment.start_coordinator("--auth", "token", "--policy", str(deployment.folder / "policies.cedar"))
        deployment.start_inline_tierer("tierer")
        deployment.create(ORDERS, freshness="1 h")
        deployment.append(ORDERS, 0, 60)
        deployment.lakeward("tier", str(ORDERS))
        deployment.append(ORDERS, 60, 30)
        yield Users(deployment)
    finally:
        deployment.close()


@pytest.fixture(scope="module")
def spark(users: Users, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of another user than the service's owner. Python processes of its driver take the token file from the environment."""
    folder = tmp_path_factory.mktemp("spark")
    properties = {
        **plugin_properties(users.service),
        f"spark.sql.catalog.{CATALOG}.token-file": str(users.token_file),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEWARD_HOME", str(folder / "home"))
        patch.setenv("LAKEWARD_TOKEN_FILE", str(users.token_file))
        with spark_session(folder, properties) as session:
            patch.undo()
            yield session


def readers(spark: SparkSession, users: Users, checkpoints: Path) -> Readers:
    """Returns each way to read the rows; the frames have the columns `id` and `text`."""
    plain = {"table": str(ORDERS), "uri": users.service.uri}

    def streamed(name: str, frame: Callable[[], DataFrame]) -> Callable[[], DataFrame]:
        def rows() -> DataFrame:
            writer = frame().writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoints / name))
            writer.trigger(availableNow=True).start().awaitTermination()
            return spark.table(name)

        return rows

    return {
        "the plain name": lambda: spark.table(NAME),
        "the lake copy": lambda: spark.table(f"{CATALOG}.sales.`orders$lake`"),
        "the lake copy as of now": lambda: spark.sql(f"SELECT * FROM {NAME} TIMESTAMP AS OF now()"),
        "the changelog": lambda: spark.table(f"{CATALOG}.sales.`orders$changelog`"),
        "the data source": lambda: spark.read.format("lakeward").options(**plain).load(),
        "a stream": streamed("by_name", lambda: spark.readStream.table(NAME)),
        "a stream of the data source": streamed("by_source", lambda: spark.readStream.format("lakeward").options(**plain).load()),
    }


def refusal(work: Callable[[], DataFrame]) -> str:
    with pytest.raises(Exception, match=r"\w") as raised:  # of Spark or of py4j
        work().collect()
    return str(raised.value)


def test_a_user_with_select_reads_all_rows(spark: SparkSession, users: Users, tmp_path: Path) -> None:
    users.become("ann")
    counts = {name: len(frame().collect()) for name, frame in readers(spark, users, tmp_path).items()}
    assert counts == {name: 60 if "lake copy" in name else 90 for name in counts}


@pytest.mark.parametrize(("user", "word"), [("dan", "dan lacks SELECT on sales.orders"), ("eve", "there is no")])
def test_a_user_without_select_reads_none(spark: SparkSession, users: Users, tmp_path: Path, user: str, word: str) -> None:
    users.become(user)
    texts = {name: refusal(frame) for name, frame in readers(spark, users, tmp_path).items()}
    assert {name: text for name, text in texts.items() if word not in text} == {}


@pytest.mark.parametrize("name", ["the plain name", "the lake copy", "the changelog"])
def test_rights_are_checked_when_a_frame_runs(spark: SparkSession, users: Users, tmp_path: Path, name: str) -> None:
    users.become("ann")
    frame = readers(spark, users, tmp_path)[name]()
    users.become("dan")
    assert "dan lacks SELECT" in refusal(lambda: frame)


@pytest.mark.parametrize("table", ["sales.orders", "sales.`orders$changelog`"])
def test_in_duckdb_a_service_gives_rows_to_a_user_with_select_alone(users: Users, table: str) -> None:
    options = ("--engine", "duckdb", "--format", "csv", "--token-file", str(users.token_file))
    command = ("sql", *options, f"SELECT count(*) AS total FROM {table}")
    users.become("ann")
    assert users.service.lakeward(*command).split() == ["total", "90"]
    users.become("dan")
    assert "dan lacks SELECT on sales.orders" in users.service.lakeward(*command, status=1)
