"""Translates a query in Spark's dialect to DuckDB's: tables under their full names, columns named as Spark names them. Pure.

A construct that sqlglot cannot translate raises an error. Nothing is left out silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from sys_tables.offline.dialect import in_duckdb
from sys_tables.offline.relations import HIDDEN, ResolvedTable
from tiering.errors import StatementFailed

Resolve = Callable[[Sequence[str]], ResolvedTable]


def mentioned_names(tree: exp.Query) -> frozenset[str] | None:
    """All names in a query, in lower case; None if it may use columns without naming them."""
    stars = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
    if stars or any(str(join.args.get("method") or "").upper() == "NATURAL" for join in tree.find_all(exp.Join)):
        return None
    return frozenset(identifier.name.lower() for identifier in tree.find_all(exp.Identifier))


def mentions_hidden(tree: exp.Query) -> bool:
    """Whether the query names one of HIDDEN."""
    return any(identifier.name.lower() in HIDDEN for identifier in tree.find_all(exp.Identifier))


def qualified(tree: exp.Query, resolve: Resolve) -> tuple[exp.Query, list[ResolvedTable]]:
    """A copy whose tables have their full names, and these tables. `resolve` raises for a name that means none.

    Raises StatementFailed for what a table cannot have offline (a snapshot, a sample).
    """
    tree = tree.copy()
    hides = mentions_hidden(tree)
    tables: list[ResolvedTable] = []
    for table in list(tree.find_all(exp.Table)):
        parts = _parts(table)
        if parts is None or (len(parts) == 1 and _is_name_of_a_with(table, _folded(parts[0]))):
            continue
        _check(table)
        resolved = resolve(parts)
        tables.append(resolved)
        if hides and resolved.hides:
            table.meta["hides"] = True
        for arg, name in zip(("catalog", "db", "this"), resolved.name, strict=True):
            table.set(arg, exp.to_identifier(name, quoted=True))
    if hides:
        for select in list(tree.find_all(exp.Select)):
            _leave_hidden_out(select)
    return tree, tables


def _is_name_of_a_with(table: exp.Table, name: bytes) -> bool:
    """Whether the name means a CTE in whose scope the table stands: of a query around it, or an earlier one of the same WITH.

    Outside of that scope the name is a table. DuckDB would resolve it to a view of its own catalog, such as `pg_tables`.
    """
    node: exp.Expr = table
    while (parent := node.parent) is not None:
        clause = parent.args.get("with_")
        if isinstance(parent, exp.With):
            visible = parent.expressions[: [cte is node for cte in parent.expressions].index(True)]
            if parent.recursive and isinstance(node.this, exp.SetOperation):
                visible = [*visible, node]
        else:
            visible = clause.expressions if clause is not None and clause is not node else []
        if any(_folded(cte.alias) == name for cte in visible):
            return True
        node = parent
    return False


def _folded(name: str) -> bytes:
    """Returns a name with ASCII letters in lower case, as DuckDB compares names. Python's lower case of the Kelvin sign is a `k`."""
    return name.encode(errors="surrogatepass").lower()


def duckdb_sql(tree: exp.Query) -> str:
    """The query in DuckDB's SQL. Raises StatementFailed, which names what cannot be translated."""
    tree = tree.copy()
    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()  # only Spark's planner uses it; the rows are the same
    _name_columns(tree)
    in_duckdb(tree)
    try:
        return tree.sql(dialect="duckdb", identify=True, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise StatementFailed(
            f"this cannot be translated for DuckDB: {error}",
            hint="Spark runs it: `lakeward sql` without --engine, beside a running service.",
        ) from error


def expression_sql(expression: exp.Expr) -> str:
    """An expression without tables, in DuckDB's SQL. Raises StatementFailed."""
    return duckdb_sql(exp.select(expression.copy()))


def _parts(table: exp.Table) -> list[str] | None:
    """The parts of the name; None for a function, such as range(10)."""
    if not all(isinstance(part, exp.Identifier) for part in table.parts):
        return None
    return [part.name for part in table.parts]


def _check(table: exp.Table) -> None:
    for arg, feature in (("version", "an older snapshot"), ("when", "an older snapshot"), ("sample", "a sample"), ("changes", "changes")):
        if table.args.get(arg):
            raise StatementFailed(f"{feature} of {table.sql('spark', comments=False)} cannot be read offline", hint="Read it with Spark.")


def _leave_hidden_out(select: exp.Select) -> None:
    """Rewrites every `*` so that it has no HIDDEN columns of data tables, as in Spark."""
    sources = list(_sources(select))
    hiding = {name for name, hides in sources if hides}
    if not hiding:
        return
    new: list[exp.Expr] = []
    for expression in select.expressions:
        if isinstance(expression, exp.Star) and len(sources) == 1:
            new.append(_star(None, True))
        elif isinstance(expression, exp.Star):
            if any(join.args.get("using") for join in select.args.get("joins") or ()):
                raise StatementFailed(
                    "a * over a join with USING cannot stand beside __bucket, __offset or __timestamp offline", hint="Name the columns."
                )
            new += [_star(name, hides) for name, hides in sources]
        elif (
            isinstance(expression, exp.Column)
            and isinstance(expression.this, exp.Star)
            and expression.table.lower() in {name.lower() for name in hiding}
        ):
            new.append(_star(expression.table, True))
        else:
            new.append(expression)
    select.set("expressions", new)


def _sources(select: exp.Select) -> Iterator[tuple[str, bool]]:
    """The names of the select's sources, and whether each hides columns."""
    first = select.args.get("from_")
    joins = [join.this for join in select.args.get("joins") or () if str(join.args.get("kind") or "") not in ("ANTI", "SEMI")]
    for source in [*([first.this] if first else []), *joins, *(select.args.get("laterals") or ())]:
        yield source.alias_or_name, bool(source.meta.get("hides"))


def _star(table: str | None, hides: bool) -> exp.Expr:
    star = exp.Star(**({"except_": [exp.to_identifier(name, quoted=True) for name in HIDDEN]} if hides else {}))
    return star if table is None else exp.Column(this=star, table=exp.to_identifier(table, quoted=True))


def _name_columns(tree: exp.Query) -> None:
    """Names expressions after their text in Spark's SQL, since DuckDB's text differs."""
    query: exp.Expr = tree
    while isinstance(query, (exp.SetOperation, exp.Subquery)):
        query = query.this
    if not isinstance(query, exp.Select):
        return
    query.set("expressions", [_named(expression) for expression in query.expressions])


def _named(expression: exp.Expr) -> exp.Expr:
    if isinstance(expression, (exp.Alias, exp.Aliases, exp.Star, exp.Column, exp.Dot, exp.Explode, exp.Posexplode, exp.Inline)):
        return expression
    return exp.alias_(expression, _text(expression), quoted=True)


def _text(expression: exp.Expr) -> str:
    match expression:
        case exp.Cast(this=exp.Column() as column):
            return column.name
        case exp.Literal():
            return expression.name
        case exp.Count(this=exp.Star()):
            return "count(1)"
        case exp.Subquery():
            return "scalarsubquery()"
        case exp.Binary():
            return f"({expression.sql('spark', normalize_functions='lower', comments=False)})"
        case _:
            return expression.sql("spark", normalize_functions="lower", comments=False)
