"""Rewrites or refuses what means something else in DuckDB than in Spark, where sqlglot does not translate it. Pure.

The list comes from comparing results. A difference that shows as an error may stay an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from tiering.errors import StatementFailed

_INTEGERS = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
_TEXTS = (exp.DType.TEXT, exp.DType.VARCHAR)
_DEFAULT_FORMAT = "%Y-%mstrict-%dstrict %Hstrict:%Mstrict:%Sstrict"
"""The format that sqlglot gives a `unix_timestamp(x)` without one."""
_UNITS = {"YYYY": "YEAR", "YY": "YEAR", "MM": "MONTH", "MON": "MONTH", "DD": "DAY"}
"""Spark's short names of units, which DuckDB does not know."""
_UNITS_OF_DATES = ("YEAR", "QUARTER", "MONTH", "WEEK")
_DAY_OF_WEEK = ("DOW", "DAYOFWEEK")
_OTHER_MEANING = ("hash", "typeof", "version", "xxhash64")
"""Functions that DuckDB has under the same names with other results."""


def in_duckdb(tree: exp.Query) -> None:
    """Rewrites the tree in place, from its leaves up. Raises StatementFailed for what cannot be translated."""
    for node in reversed(list(tree.find_all(*_REWRITTEN))):
        rewrite = next(_REWRITTEN[kind] for kind in _REWRITTEN if isinstance(node, kind))
        rewrite(node)


def _cast(node: exp.Expr) -> None:
    """Rewrites casts: to an integer Spark cuts a fraction off, DuckDB rounds; in a text Spark shows an instant without its zone."""
    kind, value = node.args["to"].this, node.this
    plain = re.fullmatch("[^.eE]*", value.name) is not None if isinstance(value, exp.Literal) else isinstance(value, exp.Null)
    if plain or kind not in (*_INTEGERS, *_TEXTS):
        return
    type_name = exp.Anonymous(this="typeof", expressions=[value.copy()])
    if kind in _INTEGERS:
        differs: exp.Expr = exp.Anonymous(this="regexp_matches", expressions=[type_name, exp.Literal.string("^(DOUBLE|FLOAT|DECIMAL)")])
        exact = exp.Cast(this=value.copy(), to=exp.DataType.build("DECIMAL(38, 18)", dialect="duckdb"))
        other = type(node)(this=exp.Anonymous(this="trunc", expressions=[exact]), to=node.args["to"].copy())
        cases = [exp.If(this=differs, true=other), _text_with_fraction(node, type_name)]
    else:
        differs = exp.EQ(this=type_name, expression=exp.Literal.string("TIMESTAMP WITH TIME ZONE"))
        pieces = [node.copy(), exp.Literal.string("\\+00$"), exp.Literal.string("")]
        cases = [exp.If(this=differs, true=exp.Anonymous(this="regexp_replace", expressions=pieces))]
    node.replace(exp.Case(ifs=cases, default=node.copy()))


def _text_with_fraction(node: exp.Expr, type_name: exp.Expr) -> exp.If:
    """Returns the branch for a text such as 1.5 or 1e3, which is no integer to Spark."""
    text = exp.Cast(this=node.this.copy(), to=exp.DataType.build("VARCHAR", dialect="duckdb"))
    is_text = exp.EQ(this=type_name.copy(), expression=exp.Literal.string("VARCHAR"))
    has_fraction = exp.Anonymous(this="regexp_matches", expressions=[text, exp.Literal.string("[.eE]")])
    # The cast of this text fails. `error()` would too, but DuckDB refuses it in PARTITION BY.
    no_integer = exp.DPipe(this=exp.Literal.string("not an integer: "), expression=text.copy())
    return exp.If(this=exp.and_(is_text, has_fraction), true=type(node)(this=no_integer, to=node.args["to"].copy()))


def _count_if(node: exp.Expr) -> None:
    """Rewrites `count_if`, which is 0 for no rows."""
    _or_else(node, exp.Literal.number(0))


def _array_agg(node: exp.Expr) -> None:
    """Rewrites `collect_list`, which is an empty array for no values."""
    _or_else(node, exp.Array())


def _or_else(node: exp.Expr, default: exp.Expr) -> None:
    while isinstance(node.parent, (exp.Window, exp.Filter)) and node.parent.this is node:
        node = node.parent
    node.replace(exp.Coalesce(this=node.copy(), expressions=[default]))


def _days_later(node: exp.Expr) -> None:
    """Rewrites `date_add`, which returns a date."""
    node.replace(exp.Cast(this=node.copy(), to=exp.DataType.build("DATE")))


def _day_of_week(node: exp.Expr) -> None:
    """Rewrites `dayofweek`, which counts from Sunday = 1."""
    node.replace(exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1))))


def _quantile(node: exp.Expr) -> None:
    """Rewrites `percentile`, which interpolates."""
    node.replace(exp.Anonymous(this="quantile_cont", expressions=[node.this.copy(), node.args["quantile"].copy()]))


def _substring(node: exp.Expr) -> None:
    """Rewrites `substring`, where position 0 means position 1, and a negative length means 0."""
    start = node.args.get("start")
    if isinstance(start, exp.Literal) and start.name == "0":
        node.set("start", exp.Literal.number(1))
    _never_negative(node, "length")


def _left_or_right(node: exp.Expr) -> None:
    """Rewrites `left` and `right`, where a negative length means 0."""
    _never_negative(node, "expression")


def _never_negative(node: exp.Expr, name: str) -> None:
    length = node.args.get(name)
    if length is not None and not isinstance(length, exp.Literal):
        minimum = exp.If(this=exp.LT(this=length.copy(), expression=exp.Literal.number(0)), true=exp.Literal.number(0))
        node.set(name, exp.Case(ifs=[minimum], default=length.copy()))  # NULL stays NULL, which greatest would leave out


def _short_name(node: exp.Expr) -> None:
    """Rewrites `dayname` and `monthname`, which return three letters."""
    node.replace(exp.Left(this=node.copy(), expression=exp.Literal.number(3)))


def _extract(node: exp.Expr) -> None:
    """Rewrites `extract(DOW ...)`, which counts from Sunday = 1."""
    if node.this.name.upper() in _DAY_OF_WEEK:
        node.replace(exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1))))


def _like(node: exp.Expr) -> None:
    """Rewrites LIKE, where a backslash escapes also without an ESCAPE clause."""
    if not isinstance(node.parent, exp.Escape) and any("\\" in part.name for part in node.expression.find_all(exp.Literal)):
        node.replace(exp.Escape(this=node.copy(), expression=exp.Literal.string("\\")))


def _any(node: exp.Expr) -> None:
    """Rewrites `any` as an aggregate, and keeps that of LIKE ANY."""
    if not isinstance(node.parent, exp.Binary):
        node.replace(exp.LogicalOr(this=node.this.copy()))


def _is_nan(node: exp.Expr) -> None:
    """Rewrites `isnan`, which is false for NULL."""
    node.replace(exp.Coalesce(this=node.copy(), expressions=[exp.false()]))


def _unit(node: exp.Expr) -> str:
    """Returns the unit of a `trunc` or `date_trunc` as DuckDB names it."""
    name: str = node.args["unit"].name.upper()
    return _UNITS.get(name, name)


def _trunc(node: exp.Expr) -> None:
    """Rewrites `trunc`, which returns a date, and NULL for a unit below a week."""
    day = exp.DataType.build("DATE")
    first = exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(_unit(node)), exp.Cast(this=node.this.copy(), to=day)])
    node.replace(exp.Cast(this=first if _unit(node) in _UNITS_OF_DATES else exp.Null(), to=day.copy()))


def _date_trunc(node: exp.Expr) -> None:
    """Rewrites `date_trunc`, which returns an instant, also for a date."""
    instant = exp.Cast(this=node.this.copy(), to=exp.DataType.build("TIMESTAMPTZ"))
    node.replace(exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(_unit(node)), instant]))


def _unix_timestamp(node: exp.Expr) -> None:
    """Rewrites `unix_timestamp` of an instant, or of a text in the default format."""
    if node.args["format"].name == _DEFAULT_FORMAT:
        instant = exp.Cast(this=node.this.copy(), to=exp.DataType.build("TIMESTAMPTZ"))
        seconds = exp.Floor(this=exp.Anonymous(this="epoch", expressions=[instant]))
        node.replace(exp.Cast(this=seconds, to=exp.DataType.build("BIGINT")))


def _by_name(node: exp.Expr) -> None:
    """Rewrites functions that sqlglot passes on unchanged."""
    name, arguments = node.name.lower(), [argument.copy() for argument in node.expressions]
    if name in _OTHER_MEANING:
        _refuse(node)
    match name, arguments:
        case "weekday", [day]:  # Monday is 0
            node.replace(exp.Paren(this=exp.Sub(this=exp.Anonymous(this="isodow", expressions=[day]), expression=exp.Literal.number(1))))
        case "date_part" | "datepart", [exp.Literal() as unit, _] if unit.name.upper() in _DAY_OF_WEEK:
            node.replace(exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1))))
        case "every", [condition]:
            node.replace(exp.LogicalAnd(this=condition))
        case "some", [condition]:
            node.replace(exp.LogicalOr(this=condition))
        case "isnull", [value]:
            node.replace(exp.Paren(this=exp.Is(this=value, expression=exp.Null())))
        case "isnotnull", [value]:
            node.replace(exp.Paren(this=exp.Not(this=exp.Is(this=value, expression=exp.Null()))))


def _refuse(node: exp.Expr) -> None:
    text = node.sql("spark", normalize_functions="lower", comments=False)
    raise StatementFailed(f"{text} would give another result in DuckDB than in Spark", hint="Run it in Spark.")


def _place(node: exp.Expr) -> None:
    """Rewrites `x[i]`, which counts an array's elements from 0 in Spark and from 1 in DuckDB; of a map it is a key. Only a literal shows
    which.
    """
    counted_from_1 = node.args.get("offset") == 1  # element_at
    if not counted_from_1 and any(place.find(exp.Column) for place in node.expressions):
        raise StatementFailed(
            f"{node.sql('spark', comments=False)} cannot be translated for DuckDB: its place is computed",
            hint="element_at(x, i) can; it counts an array's elements from 1.",
        )


_REWRITTEN: Mapping[type[exp.Expr], Callable[[exp.Expr], None]] = {
    exp.Cast: _cast,  # TRY_CAST is one
    exp.CountIf: _count_if,
    exp.ArrayAgg: _array_agg,
    exp.ArrayUniqueAgg: _array_agg,
    exp.TsOrDsAdd: _days_later,
    exp.DayOfWeek: _day_of_week,
    exp.Quantile: _quantile,
    exp.Substring: _substring,
    exp.Left: _left_or_right,
    exp.Right: _left_or_right,
    exp.Dayname: _short_name,
    exp.Monthname: _short_name,
    exp.Extract: _extract,
    exp.CurrentDatabase: _refuse,
    exp.CurrentSchema: _refuse,
    exp.CurrentCatalog: _refuse,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Any: _any,
    exp.StrToUnix: _unix_timestamp,
    exp.IsNan: _is_nan,
    exp.DateTrunc: _trunc,
    exp.TimestampTrunc: _date_trunc,
    exp.Typeof: _refuse,
    exp.Bracket: _place,
    exp.Anonymous: _by_name,
}
