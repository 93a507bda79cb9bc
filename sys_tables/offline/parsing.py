"""Parses the text of one statement in Spark's dialect: a query as sqlglot's tree, a SHOW, a DESCRIBE or a CALL.

sqlglot has no grammar for SHOW and CALL in this dialect; they are read from its tokens. A text that cannot be parsed is a
StatementFailed that shows the place. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import sqlglot
from sqlglot import ErrorLevel, Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from tiering.errors import StatementFailed

_NEEDS_SPARK = (
    "ADD",
    "ALTER",
    "ANALYZE",
    "BEGIN",
    "CACHE",
    "CLEAR",
    "COMMENT",
    "CREATE",
    "DECLARE",
    "DELETE",
    "DROP",
    "EXECUTE",
    "EXPLAIN",
    "INSERT",
    "LIST",
    "LOAD",
    "MERGE",
    "MSCK",
    "REFRESH",
    "REPAIR",
    "REPLACE",
    "RESET",
    "SET",
    "SYNC",
    "TRUNCATE",
    "UNCACHE",
    "UPDATE",
)
"""First words of Spark's statements that are neither a query nor answered here."""

MAX_ARGUMENTS = 50
"""Arguments of a CALL; each is parsed by itself."""

SHOWN = ("NAMESPACES", "DATABASES", "SCHEMAS", "TABLES", "PROCEDURES")


class SparkAnsi(Spark):
    """Spark 4's dialect: a CAST that fails and a division by zero are errors there, not NULL (`spark.sql.ansi.enabled`).

    A doubled quote in a string is a quote (`spark.sql.legacy.consecutiveStringLiterals.enabled`).
    """

    SAFE_DIVISION = False
    TIME_MAPPING = Spark.TIME_MAPPING | {"SSS": "%g"}

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SparkParser):
        STRICT_CAST = True


@dataclass(frozen=True)
class Query:
    """A query, as sqlglot's tree."""

    tree: exp.Query


@dataclass(frozen=True)
class Show:
    """A listing. `kind` is one of SHOWN; `inside` the parts of the name after IN; `pattern` that of a LIKE."""

    kind: str
    inside: tuple[str, ...]
    pattern: str | None


@dataclass(frozen=True)
class UseStatement:
    """A USE: the parts of the name of the database that later statements mean where they name none."""

    name: tuple[str, ...]


@dataclass(frozen=True)
class Describe:
    """A DESCRIBE of a table's columns, and with `extended` of its properties."""

    name: tuple[str, ...]
    extended: bool


@dataclass(frozen=True)
class Argument:
    """An argument of a CALL. `name` is None for a positional one; `value` is an expression."""

    name: str | None
    value: exp.Expr


@dataclass(frozen=True)
class CallStatement:
    """A CALL. `name` has the parts of the procedure's name."""

    name: tuple[str, ...]
    arguments: tuple[Argument, ...]


Statement = Query | Show | UseStatement | Describe | CallStatement


def needs_spark(text: str) -> str | None:
    """The first word of a statement that only Spark runs. Raises StatementFailed for a text without words."""
    tokens = _tokens(text)
    return word if tokens and (word := _word(tokens[0])) in _NEEDS_SPARK else None


def first_word(text: str) -> str:
    """The first word or sign of a text, in upper case; empty if there is none, or if it is a string. Raises StatementFailed."""
    tokens = _tokens(text)
    return _word(tokens[0]) if tokens else ""


def parse(text: str) -> Statement:
    """The parsed statement. Raises StatementFailed, with line and column, for a text that cannot be parsed or is not answered offline."""
    tokens = _tokens(text)
    if not tokens:
        raise StatementFailed("there is no statement", hint="Such as: SHOW TABLES IN sys")
    match _word(tokens[0]):
        case "SHOW":
            return _TokenReader(text, tokens[0]).show()
        case "DESCRIBE" | "DESC":
            return _TokenReader(text, tokens[0]).describe()
        case "CALL":
            return _TokenReader(text, tokens[0]).call()
        case "USE":
            return _TokenReader(text, tokens[0]).use()
        case first if first in _NEEDS_SPARK:
            raise StatementFailed(
                f"{first} cannot run offline: here statements read, and nothing is changed",
                hint="Offline there are queries, SHOW NAMESPACES, SHOW TABLES, SHOW PROCEDURES, USE, DESCRIBE and CALL.",
            )
    return _query(text, tokens[0])


def _query(text: str, first: Token) -> Query:
    tree = _parsed(text)
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(tree)
    if not isinstance(tree, exp.Query):
        raise _unreadable(text, "this is no statement", first.line, first.col, len(first.text))
    return Query(tree)


def _parsed(text: str, shown: str | None = None) -> exp.Expr:
    """Parses the text. `shown` is the text to show in an error, if it is another one."""
    try:
        return sqlglot.parse_one(text, read=SparkAnsi, error_level=ErrorLevel.RAISE)
    except ParseError as error:
        [first, *_] = error.errors or [{}]
        problem = _MISSING.sub("something is missing", str(first.get("description") or error).split(" but got <Token", 1)[0])
        raise _unreadable(
            shown or text, problem, first.get("line") or 1, first.get("col") or 1, len(first.get("highlight") or "")
        ) from error
    except RecursionError as error:
        raise StatementFailed("the statement is nested too deeply to be parsed", hint="Write it in several WITH parts.") from error


def _tokens(text: str) -> Sequence[Token]:
    try:
        return sqlglot.tokenize(text, read=SparkAnsi)
    except TokenError as error:
        raise StatementFailed("a string, a quoted name or a comment is never closed") from error


def _unreadable(text: str, why: str, line: int, end: int, length: int) -> StatementFailed:
    """Returns the error for a text that cannot be parsed. `end` is the column of the last wrong character, from 1, as sqlglot counts."""
    lines = text.splitlines() or [""]
    start = max(1, end - max(1, length) + 1)
    shown = lines[min(line, len(lines)) - 1]
    pointer = re.sub(r"[^\t]", " ", shown[: start - 1]) + "^" * max(1, min(length, end - start + 1))
    return StatementFailed(f"line {line}, column {start}: {why.strip().rstrip('.')}\n  {shown}\n  {pointer}")


class _TokenReader:
    """Reads a statement token by token. Raises StatementFailed at an unexpected token."""

    def __init__(self, text: str, command: Token) -> None:
        self._text = text
        self._command = command
        # To sqlglot everything after such a word is one token. The word is blanked, not cut: places in errors stay right.
        self._tokens = _tokens(_blank(text[: command.start + len(command.text)]) + text[command.start + len(command.text) :])
        self._at = 0

    def show(self) -> Show:
        kind = self._next_word()
        if kind not in SHOWN:
            raise StatementFailed(
                f"SHOW {kind} is answered by Spark alone", hint=f"Offline there is SHOW {', '.join(SHOWN[:1] + SHOWN[3:])}, and DESCRIBE."
            )
        inside = self._name() if self._take("IN", "FROM") else ()
        pattern = None
        if self._take("LIKE") or (not self._ended and self._tokens[self._at].token_type is TokenType.STRING):
            pattern = self._string()
        self._end()
        return Show("NAMESPACES" if kind in SHOWN[:3] else kind, inside, pattern)

    def use(self) -> UseStatement:
        self._take("NAMESPACE", "DATABASE", "SCHEMA")
        name = self._name()
        self._end()
        return UseStatement(name)

    def describe(self) -> Describe:
        if self._take("NAMESPACE", "DATABASE", "SCHEMA", "FUNCTION", "PROCEDURE", "QUERY"):
            raise StatementFailed(
                "offline only tables can be described", hint="DESCRIBE TABLE sys.tables; CALL sys.help() explains procedures."
            )
        self._take("TABLE")
        extended = self._take("EXTENDED", "FORMATTED")
        name = self._name()
        self._end()
        return Describe(name, extended)

    def call(self) -> CallStatement:
        name = self._name()
        self._expect(TokenType.L_PAREN, "a '(' is missing behind the name of the procedure")
        arguments: list[Argument] = []
        while not self._take_type(TokenType.R_PAREN):
            if len(arguments) == MAX_ARGUMENTS:
                raise self._wrong(f"no procedure has more than {MAX_ARGUMENTS} arguments")
            if arguments:
                self._expect(TokenType.COMMA, "expected ',' or ')'")
            arguments.append(self._argument())
        self._end()
        return CallStatement(name, tuple(arguments))

    def _argument(self) -> Argument:
        name = None
        if self._at + 1 < len(self._tokens) and self._tokens[self._at + 1].token_type is TokenType.FARROW:
            name, self._at = self._tokens[self._at].text, self._at + 2
        first, depth = self._at, 0
        while not self._ended:
            kind = self._tokens[self._at].token_type
            if depth == 0 and kind in (TokenType.COMMA, TokenType.R_PAREN):
                break
            depth += (kind in _OPEN) - (kind in _CLOSE)
            self._at += 1
        if self._ended or self._at == first:
            raise self._wrong("an argument is missing" if not self._ended else "a ')' is missing")
        start, stop = self._tokens[first].start, self._tokens[self._at - 1].end + 1
        return Argument(name, _parsed(_blank(self._text[:start]) + self._text[start:stop], self._text))

    @property
    def _ended(self) -> bool:
        return self._at >= len(self._tokens)

    def _next_word(self) -> str:
        if self._ended:
            raise self._wrong("the statement ends too early")
        self._at += 1
        return _word(self._tokens[self._at - 1])

    def _take(self, *words: str) -> bool:
        matches = not self._ended and _word(self._tokens[self._at]) in words
        self._at += matches
        return matches

    def _take_type(self, kind: TokenType) -> bool:
        matches = not self._ended and self._tokens[self._at].token_type is kind
        self._at += matches
        return matches

    def _expect(self, kind: TokenType, why: str) -> None:
        if not self._take_type(kind):
            raise self._wrong(why)

    def _name(self) -> tuple[str, ...]:
        parts = [self._part()]
        while self._take_type(TokenType.DOT):
            parts.append(self._part())
        return tuple(parts)

    def _part(self) -> str:
        token = None if self._ended else self._tokens[self._at]
        plain = token is not None and token.token_type is not TokenType.STRING and _WORD.fullmatch(token.text)
        if token is None or not (plain or token.token_type is TokenType.IDENTIFIER):
            raise self._wrong("a name is missing")
        self._at += 1
        return token.text

    def _string(self) -> str:
        if self._ended or self._tokens[self._at].token_type is not TokenType.STRING:
            raise self._wrong("a pattern in quotes is missing")
        self._at += 1
        return self._tokens[self._at - 1].text

    def _end(self) -> None:
        if not self._ended:
            raise self._wrong("the statement should end here")

    def _wrong(self, why: str) -> StatementFailed:
        token = self._tokens[min(self._at, len(self._tokens) - 1)] if self._tokens else self._command
        return _unreadable(self._text, why, token.line, token.col, token.end - token.start + 1)


_MISSING = re.compile(r"Required keyword: .*")
_WORD = re.compile(r"\w+")
_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _word(token: Token) -> str:
    return "" if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()
