"""Splits SQL text into statements. Pure; it uses the tokens of sqlglot's Spark dialect.

A `;` ends a statement, except in a string, a quoted name, a comment, or a script of Spark's SQL scripting (`BEGIN ... END`), which is
one statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from sqlglot import Dialect, Token, TokenType
from sqlglot.errors import TokenError

from tiering.errors import InvalidData

_BLOCKS = {"IF", "WHILE", "LOOP", "REPEAT", "FOR"}
"""Blocks that `END x` closes, which neither BEGIN nor CASE opened."""


@dataclass(frozen=True)
class Statement:
    """One statement, without its `;`. `line` is the line of the text where it starts, from 1."""

    text: str
    line: int


@dataclass(frozen=True)
class Script:
    """Statements in order, and the text after the last `;`: the beginning of another statement, or None."""

    statements: tuple[Statement, ...]
    remaining: Statement | None

    @property
    def all(self) -> tuple[Statement, ...]:
        """All statements. The last one needs no `;`, because the text is complete."""
        return self.statements if self.remaining is None else (*self.statements, self.remaining)


def split(text: str) -> Script:
    """Splits a text. Raises InvalidData if a string, a quoted name or a comment is still open at its end."""
    statements: list[Statement] = []
    pending: list[Token] = []
    line, counted = 1, 0

    def statement() -> Statement:
        nonlocal line, counted
        start = pending[0].start
        line, counted = line + text.count("\n", counted, start), start
        return Statement(text[start : pending[-1].end + 1], line)

    for token, ends in _marked(_tokens(text)):
        if not ends:
            pending.append(token)
        elif pending:
            statements.append(statement())
            pending = []
    return Script(tuple(statements), statement() if pending else None)


def _tokens(text: str) -> Sequence[Token]:
    try:
        return _spark().tokenize(text)
    except TokenError as error:
        raise InvalidData(
            "a string, a quoted name or a comment is never closed", hint="Close it: ' with ', ` with `, \" with \", /* with */."
        ) from error


@cache
def _spark() -> Dialect:
    return Dialect.get_or_raise("spark")


def _marked(tokens: Sequence[Token]) -> Iterator[tuple[Token, bool]]:
    """Yields each token, and whether it ends a statement."""
    depth, first = 0, True
    words = [token.text.upper() if token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) else "" for token in tokens]
    for index, token in enumerate(tokens):
        before = words[index - 1] if index else ""
        after = words[index + 1] if index + 1 < len(words) else ""
        if (first and words[index] == "BEGIN") or (depth and words[index] in ("BEGIN", "CASE") and before != "END"):
            depth += 1
        elif depth and words[index] == "END" and after not in _BLOCKS:
            depth -= 1
        ends = token.token_type is TokenType.SEMICOLON and depth == 0
        yield token, ends
        first = ends or (first and token.token_type is TokenType.SEMICOLON)
