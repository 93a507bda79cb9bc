"""Draws typed expressions in Spark's SQL that have one meaning in Spark and in DuckDB.

Left out, because the engines differ there and neither is wrong: see `tests/integration/slt/README.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from random import Random


class Kind(StrEnum):
    """The kinds of values, by the SQL type that holds each value of the kind."""

    WHOLE = "BIGINT"
    REAL = "DOUBLE"
    EXACT = "DECIMAL(38, 18)"
    TEXT = "STRING"
    TRUTH = "BOOLEAN"
    DAY = "DATE"
    INSTANT = "TIMESTAMP"
    LOCAL = "TIMESTAMP_NTZ"


@dataclass(frozen=True)
class Column:
    """A column of a source, as a query names it."""

    sql: str
    kind: Kind


LITERALS: Mapping[Kind, Sequence[str]] = {
    Kind.WHOLE: [
        "-2147483648",
        "-128",
        "-1",
        "0",
        "1",
        "2",
        "4",
        "7",
        "30",
        "127",
        "128",
        "32768",
        "2147483647",
        "9007199254740993",
        "9223372036854775807",
    ],
    Kind.REAL: ["double('-Infinity')", "-1.0D", "0.0D", "0.1D", "1.5D", "2.25D", "1e308D", "double('Infinity')", "double('NaN')"],
    Kind.EXACT: ["-5.00", "0.00", "0.000000000000000001", "0.01", "1", "2.5", "19.99", "99999999.99"],
    Kind.TEXT: ["''", "' '", "'/'", "'/Buy'", "'/buy'", "'LOG'", "'Scheduled'", "'abc'", "'at'", "'grüne'", "'it''s'", "'people'", "'😀'"],
    Kind.TRUTH: ("false", "true"),
    Kind.DAY: [f"DATE '{day}'" for day in ["0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "2026-03-01", "9999-12-31"]],
    Kind.INSTANT: [
        f"TIMESTAMP '{day} {time} UTC'"
        for day, time in (
            ("0001-01-01", "00:00:00"),
            ("1970-01-01", "00:00:00"),
            ("2026-03-01", "00:00:00"),
            ("2026-03-01", "00:00:00.000001"),
            ("9999-12-31", "23:59:59.999999"),
        )
    ],
    Kind.LOCAL: [f"TIMESTAMP_NTZ '{time}'" for time in ("1970-01-01 00:00:00", "2026-03-01 01:02:03", "9999-12-31 23:59:59.999999")],
}
"""Values by kind, in ascending order."""
PATTERNS = [
    r"'%'",
    r"''",
    r"'/%'",
    r"'%y'",
    r"'%u%'",
    r"'/_uy'",
    r"'_'",
    r"'a%c'",
    r"'%\\%%'",
    r"'/a\\_b'",
    r"'%grüne%'",
    r"'ab_'",
    r"'%''%'",
    r"'%s%'",
]
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


class Expressions:
    """Draws expressions over the columns of a scope."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def one_of(self, *options: Callable[[], str]) -> str:
        """Returns a text of one of the options."""
        return self.random.choice(options)()

    def column(self, kind: Kind, scope: Sequence[Column]) -> str:
        """Returns a column of the kind. Where the scope has none, it returns an expression over others, or a literal."""
        columns = [column.sql for column in scope if column.kind is kind]
        if columns:
            return self.random.choice(columns)
        if kind in (Kind.TRUTH, Kind.LOCAL) or self.random.random() < 0.6:
            return self.random.choice(LITERALS[kind])
        return self._computed(kind, scope, 0)

    def value(self, kind: Kind, scope: Sequence[Column], depth: int = 2) -> str:
        """Returns an expression of the kind."""
        if depth <= 0 or self.random.random() < 0.4:
            return self.column(kind, scope)
        if self.random.random() < 0.12:
            return self.random.choice(LITERALS[kind])
        if self.random.random() < 0.3:
            return self._of_any_kind(kind, scope, depth)
        return self._computed(kind, scope, depth - 1)

    def _computed(self, kind: Kind, scope: Sequence[Column], depth: int) -> str:
        match kind:
            case Kind.WHOLE:
                return self._whole(scope, depth)
            case Kind.REAL:
                return self._real(scope, depth)
            case Kind.EXACT:
                return self._exact(scope, depth)
            case Kind.TEXT:
                return self._text(scope, depth)
            case Kind.DAY:
                return self._day(scope, depth)
            case Kind.INSTANT:
                return self._instant(scope, depth)
            case Kind.LOCAL:
                return self.column(kind, scope)
            case Kind.TRUTH:
                return self.condition(scope, depth)

    def _of_any_kind(self, kind: Kind, scope: Sequence[Column], depth: int) -> str:
        value = partial(self.value, kind, scope, depth - 1)
        condition = partial(self.condition, scope, depth - 1)

        return self.one_of(
            lambda: f"coalesce({value()}, {value()})",
            lambda: f"nullif({value()}, {value()})",
            lambda: f"CASE WHEN {condition()} THEN {value()} ELSE {value()} END",
            lambda: f"CASE WHEN {condition()} THEN {value()} WHEN {condition()} THEN {value()} END",
            lambda: f"if({condition()}, {value()}, NULL)",
            lambda: f"nvl({value()}, {value()})",
            *([lambda: f"least({value()}, {value()})", lambda: f"greatest({value()}, {value()})"] if kind is not Kind.TRUTH else []),
        )

    def _whole(self, scope: Sequence[Column], depth: int) -> str:
        def bounded() -> str:
            return f"({self.value(Kind.WHOLE, scope, depth)} % 1000)"

        text = partial(self.value, Kind.TEXT, scope, depth)
        day = partial(self.value, Kind.DAY, scope, depth)

        return self.one_of(
            bounded,
            lambda: f"({bounded()} + {bounded()})",
            lambda: f"({bounded()} - {bounded()})",
            lambda: f"({bounded()} * {bounded()})",
            lambda: f"abs({bounded()})",
            lambda: f"(- {bounded()})",
            lambda: f"({bounded()} DIV 7)",
            lambda: f"length({text()})",
            lambda: f"year({day()})",
            lambda: f"month({day()})",
            lambda: f"day({day()})",
            lambda: f"dayofweek({day()})",
            lambda: f"quarter({day()})",
            lambda: f"dayofyear({day()})",
            lambda: f"datediff({day()}, {day()})",
            lambda: f"hour({self.value(Kind.INSTANT, scope, depth)})",
            lambda: f"minute({self.value(Kind.INSTANT, scope, depth)})",
            lambda: f"CAST({self.value(Kind.TRUTH, scope, depth)} AS INT)",
            lambda: f"instr({text()}, {self.random.choice(LITERALS[Kind.TEXT][1:])})",
            lambda: f"CAST({bounded()} AS SMALLINT)",
        )

    def _real(self, scope: Sequence[Column], depth: int) -> str:
        value = partial(self.value, Kind.REAL, scope, depth)

        def whole() -> str:
            return f"({self.value(Kind.WHOLE, scope, depth)} % 1000)"

        return self.one_of(
            lambda: f"abs({value()})",
            lambda: f"(- {value()})",
            lambda: f"CAST({whole()} AS DOUBLE)",
            lambda: f"({whole()} / 4)",
            lambda: f"(CAST({whole()} AS DOUBLE) * 0.5D)",
            lambda: f"sqrt(abs(CAST({whole()} AS DOUBLE)))",
        )

    def _exact(self, scope: Sequence[Column], depth: int) -> str:
        def money() -> str:
            return f"CAST({self.value(Kind.WHOLE, scope, depth)} % 1000 AS DECIMAL(9, 2))"

        return self.one_of(
            money,
            lambda: f"({money()} + {money()})",
            lambda: f"({money()} - {money()})",
            lambda: f"({money()} * 2)",
            lambda: f"abs({money()})",
            lambda: f"(- {money()})",
        )

    def _text(self, scope: Sequence[Column], depth: int) -> str:
        text = partial(self.value, Kind.TEXT, scope, depth)

        return self.one_of(
            lambda: f"upper({text()})",
            lambda: f"lower({text()})",
            lambda: f"trim({text()})",
            lambda: f"concat({text()}, {text()})",
            lambda: f"({text()} || {text()})",
            lambda: f"substring({text()}, {self.random.randint(-3, 4)}, {self.random.randint(0, 3)})",
            lambda: f"left({text()}, {self.random.randint(0, 3)})",
            lambda: f"right({text()}, {self.random.randint(0, 3)})",
            lambda: f"replace({text()}, '/', '-')",
            lambda: f"concat_ws('|', {text()}, {text()})",
            lambda: f"repeat({text()}, 2)",
            lambda: f"lpad({text()}, 6, '*')",
            lambda: f"CAST({self.value(Kind.WHOLE, scope, depth)} AS STRING)",
            lambda: f"CAST({self.value(Kind.DAY, scope, depth)} AS STRING)",
            lambda: f"CAST({self.value(Kind.TRUTH, scope, depth)} AS STRING)",
            lambda: f"CAST({self.value(Kind.INSTANT, scope, depth)} AS STRING)",
        )

    def _day(self, scope: Sequence[Column], depth: int) -> str:
        day = partial(self.value, Kind.DAY, scope, depth)

        return self.one_of(
            lambda: f"CAST({self.value(Kind.INSTANT, scope, depth)} AS DATE)",
            lambda: f"trunc({day()}, 'MM')",
            lambda: f"trunc({day()}, 'YEAR')",
            lambda: f"date_add(DATE '2024-02-29', CAST({self.value(Kind.WHOLE, scope, depth)} % 100 AS INT))",
            lambda: f"last_day({day()})",
            lambda: f"add_months(DATE '2024-01-31', CAST({self.value(Kind.WHOLE, scope, depth)} % 100 AS INT))",
            lambda: f"date_sub(DATE '2026-03-01', {self.random.randint(0, 99)})",
        )

    def _instant(self, scope: Sequence[Column], depth: int) -> str:
        instant = partial(self.value, Kind.INSTANT, scope, depth)
        unit = self.random.choice(("day", "hour", "month", "year", "minute", "second", "quarter", "mm", "dd"))
        return self.one_of(
            lambda: f"date_trunc('{unit}', {instant()})",
            lambda: "date_trunc('week', TIMESTAMP '2026-03-01 00:00:00 UTC')",
            lambda: f"CAST({self.value(Kind.DAY, scope, depth)} AS TIMESTAMP)",
            lambda: f"(TIMESTAMP '2026-03-01 00:00:00 UTC' + INTERVAL {self.random.randint(0, 99)} HOURS)",
        )

    def condition(self, scope: Sequence[Column], depth: int = 2) -> str:
        """Returns an expression that is true, false or NULL."""
        if depth > 0 and self.random.random() < 0.5:
            return self.one_of(
                lambda: f"({self.condition(scope, depth - 1)} OR {self.condition(scope, depth - 1)})",
                lambda: f"({self.condition(scope, depth - 1)} AND {self.condition(scope, depth - 1)})",
                lambda: f"({self.condition(scope, depth - 1)} OR {self.condition(scope, depth - 1)})",
                lambda: f"NOT ({self.condition(scope, depth - 1)})",
            )
        kind = self.random.choice([column.kind for column in scope])
        if kind is Kind.TRUTH:
            return self._of_truth(scope, depth)
        return self._comparison(kind, scope, depth)

    def _of_truth(self, scope: Sequence[Column], depth: int) -> str:
        truth = self.column(Kind.TRUTH, scope)
        endings = ("", " IS NULL", " IS NOT NULL", " IS TRUE", " IS NOT TRUE", " IS FALSE", " = true", " <> true", " = false", " <=> NULL")
        return f"({truth}{self.random.choice(endings)})"

    def _comparison(self, kind: Kind, scope: Sequence[Column], depth: int) -> str:
        value = partial(self.value, kind, scope, depth - 1)

        def literal() -> str:
            return self.random.choice(LITERALS[kind])

        def literals() -> str:
            values = [literal() for _ in range(self.random.randint(1, 4))]
            return ", ".join(values + ["NULL"] * (self.random.random() < 0.25))

        def bounds() -> str:
            places = [self.random.randrange(len(LITERALS[kind])) for _ in range(2)]
            low, high = sorted(places) if self.random.random() < 0.85 else places
            return f"{LITERALS[kind][low]} AND {LITERALS[kind][high]}"

        negation = self.random.choice(("", " NOT"))
        options: list[Callable[[], str]] = [
            lambda: f"({value()} {self.random.choice(COMPARISONS)} {literal()})",
            lambda: f"({literal()} {self.random.choice(COMPARISONS)} {value()})",
            lambda: f"({value()} {self.random.choice(COMPARISONS)} {value()})",
            lambda: f"({value()} IS{negation} NULL)",
            lambda: f"({value()}{negation} IN ({literals()}))",
            lambda: f"({value()}{negation} BETWEEN {bounds()})",
            lambda: f"({value()} IS{negation} DISTINCT FROM {literal()})",
        ]
        if kind is Kind.TEXT:
            options += [
                lambda: f"({value()}{negation} LIKE {self.random.choice(PATTERNS)})",
                lambda: f"({value()}{negation} ILIKE {self.random.choice(PATTERNS)})",
                lambda: f"{self.random.choice(('startswith', 'endswith', 'contains'))}({value()}, {literal()})",
            ]
        if kind is Kind.REAL:
            options.append(lambda: f"isnan({value()})")
        return self.one_of(*options)
