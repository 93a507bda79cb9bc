"""Random CALLs that no person would write, drawn from a seed: every procedure and parameter, as messages and as the text of a statement."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sys_tables.declare.procedure import Procedure
from sys_tables.registry import default_registry
from tiering.model.declare import Parameter
from tiering.rpc.v1.common_pb2 import Literal, NumbersByText
from tiering.rpc.v1.control_pb2 import Argument, CallProcedureRequest

TABLES = ("sales.logs", "sales.primary_keys", "sales.parts", "sales.plain")
"""Existing tables."""

KEYS = ("key-1", "key-2", "key-3")
"""Few, so that they name other arguments soon."""

_ODD_TEXTS = (
    "",
    " ",
    "\x00",
    "NULL",
    "%",
    "'",
    "`",
    "``",
    "a`b",
    '"; DROP TABLE t; --',
    "../../etc",
    "\u202eevil",
    "\x1b[31m",
    "a\nb",
    "\ud7ff" * 7,
    "\U0010ffff",
    "\uff53\uff41\uff4c\uff45\uff53",
    "grün",
    "İ",
    "x" * 199,
    "x" * 200,
    "x" * 201,
    "y" * 2_048,
    "z" * 2_049,
    "z" * 4_096,
    "z" * 4_097,
    "\U0001f600" * 4_096,
    "z" * 60_000,
    "password=hunter2",
)
_WORDS = ("adopt", "accept", "retier", "ACCEPT", "counts", "offsets", "rows", "iceberg", "region=eu", "eu", "lease", "lease-2", "0", "-1")
_NAMES = (
    *TABLES,
    "SALES.LOGS",
    "fluss.sales.logs",
    "`sales`.`primary_keys`",
    " `sales`.logs ",
    "a.b.c.d",
    "sales",
    ".",
    "sales.",
    ".logs",
    "sales..logs",
    "sys.tables",
    "sales.`lo``gs`",
    "`sales.logs",
    "sales.__logs",
    "nowhere.logs",
    "sales.nothing",
    "`sales`.`logs`x",
)
_NUMBERS = (0, 1, 2, 5, -1, 3, 7, 127, 2**31 - 1, 2**31, -(2**31), 2**53, 86_400_000, 2**63 - 1, -(2**63))
_REALS = (0.0, -0.0, 0.5, 1.0, 1e308, 5e-324, float("nan"), float("inf"), float("-inf"))
_MOMENTS = (0, 1, -1, 1_767_225_600_000_000, 253_402_300_799_999_999, 253_402_300_800_000_000, -(2**63), 2**63 - 1)


def literal(rng: random.Random) -> Literal | None:
    """Returns a literal of any kind; None is NULL, and one without a value has no meaning."""
    texts = (*_ODD_TEXTS, *_WORDS, *_NAMES)
    return rng.choice(
        (
            lambda: None,
            Literal,
            lambda: Literal(text=rng.choice(texts)),
            lambda: Literal(number=rng.choice(_NUMBERS)),
            lambda: Literal(real=rng.choice(_REALS)),
            lambda: Literal(truth=rng.random() < 0.5),
            lambda: Literal(timestamp_us=rng.choice(_MOMENTS)),
            lambda: _offsets(rng),
        )
    )()


def _offsets(rng: random.Random) -> Literal:
    buckets = rng.choices(("0", "1", "7", "-1", "17/3", "/", "", "zero"), k=rng.randrange(3))
    return Literal(numbers=NumbersByText(numbers={bucket: rng.choice(_NUMBERS) for bucket in buckets}))


def _likely(rng: random.Random, name: str, kind: str, rounds: Sequence[str]) -> Literal:
    """A value of the right type, right or extreme."""
    if name == "table":
        return Literal(text=rng.choice((*TABLES, *TABLES, *_NAMES)))
    if name == "round_id" and rounds and rng.random() < 0.7:
        return Literal(text=rng.choice(rounds))
    if name == "timeout_ms":
        return Literal(number=rng.choice((-1, 0, 1, 5)))
    if name == "idempotency_key":
        return Literal(text=rng.choice(KEYS))
    match kind:
        case "BOOLEAN":
            return Literal(truth=rng.random() < 0.5)
        case "INT" | "BIGINT":
            return Literal(number=rng.choice(_NUMBERS))
        case "TIMESTAMP":
            return Literal(timestamp_us=rng.choice(_MOMENTS))
        case "MAP<STRING, BIGINT>":
            return _offsets(rng)
    return Literal(text=rng.choice((*_WORDS, *_ODD_TEXTS)))


_PLAIN_VALUES = {
    "table": TABLES,
    "action": ("accept", "adopt", "retier"),
    "level": ("counts", "offsets", "rows"),
    "lease_id": ("lease-1", "lease-2"),
    "name": ("table.datalake.freshness", "table.log.ttl", "iceberg.gc.enabled", "table.datalake.format", "freshness"),
    "value": ("5 min", "1 h", "true", "iceberg", "soon"),
    "procedure": ("help", "TIER_TABLE"),
}
ODD_CALLS = 0.5


@dataclass(frozen=True)
class Calls:
    """Draws them. `rounds`: ids that there are."""

    rng: random.Random
    rounds: Callable[[], Sequence[str]]

    def request(self) -> CallProcedureRequest:
        """Half of them as they should be, but for their values, so that they reach what is behind the first checks."""
        rng = self.rng
        procedure = rng.choice(default_registry().procedures)
        odd = rng.random() < ODD_CALLS
        arguments = [
            Argument(name=self._name(p.name, odd), value=self._value(p.name, p.type, odd)) for p in self._parameters(procedure, odd)
        ]
        rng.shuffle(arguments)
        if not odd:
            key = rng.choice((None, None, None, *KEYS, f"key-{rng.randrange(10_000)}"))
            return CallProcedureRequest(name=procedure.name, arguments=arguments, idempotency_key=key, caller="ann")
        if rng.random() < 0.05:
            arguments.append(Argument(name=rng.choice(_ODD_TEXTS), value=literal(rng)))
        if arguments and rng.random() < 0.03:
            arguments.append(rng.choice(arguments))
        return CallProcedureRequest(
            name=procedure.name if rng.random() < 0.97 else rng.choice((procedure.name.upper(), *_ODD_TEXTS)),
            arguments=arguments,
            idempotency_key=rng.choice((None, *KEYS, *_ODD_TEXTS)),
            caller=rng.choice(("ann", "bob", *_ODD_TEXTS)),
        )

    def _parameters(self, procedure: Procedure, odd: bool) -> list[Parameter]:
        """Returns parameters. `timeout_ms` is always there, so that no call waits for long."""
        sure = lambda p: p.name == "timeout_ms" or (p.required and not odd)  # noqa: E731
        return [p for p in procedure.parameters if sure(p) or self.rng.random() < (0.97 if p.required else 0.3)]

    def _name(self, name: str, odd: bool) -> str:
        plain = not odd or name == "timeout_ms" or self.rng.random() < 0.97
        return name if plain else self.rng.choice((name.upper(), f"`{name}`", f" {name}"))

    def _value(self, name: str, kind: str, odd: bool) -> Literal | None:
        rng = self.rng
        if not odd and name in _PLAIN_VALUES:
            return Literal(text=rng.choice(_PLAIN_VALUES[name]))
        likely = not odd or name == "timeout_ms" or rng.random() < 0.85
        return _likely(rng, name, kind, self.rounds()) if likely else literal(rng)

    def statement(self) -> str:
        """The text of a CALL: positions and names mixed, values of every form that SQL has."""
        rng = self.rng
        procedure = rng.choice(default_registry().procedures)
        argument_texts = []
        for parameter in self._parameters(procedure, odd=True):
            value = self._sql(parameter.name) if rng.random() < 0.85 else rng.choice(_ODD_SQL)
            argument_texts.append(rng.choice((f"{parameter.name} => {value}", f"`{parameter.name}` => {value}", value, value)))
        name = rng.choice(("sys.", "fluss.sys.", "`sys`.", "SYS.", "fluss.")) + rng.choice((procedure.name, f"`{procedure.name}`"))
        text = f"CALL {name}({', '.join(argument_texts)})"
        return text if rng.random() < 0.9 else _spoiled(rng, text)

    def _sql(self, name: str) -> str:
        if name == "table":
            return _quoted(self.rng.choice((*TABLES, *TABLES, *_NAMES)))
        return self.rng.choice(("true", "NULL", "0", "'counts'", "'offsets'", _quoted(self.rng.choice(_ODD_TEXTS))))


_ODD_SQL = (
    "map('a', 1)",
    "array(1, 2)",
    "array()",
    "named_struct('a', 1)",
    "INTERVAL 1 DAY",
    "INTERVAL '999999999' YEAR",
    "TIMESTAMP '9999-12-31 23:59:59'",
    "TIMESTAMP '-290000-01-01 00:00:00'",
    "TIMESTAMP '0000-00-00'",
    "DATE '2026-01-01'",
    "X'FF'",
    "1e400",
    "1.5BD",
    "99999999999999999999999999999999999999999",
    "-9223372036854775808",
    "9223372036854775808",
    "CAST(1 AS TINYINT)",
    "1/0",
    "current_timestamp()",
    "(SELECT 1)",
    "(SELECT count(*) FROM sys.tables)",
    "read_text('/etc/passwd')",
    "pi()",
    "x",
    "`x`",
    "'a' || 'b'",
    "-'a'",
    "NOT 1",
    "?",
    ":name",
    "$1",
    "*",
    "()",
    "uuid()",
    "explode(array(1, 2))",
    "'a' COLLATE UTF8_LCASE",
    "CAST('x' AS INT)",
    "repeat('x', 100000)",
    "'" + "x" * 5_000 + "'",
    "(" * 60 + "1" + ")" * 60,
    "" + "-" * 2 + "1",
)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _spoiled(rng: random.Random, text: str) -> str:
    """A piece taken out, doubled, or something put in."""
    start = rng.randrange(len(text))
    end = min(len(text), start + rng.randrange(1, 12))
    return rng.choice((text[:start] + text[end:], text[:end] + text[start:], text[:start] + rng.choice(_ODD_TEXTS[:20]) + text[start:]))
