"""CALL: arguments, results, errors, and that a procedure is executed exactly once."""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from support.values.own_procedure import procedure
from support.worlds.memory_coordinator import MemoryCoordinator, table_info
from sys_tables.declare.procedure import Call, Procedure
from tiering.errors import RoundFailed, TablePaused
from tiering.model.declare import INT, column, parameter
from tiering.model.tables import TablePath

Serve = Callable[..., Any]
Session = Callable[..., SparkSession]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class EchoParameters:
    text: str = parameter("A STRING.")
    big: int = parameter("A BIGINT.", default=2**40)
    small: int = parameter("An INT.", default=-5, arrow_type=INT)
    real: float = parameter("A DOUBLE.", default=0.25)
    truth: bool = parameter("A BOOLEAN.", default=True)
    moment: datetime | None = parameter("A TIMESTAMP.", default=None)


@dataclass(frozen=True)
class EchoRow:
    argument: str = column("Its name.")
    value: str | None = column("What arrived.")


@procedure("echo", EchoParameters, EchoRow, comment="Says what it was given.", mutates=False)
async def echo(call: Call, parameters: Any) -> AsyncIterator[str | EchoRow]:
    yield "listening"
    for name, value in ((name, getattr(parameters, name)) for name in EchoParameters.__dataclass_fields__):
        shown = (value - EPOCH).total_seconds() if isinstance(value, datetime) else value
        yield EchoRow(name, None if shown is None else repr(shown))


@dataclass(frozen=True)
class NamedParameters:
    table: TablePath = parameter("A table.")


@dataclass(frozen=True)
class NamedRow:
    path: str = column("The path that the name stands for.")


@procedure("named", NamedParameters, NamedRow, comment="Says which table was named.", mutates=False)
async def named(call: Call, parameters: Any) -> AsyncIterator[str | NamedRow]:
    yield NamedRow(str(parameters.table))


@dataclass(frozen=True)
class OnceParameters:
    outcome: str = parameter("What it does: 'ok', 'fail', 'refuse'.", default="ok")


@dataclass(frozen=True)
class OnceRow:
    key: str | None = column("Names the operation.")
    caller: str = column("Who called.")


@dataclass
class Effects:
    """A procedure that does something, and what it did."""

    keys: list[str | None] = field(default_factory=list)

    def procedure(self) -> Procedure:
        @procedure("act", OnceParameters, OnceRow, comment="Does something.", mutates=True)
        async def act(call: Call, parameters: Any) -> AsyncIterator[str | OnceRow]:
            self.keys.append(parameters.idempotency_key)
            yield "acting"
            if parameters.outcome == "fail":
                raise RoundFailed("a disk is full: /tmp/x", cause_class="OSError", hint="Make room.")
            if parameters.outcome == "refuse":
                raise TablePaused("the table demo.Flights is paused by ann", hint="CALL sys.resume_tiering.")
            yield OnceRow(parameters.idempotency_key, parameters.caller)

        return act


@pytest.fixture
def effects() -> Effects:
    return Effects()


@pytest.fixture
def server(serve: Serve, effects: Effects) -> Any:
    return serve(MemoryCoordinator(), procedures=[echo, named, effects.procedure()])


@pytest.fixture
def spark(server: Any, session: Session) -> SparkSession:
    return session(server.uri)


def echoed(spark: SparkSession, arguments: str) -> dict[str, str | None]:
    return {row.argument: row.value for row in spark.sql(f"CALL fluss.sys.echo({arguments})").collect()}


DEFAULTS = {"big": str(2**40), "small": "-5", "real": "0.25", "truth": "True", "moment": None}


def test_arguments_not_given_get_their_defaults(spark: SparkSession) -> None:
    assert echoed(spark, "'a'") == {"text": "'a'", **DEFAULTS}


def test_arguments_are_positional_first_then_named_in_any_order(spark: SparkSession) -> None:
    parameters = echoed(spark, "'a', 7, MOMENT => TIMESTAMP '1970-01-01 00:00:01.5 UTC', truth => false, real => 1.5, small => 3")

    assert parameters == {"text": "'a'", "big": "7", "small": "3", "real": "1.5", "truth": "False", "moment": "1.5"}


def test_null_counts_as_not_given(spark: SparkSession) -> None:
    assert echoed(spark, "'a', NULL, real => NULL, moment => NULL") == {"text": "'a'", **DEFAULTS}


def test_arguments_may_be_expressions_that_spark_casts(spark: SparkSession) -> None:
    parameters = echoed(spark, "concat('it''s ', '日本'), 40 + 2, real => 1, moment => '1970-01-01 00:00:02'")

    assert parameters == {"text": repr("it's 日本"), **DEFAULTS, "big": "42", "real": "1.0", "moment": "2.0"}


@pytest.mark.parametrize("arguments", ["'a', big => 40 + 2L", "'a', coalesce(42, 0L)"])
def test_an_argument_of_two_types_is_one_that_spark_has_to_look_at_twice(arguments: str, spark: SparkSession) -> None:
    assert echoed(spark, arguments) == {"text": "'a'", **DEFAULTS, "big": "42"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", ["text", "required"]),
        ("txt => 'a'", ["txt"]),
        ("'a', truth => 'maybe'", ["the argument truth of fluss.sys.echo must be BOOLEAN, not STRING"]),
        ("'a', array(1)", ["the argument big of fluss.sys.echo must be BIGINT, not ARRAY<INT>"]),
        ("'a', text => 'b'", ["text"]),
        ("text => NULL", ["text", "required"]),
        ("'a', 1, 2, 3, true, NULL, 'too', 'many'", ["8"]),
    ],
)
def test_a_wrong_argument_is_named(arguments: str, words: list[str], spark: SparkSession, server: Any) -> None:
    with pytest.raises(AnalysisException) as raised:
        spark.sql(f"CALL fluss.sys.echo({arguments})")

    assert all(word in str(raised.value) for word in words), str(raised.value)


def test_a_table_is_named_within_the_session(serve: Serve, session: Session) -> None:
    spark = session(serve(MemoryCoordinator([table_info("demo.flights")]), procedures=[named]).uri)

    def path(name: str) -> str:
        [row] = spark.sql(f"CALL fluss.sys.named('{name}')").collect()
        return str(row.path)

    assert path("fluss.demo.flights") == path("demo.flights") == "demo.flights"
    with pytest.raises(AnalysisException, match="'flights' is not a table name"):
        path("flights")
    with pytest.raises(AnalysisException, match="names the catalog 'lake', but Lakeward's tables are in the catalog 'fluss'"):
        path("lake.demo.flights")
    spark.sql("USE fluss.demo")
    assert path("flights") == "demo.flights"
    assert [row.path for row in spark.sql("CALL sys.named('flights')").collect()] == ["demo.flights"]


def test_procedures_are_listed_and_described(spark: SparkSession) -> None:
    names = [row.procedure_name for row in spark.sql("SHOW PROCEDURES IN fluss.sys").collect()]
    described = " ".join(row.procedure_desc for row in spark.sql("DESCRIBE PROCEDURE fluss.sys.ECHO").collect())

    assert {"act", "echo", "help", "tier_table"} <= set(names)
    assert "Says what it was given." in described
    assert "CALL fluss.sys.echo(text STRING, big BIGINT => 1099511627776" in described


def test_an_unknown_procedure_lists_the_known_ones(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=r"no procedure fluss\.sys\.ekko.* act, .*echo, .*help, .*tier_table") as raised:
        spark.sql("CALL fluss.sys.ekko('a')")

    assert raised.value.getCondition() == "ROUTINE_NOT_FOUND"


def test_a_procedure_added_in_python_can_be_called_at_once(spark: SparkSession, server: Any) -> None:
    spark.sql("CALL fluss.sys.echo('warm')")

    @procedure("fresh", OnceParameters, OnceRow, comment="New.", mutates=False)
    async def fresh(call: Call, parameters: Any) -> AsyncIterator[str | OnceRow]:
        yield OnceRow(None, parameters.outcome)

    server.registry.add(procedures=[fresh])

    assert spark.sql("CALL fluss.sys.fresh('hello')").first().caller == "hello"


def test_names_are_case_insensitive_and_the_catalog_may_be_the_default(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.defaultCatalog", "fluss")

    assert spark.sql("CALL SYS.Act()").count() == 1
    spark.sql("USE sys")
    assert spark.sql("CALL act()").count() == 1


def test_a_call_is_executed_once_however_often_its_result_is_looked_at(spark: SparkSession, effects: Effects) -> None:
    result = spark.sql("CALL fluss.sys.act()")

    assert result.collect() == result.collect()
    assert result.count() == 1
    result.show()
    assert len(effects.keys) == 1


def test_explaining_a_call_does_not_execute_it(spark: SparkSession, effects: Effects) -> None:
    spark.sql("EXPLAIN EXTENDED CALL fluss.sys.act()").collect()

    assert effects.keys == []


def test_every_call_has_its_own_key_unless_the_user_names_it(spark: SparkSession, server: Any) -> None:
    own = [spark.sql("CALL fluss.sys.act()").first().key for _ in range(2)]
    named = [spark.sql("CALL fluss.sys.act(idempotency_key => 'mine')").first().key for _ in range(2)]

    assert len(set(own)) == 2
    assert all(own)
    assert named == ["mine", "mine"]


def test_a_statement_that_connect_runs_again_has_the_same_key_and_each_call_of_a_script_its_own(
    spark: SparkSession, effects: Effects
) -> None:
    operation = "SparkConnect_OperationTag_User_ann_Session_s-1_Operation_o-1"
    spark.sparkContext.setLocalProperty("spark.job.tags", f"SparkConnect_Execute_User_ann_Session_s-1_Tag_mine,{operation}")
    try:
        callers = [row.caller for _ in range(2) for row in spark.sql("CALL fluss.sys.act()").collect()]
        spark.sql("CALL fluss.sys.act(idempotency_key => 'mine')")
        spark.sql("BEGIN CALL fluss.sys.act(); CALL fluss.sys.act(); END")
    finally:
        spark.sparkContext.setLocalProperty("spark.job.tags", None)
    assert "ann" not in callers  # no Connect server runs here, and a tag alone names no user
    assert effects.keys[:3] == [operation, operation, "mine"]
    assert len({operation, None, *effects.keys[3:]}) == 4


def test_the_service_learns_who_called(spark: SparkSession) -> None:
    assert spark.sql("CALL fluss.sys.act()").first().caller == os.environ.get("SPARK_USER", pwd.getpwuid(os.getuid()).pw_name)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("fail", ["[OSError] a disk is full: /tmp/x", "Make room."]),
        ("refuse", ["[TablePaused] the table demo.Flights is paused by ann", "CALL sys.resume_tiering."]),
    ],
)
def test_a_failing_call_shows_class_message_and_hint_and_is_not_repeated(
    outcome: str, words: list[str], spark: SparkSession, effects: Effects
) -> None:
    with pytest.raises(AnalysisException) as raised:
        spark.sql(f"CALL fluss.sys.act('{outcome}')")

    assert all(word in str(raised.value) for word in words), str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert raised.value.__cause__ is None
    assert len(effects.keys) == 1
