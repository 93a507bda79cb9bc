from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from tiering.errors import InvalidArgument, InvalidName
from tiering.model.declare import INT, parameter, parameters_of
from tiering.model.sql_types import ArgumentValue, Instant
from tiering.model.tables import TablePath
from tiering.procedures.arguments import ProcedureInput, SessionNames


@dataclass(frozen=True)
class Everything:
    table: TablePath = parameter("The table.")
    wait: bool = parameter("Whether.", default=True)
    attempts: int = parameter("How often.", default=3, arrow_type=INT)
    timeout_ms: int = parameter("How long.", default=300_000)
    ratio: float = parameter("How much.", default=0.5)
    until: datetime | None = parameter("When.", default=None)
    reason: str | None = parameter("Why.", default=None)
    offsets: Mapping[str, int] | None = parameter("Where.", default=None)


@dataclass(frozen=True)
class Listed:
    names: tuple[str, ...] = parameter("Names.")


def read(*arguments: tuple[str, ArgumentValue]) -> Everything:
    return ProcedureInput("do_it", parameters_of(Everything), arguments).read(Everything)


def test_parameters_are_what_the_fields_say() -> None:
    assert [(p.name, p.type, p.required, p.default) for p in parameters_of(Everything)] == [
        ("table", "STRING", True, None),
        ("wait", "BOOLEAN", False, "true"),
        ("attempts", "INT", False, "3"),
        ("timeout_ms", "BIGINT", False, "300000"),
        ("ratio", "DOUBLE", False, "double('0.5')"),
        ("until", "TIMESTAMP", False, "NULL"),
        ("reason", "STRING", False, "NULL"),
        ("offsets", "MAP<STRING, BIGINT>", False, "NULL"),
    ]


def test_what_is_not_given_or_null_has_its_default() -> None:
    default = Everything(TablePath("db", "t"))
    assert read(("table", "db.t")) == default
    assert read(("table", "db.t"), ("wait", None), ("timeout_ms", None), ("reason", None)) == default


def test_given_values_are_typed() -> None:
    until = datetime(2026, 3, 1, tzinfo=UTC)
    parameters = read(
        ("TABLE", "fluss.`db`.t"),
        ("wait", False),
        ("attempts", 4),
        ("timeout_ms", 2**40),
        ("ratio", 1),
        ("until", Instant.of(until)),
        ("reason", ""),
        ("offsets", {"0": 5}),
    )
    assert parameters == Everything(TablePath("db", "t"), False, 4, 2**40, 1.0, until, "", {"0": 5})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "'table' of sys.do_it is required"),
        ([("table", None)], "'table' of sys.do_it is required"),
        ([("table", "db.t"), ("Table", "db.t")], "'table' of sys.do_it is given twice"),
        ([("table", "db.t"), ("tabel", 1)], "no argument 'tabel'"),
        ([("table", 5)], "'table' of sys.do_it must be STRING, not 5"),
        ([("table", "db.t"), ("wait", 1)], "'wait' of sys.do_it must be BOOLEAN"),
        ([("table", "db.t"), ("wait", "true")], "'wait' of sys.do_it must be BOOLEAN, not 'true'"),
        ([("table", "db.t"), ("timeout_ms", True)], "'timeout_ms' of sys.do_it must be BIGINT"),
        ([("table", "db.t"), ("timeout_ms", 1.0)], "'timeout_ms' of sys.do_it must be BIGINT"),
        ([("table", "db.t"), ("attempts", 2**31)], "'attempts' of sys.do_it must be INT"),
        ([("table", "db.t"), ("offsets", 5)], r"'offsets' of sys.do_it must be MAP<STRING, BIGINT>, not 5"),
        ([("table", "db.t"), ("wait", {"0": 5})], "'wait' of sys.do_it must be BOOLEAN, not a map with 1 entries"),
        ([("table", "db.t"), ("until", "now")], "'until' of sys.do_it must be TIMESTAMP"),
        ([("table", "db.t"), ("until", Instant(2**63 - 1))], "'until' of sys.do_it must be TIMESTAMP, not a moment outside"),
    ],
)
def test_a_wrong_argument_is_named_with_what_the_procedure_takes(arguments: list[tuple[str, ArgumentValue]], complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint) as raised:
        read(*arguments)
    assert "table STRING, wait BOOLEAN => true" in raised.value.hint


@pytest.mark.parametrize("text", ["t", "a.b.c.d", "../x.t", "db.a b", "db.'; DROP", "sys.t", "db." + "x" * 201, ""])
def test_a_table_argument_keeps_the_name_rule(text: str) -> None:
    with pytest.raises(InvalidName):
        read(("table", text))


def test_a_type_that_no_argument_can_have_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Listed\.names: a parameter cannot be ARRAY<STRING>"):
        parameters_of(Listed)


def path_in(text: str, names: SessionNames) -> str:
    return str(ProcedureInput("do_it", parameters_of(Everything), [("table", text)], names).read(Everything).table)


def test_a_table_is_named_within_the_session_of_the_caller() -> None:
    assert path_in("orders", SessionNames(database="sales")) == "sales.orders"
    assert path_in("web.clicks", SessionNames(database="sales")) == "web.clicks"
    for catalog in ("mine", "MINE", "fluss"):
        assert path_in(f"{catalog}.sales.orders", SessionNames("mine")) == "sales.orders"
    assert path_in("whatever.sales.orders", SessionNames("")) == "sales.orders", "the caller does not say its name"
    with pytest.raises(InvalidName, match="names the catalog 'lake', but Lakeward's tables are in the catalog 'mine'"):
        path_in("lake.sales.orders", SessionNames("mine"))
    with pytest.raises(InvalidName, match="'orders' is not a table name"):
        path_in("orders", SessionNames())
