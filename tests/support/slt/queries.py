"""Draws queries over the tables of the shop and over system tables, and joins several of them to one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from support.slt.expressions import Column, Expressions, Kind


def columns(**names: str) -> Mapping[str, Kind]:
    """Returns columns by name. The arguments are the kinds."""
    return {name: Kind[kind.upper()] for kind, texts in names.items() for name in texts.split()}


VISITS = columns(whole="id person seconds", text="country page", exact="price", day="day", instant="at", truth="bought")
PEOPLE = columns(whole="id friend", text="name", day="born", real="score", truth="active")
EDGES = columns(
    whole="id tiny small whole big",
    real="half real",
    exact="money exact",
    text="text",
    truth="truth",
    day="day",
    local="local",
    instant="instant",
)
SHOP: Mapping[str, Mapping[str, Kind]] = {
    **dict.fromkeys(("shop.visits", "shop.drafts", "shop.`visits$lake`", "lake.shop.visits"), VISITS),
    **dict.fromkeys(("shop.people", "shop.nothing"), PEOPLE),
    "shop.edges": EDGES,
}
SYSTEM: Mapping[str, Mapping[str, Kind]] = {
    "sys.lake_tiering_status": columns(
        text="database_name table_name status table_type lake_format paused_reason next_action",
        whole="table_id freshness_ms pending_records lake_records",
        truth="is_backlog paused",
        instant="last_tiered_time",
    ),
    "sys.tiering_buckets": columns(
        text="table_name partition_name",
        whole="bucket_id log_start_offset log_end_offset lake_offset lag_records",
        truth="is_backlog",
    ),
    "sys.tables": columns(
        text="table_name table_type lake_location `schema`",
        whole="table_id bucket_count partitions",
        truth="lake_enabled",
        instant="created_at",
    ),
    "sys.tiering_rounds": columns(
        text="round_id table_name `trigger` state error_class",
        whole="duration_ms splits_total records_read attempt",
        instant="started_time",
    ),
    "sys.procedures": columns(text="procedure_name privilege description"),
    "sys.options": columns(text="scope name value `default` source"),
}
TABLES = {**SHOP, **SYSTEM}
MOSTLY = ("shop.visits", "shop.people", "shop.edges", "shop.edges", "sys.lake_tiering_status", "sys.tiering_buckets")
"""Half of the sources are of these."""


@dataclass(frozen=True)
class DrawnQuery:
    """A query and the kinds of its columns, which are named c0, c1, ..."""

    sql: str
    kinds: tuple[Kind, ...]


class Queries(Expressions):
    """Draws queries."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._aliases = 0

    def query(self, depth: int = 2) -> DrawnQuery:
        """Returns a query whose rows are the same in every run."""
        draw = self.random.choices(
            (self._plain, self._grouped, self._set_operation, self._ordered, self._windowed, self._with_part), (6, 4, 2, 3, 2, 1)
        )[0]
        return draw(self._kinds(), depth)

    def _kinds(self) -> tuple[Kind, ...]:
        return tuple(self.random.choices(tuple(Kind), (4, 2, 2, 4, 2, 2, 2, 1), k=self.random.randint(1, 4)))

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _source(self, depth: int) -> tuple[str, list[Column]]:
        """Returns a table or a subquery for FROM, and its columns."""
        alias = self._alias()
        if depth > 0 and self.random.random() < 0.15:
            inner = self.query(depth - 1)
            return f"({inner.sql}) AS {alias}", [Column(f"{alias}.c{place}", kind) for place, kind in enumerate(inner.kinds)]
        name = self.random.choice(MOSTLY if self.random.random() < 0.5 else tuple(TABLES))
        return f"{name} AS {alias}", [Column(f"{alias}.{column}", kind) for column, kind in TABLES[name].items()]

    def _from(self, depth: int) -> tuple[str, list[Column]]:
        """Returns FROM with its joins, and the columns in scope."""
        text, scope = self._source(depth)
        for _ in range(self.random.choices((0, 1, 2), (6, 3, 1))[0]):
            other, columns = self._source(depth - 1)
            join = self.random.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
            kind = self.random.choice([column.kind for column in columns])
            pairs = [column.kind for column in scope if column.kind is kind]
            matches = f"{self.column(kind, scope)} = {self.column(kind, columns)}" if pairs else self.condition(columns, 0)
            if self.random.random() < 0.3:
                matches += f" AND {self.condition(columns if self.random.random() < 0.5 else scope, 1)}"
            text += f" {join} {other} ON {matches}"
            scope = scope if join.startswith(("LEFT SEMI", "LEFT ANTI")) else [*scope, *columns]
        return text, scope

    def _where(self, scope: Sequence[Column], depth: int) -> str:
        if self.random.random() < 0.25:
            return ""
        parts = [self.condition(scope, self.random.choice((0, 1, 1, 2, 3))) for _ in range(self.random.choice((1, 1, 1, 2)))]
        comparable = [column for column in scope if column.kind is not Kind.TRUTH]
        if depth > 0 and self.random.random() < 0.15 and comparable:
            parts.append(self._subquery_condition(comparable))
        return " WHERE " + " AND ".join(parts)

    def _subquery_condition(self, scope: Sequence[Column]) -> str:
        source, columns = self._source(0)
        outer = self.random.choice(scope)
        negation = self.random.choice(("", "NOT "))
        where = self._where(columns, 0)
        inner = self.column(outer.kind, columns)
        if self.random.random() < 0.5:
            return f"{outer.sql} {negation}IN (SELECT {inner} FROM {source}{where})"
        correlated = f"{inner} = {outer.sql}"
        return f"{negation}EXISTS (SELECT 1 FROM {source}{where}{' AND' if where else ' WHERE'} {correlated})"

    def _select(self, expressions: Sequence[str], *, distinct: bool = False) -> str:
        columns = ", ".join(f"{expression} AS c{place}" for place, expression in enumerate(expressions))
        return f"SELECT {'DISTINCT ' if distinct else ''}{columns}"

    def _plain(self, kinds: tuple[Kind, ...], depth: int) -> DrawnQuery:
        source, scope = self._from(depth)
        select = self._select([self.value(kind, scope) for kind in kinds], distinct=self.random.random() < 0.2)
        return DrawnQuery(f"{select} FROM {source}{self._where(scope, depth)}", kinds)

    def _aggregate(self, kind: Kind, scope: Sequence[Column]) -> str:
        value = self.value(kind, scope, 1)
        options = [f"min({value})", f"max({value})"]
        if kind is Kind.WHOLE:
            anything = self.value(self.random.choice(tuple(Kind)), scope, 1)
            options += ["count(*)", f"count({anything})", f"count(DISTINCT {anything})", f"sum({value} % 1000)"]
            options += [f"count_if({self.condition(scope, 1)})", f"count(*) FILTER (WHERE {self.condition(scope, 1)})"]
        elif kind is Kind.REAL:
            options.append(f"avg({self.value(Kind.WHOLE, scope, 1)} % 1000)")
        elif kind is Kind.EXACT:
            options.append(f"sum(CAST({self.value(Kind.WHOLE, scope, 1)} % 1000 AS DECIMAL(9, 2)))")
        elif kind is Kind.TRUTH:
            options = [f"bool_and({value})", f"bool_or({value})", f"every({value})", f"any({value})"]
        return self.random.choice(options)

    def _grouped(self, kinds: tuple[Kind, ...], depth: int) -> DrawnQuery:
        source, scope = self._from(depth)
        keys = [self.value(kind, scope, 1) for kind in kinds[: self.random.randint(0, len(kinds))]]
        aggregates = [self._aggregate(kind, scope) for kind in kinds[len(keys) :]]
        text = f"{self._select([*keys, *aggregates])} FROM {source}{self._where(scope, depth)}"
        if keys:
            text += f" GROUP BY {', '.join(str(place + 1) for place in range(len(keys)))}"
        if self.random.random() < 0.3:
            having = self._aggregate(Kind.WHOLE, scope)
            text += f" HAVING {having} {self.random.choice(('>', '<=', '<>'))} {self.random.randint(0, 3)}"
        return DrawnQuery(text, kinds)

    def _set_operation(self, kinds: tuple[Kind, ...], depth: int) -> DrawnQuery:
        operator = self.random.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT"))
        first, second = (self._plain(kinds, depth - 1).sql for _ in range(2))
        return DrawnQuery(f"({first}) {operator} ({second})", kinds)

    def _ordered(self, kinds: tuple[Kind, ...], depth: int) -> DrawnQuery:
        """Rows with equal order are equal, so that LIMIT has one meaning."""
        base = self.random.choice((self._plain, self._plain, self._grouped))(kinds, depth).sql
        places = list(range(len(kinds)))
        self.random.shuffle(places)
        endings = ("", " DESC", " NULLS LAST", " DESC NULLS FIRST", " ASC NULLS FIRST")
        order = [f"{place + 1}{self.random.choice(endings)}" for place in places]
        limit = f" LIMIT {self.random.randint(0, 6)}" + (f" OFFSET {self.random.randint(0, 3)}" if self.random.random() < 0.3 else "")
        return DrawnQuery(f"{base} ORDER BY {', '.join(order)}{limit}", kinds)

    def _windowed(self, kinds: tuple[Kind, ...], depth: int) -> DrawnQuery:
        table = self.random.choice(("shop.visits", "shop.people", "shop.edges", "shop.drafts"))
        alias = self._alias()
        scope = [Column(f"{alias}.{column}", kind) for column, kind in SHOP[table].items()]
        partition = f"PARTITION BY {self.value(self.random.choice(tuple(Kind)), scope, 1)} " if self.random.random() < 0.7 else ""
        key = self.value(self.random.choice(tuple(Kind)), scope, 1)
        order = f"ORDER BY {key}{self.random.choice(('', ' DESC', ' NULLS LAST'))}, {alias}.id"

        def column(kind: Kind) -> str:
            value = self.column(kind, scope)
            options = [f"lag({value}) OVER w", f"lead({value}, 2) OVER w", f"first_value({value}) OVER w", f"last_value({value}) OVER w"]
            if kind is Kind.WHOLE:
                frame = f"{partition}{order} ROWS BETWEEN {self.random.randint(0, 2)} PRECEDING AND CURRENT ROW"
                options += ["row_number() OVER w", "rank() OVER w", "dense_rank() OVER w", "ntile(3) OVER w", "count(*) OVER w"]
                options += [f"sum({value} % 1000) OVER ({frame})"]
            if kind is not Kind.TRUTH:
                options.append(f"max({value}) OVER w")
            return self.random.choice(options)

        select = self._select([column(kind) for kind in kinds])
        return DrawnQuery(f"{select} FROM {table} AS {alias}{self._where(scope, 0)} WINDOW w AS ({partition}{order})", kinds)

    def _with_part(self, kinds: tuple[Kind, ...], depth: int) -> DrawnQuery:
        name = f"w{self._alias()}"
        inner = self.query(0)
        scope = [Column(f"{name}.c{place}", kind) for place, kind in enumerate(inner.kinds)]
        select = self._select([self.value(kind, scope, 1) for kind in kinds])
        return DrawnQuery(f"WITH {name} AS ({inner.sql}) {select} FROM {name}{self._where(scope, 0)}", kinds)


def slots(queries: Sequence[DrawnQuery]) -> list[Kind]:
    """Returns the kinds of columns, by kind, that have place for the columns of each query."""
    return [kind for kind in Kind for _ in range(max(query.kinds.count(kind) for query in queries))]


def one_statement(queries: Sequence[DrawnQuery]) -> str:
    """Returns a statement with the rows of all queries: the number of the query, then `slots`. Slots without a column are NULL."""
    parts = []
    for number, query in enumerate(queries):
        places = {kind: [place for place, own in enumerate(query.kinds) if own is kind] for kind in Kind}
        columns = [f"CAST({f'c{places[kind].pop(0)}' if places[kind] else 'NULL'} AS {kind.value})" for kind in slots(queries)]
        parts.append(f"SELECT {number}, {', '.join(columns)} FROM ({query.sql})")
    return " UNION ALL ".join(parts)
