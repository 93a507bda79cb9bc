"""Actions: every procedure as a form, made from its declaration. A change is checked first, and then performed once.

A checked form carries an idempotency key and a seal over its arguments. So the change that is performed is the one that was checked, and
a form that is sent again, after a lost answer or a second click, returns the result of the first.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from sqlglot import exp

from sys_tables.console.overview import OWN
from sys_tables.console.query import Query, equal, literal_sql
from sys_tables.console.reader import Reader, Row
from sys_tables.declare.scan import Order
from sys_tables.offline.parsing import CallStatement, parse
from tiering.access.requirements import PrivilegeTarget
from tiering.errors import InvalidArgument, StatementFailed, UnknownProcedure
from tiering.model.names import CATALOG, SYSTEM_DATABASE
from tiering.model.sql_types import BIGINTS, Instant, literal

PROCEDURES = Query("procedures", ("procedure_name", "description", "privilege", "parameters", "allowed"), order=(Order("procedure_name"),))
_DRY_RUN, _KEY = "dry_run", "idempotency_key"
_HIDDEN = (_DRY_RUN, _KEY)
"""Parameters that the console sets itself."""
FIRST_TEXTS = {"wait": "false"}
"""First choices that differ from the default: a page should not wait for minutes."""


class Calls(Protocol):
    """The part of `SystemCatalog` that performs procedures."""

    def call(self, procedure: str, **arguments: Any) -> list[dict[str, Any]]:
        """Calls a procedure and returns its rows. Raises the errors of the procedure."""


@dataclass(frozen=True)
class Parameter:
    """One field of a form. `default` is a literal of SQL; `text` is what the user typed."""

    name: str
    type: str
    required: bool
    default: str | None
    comment: str
    text: str = ""

    @property
    def how_to_write(self) -> str:
        """Returns how a value of the type is written; the name of the type for a text."""
        return _FORMS.get(self.type, f"{self.type}.")


@dataclass(frozen=True)
class Action:
    """A procedure with the texts of its form."""

    name: str
    description: str
    privilege: str
    parameters: Sequence[Parameter]
    changes: bool
    """Whether the procedure changes something."""
    refusal: str = ""
    """Why the user may not perform it, as far as this is known before; empty if the user may."""

    @property
    def table_privilege(self) -> str:
        """The privilege that the user needs on the table in the form; empty if there is none."""
        privilege, _, target = self.privilege.partition(" on ")
        return privilege if target == str(PrivilegeTarget.TABLE) else ""

    def arguments(self) -> dict[str, Any]:
        """Returns the values of the fields that are not empty. Raises InvalidArgument."""
        return {parameter.name: _value(parameter) for parameter in self.parameters if parameter.text or parameter.required}

    def sealed_text(self, key: str) -> str:
        """Returns the text that the seal of a checked form covers."""
        return json.dumps([self.name, key, [[parameter.name, parameter.text] for parameter in self.parameters]])


@dataclass(frozen=True)
class Outcome:
    """The rows of a call, and the statement that does the same. `is_dry_run`: nothing was changed."""

    rows: Sequence[Row]
    statement: str
    is_dry_run: bool


def actions(reader: Reader) -> list[Action]:
    """Returns all procedures of the service."""
    return [_action(row, {}) for row in reader.rows(PROCEDURES)]


def action(reader: Reader, name: str, texts: Mapping[str, str]) -> Action:
    """Returns a procedure, with these texts in its fields. Raises UnknownProcedure."""
    rows = reader.rows(Query("procedures", PROCEDURES.columns, (equal("procedure_name", name),)))
    if not rows:
        raise UnknownProcedure(f"there is no procedure {name[:200]!r}", hint="The page of actions lists them.")
    chosen = _action(rows[0], texts)
    return chosen if chosen.refusal else replace(chosen, refusal=_refusal_on_table(reader, chosen))


def _refusal_on_table(reader: Reader, chosen: Action) -> str:
    """Returns why the user may not perform the action on the table of its form; empty also for a table that the user may not describe."""
    texts = {parameter.name: parameter.text for parameter in chosen.parameters}
    database, _, table = texts.get("table", "").partition(".")
    if not (chosen.table_privilege and database and table):
        return ""
    here = (equal("database_name", database), equal("table_name", table), OWN)
    rows = reader.rows(Query("effective_privileges", ("privileges",), here))
    if not rows or chosen.table_privilege in rows[0]["privileges"].split(", "):
        return ""
    return f"You may not run this procedure for {database}.{table}: it needs {chosen.privilege}, which you do not have."


def _action(row: Row, texts: Mapping[str, str]) -> Action:
    parameters = [Parameter(**declared, text=texts.get(declared["name"], "").strip()) for declared in row["parameters"]]
    changes = any(parameter.name == _DRY_RUN for parameter in parameters)
    fields = [parameter for parameter in parameters if parameter.name not in _HIDDEN]
    refusal = "" if row["allowed"] else f"You may not run this procedure: it needs {row['privilege']}, which you do not have."
    return Action(row["procedure_name"], row["description"], row["privilege"], fields, changes, refusal)


def new_key() -> str:
    """Returns the idempotency key of a checked form."""
    return f"console-{secrets.token_hex(8)}"


def perform(calls: Calls, chosen: Action, key: str | None = None) -> Outcome:
    """Performs an action that changes nothing, a dry run without `key`, or a change under `key`. Raises the errors of the procedure."""
    arguments = chosen.arguments()
    if chosen.changes:
        arguments |= {_DRY_RUN: True} if key is None else {_KEY: key}
    rows = calls.call(chosen.name, **arguments)
    return Outcome(rows, call_sql(chosen.name, arguments), chosen.changes and key is None)


def call_sql(name: str, arguments: Mapping[str, Any]) -> str:
    """Returns the statement of a call."""
    return f"CALL {CATALOG}.{SYSTEM_DATABASE}.{name}({', '.join(f'{key} => {_sql(value)}' for key, value in arguments.items())});"


def prefilled(statement: str | None, declared: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, str]] | None:
    """Returns the procedure and the texts of a CALL of `sys`, such as a `next_action`; None for any other statement.

    `declared` has the names of the parameters of each procedure, for arguments by position.
    """
    try:
        call = parse(statement or "")
    except StatementFailed:
        return None
    if not isinstance(call, CallStatement) or call.name[-2:-1] != (SYSTEM_DATABASE,) or call.name[-1] not in declared:
        return None
    names, texts = declared[call.name[-1]], dict[str, str]()
    for position, argument in enumerate(call.arguments):
        match argument.value:
            case exp.Literal() | exp.Boolean() as value if argument.name is not None or position < len(names):
                texts[argument.name or names[position]] = str(value.this).lower() if isinstance(value, exp.Boolean) else str(value.this)
            case _:
                return None
    return call.name[-1], texts


def _value(parameter: Parameter) -> Any:
    read = _READ.get(parameter.type, str)
    try:
        return read(parameter.text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"{parameter.text[:100]!r} is not a value of {parameter.name}, which is {parameter.type}", hint=_FORMS.get(parameter.type)
        ) from error


def _integer(text: str) -> int:
    number = int(text) if len(text) < 30 else None
    if number is None or number not in BIGINTS:
        raise ValueError(text)
    return number


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _numbers(text: str) -> dict[str, int]:
    numbers = json.loads(text)
    if not isinstance(numbers, dict) or any(type(number) is not int or number not in BIGINTS for number in numbers.values()):
        raise ValueError(text)
    return numbers


_READ: Mapping[str, Callable[[str], Any]] = {
    "BOOLEAN": _truth,
    "INT": _integer,
    "BIGINT": _integer,
    "TIMESTAMP": _moment,
    "MAP<STRING, BIGINT>": _numbers,
}
_FORMS = {
    "BOOLEAN": "Choose true or false.",
    "INT": "Write a whole number.",
    "BIGINT": "Write a whole number.",
    "TIMESTAMP": "Write a time such as 2026-12-01 06:30; it is UTC without a zone.",
    "MAP<STRING, BIGINT>": 'Write offsets of buckets such as {"0": 120, "1": 80}.',
}


def _sql(value: Any) -> str:
    match value:
        case datetime():
            return literal_sql(Instant.of(value))
        case Mapping():
            return f"map({', '.join(f'{literal(str(key))}, {number}' for key, number in value.items())})"
    return literal(value)
