"""Plain English in docstrings, comments and messages (CONTRIBUTING): the rules that a program can check."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest

from support.repository import ROOT

ROOMS = ("tiering", "sys_tables", "bench", "tests")
PRODUCT = ("tiering", "sys_tables")
VAGUE = re.compile(r"\b(?:whoever|somebody|nobody|anybody|someone)\b", re.IGNORECASE)
"""Words for an actor that the reader has to guess: the coordinator, a user, another writer."""
WITHOUT_NOUN = re.compile(r"(?:Of|Those|That|The same|Likewise|What|Who|Whose|See `[^`]*`\.?$|As (?:`|[A-Z]\w*\.))(?:\b|$|(?<=[`.]))")
"""Beginnings of a text that cannot be understood without the line above it."""
WITHOUT_SUBJECT = re.compile(r"(?:Its?|They|Their|Them|Also|Otherwise|Like|So|Then|Therefore|But|And|Or)\b")
"""Beginnings that refer to another text: a docstring, and the comment of a column, are often read alone."""
OF_AN_UNNAMED_THING = re.compile(r"(?:When|Whether|Where|Why|What|How \w+) (?:its?|they|their)\b")
"""Beginnings of a column's comment that do not name the thing of which the column is a property."""
LONGEST_SENTENCE = 35
"""Words of a sentence in a docstring of the product, outside of tables and indented blocks."""
_THIS_FILE = "test_language.py"


def python_files(rooms: tuple[str, ...]) -> list[Path]:
    """Returns every module that people write, without the generated stubs and this file."""
    files = [file for room in rooms for file in sorted((ROOT / room).rglob("*.py"))]
    return [file for file in files if file.parent.parent.name != "rpc" and file.name != _THIS_FILE]


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yields the strings that document a module, a class, a function, or the name in the statement before."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
                yield statement.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of each comment. The lines of a block are one text."""
    last, line, text = 0, 0, ""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] == last + 1 and token.line.lstrip().startswith("#"):
            text += " " + token.string.lstrip("# ")
        else:
            if text:
                yield line, text
            line, text = token.start[0], token.string.lstrip("# ")
        last = token.start[0]
    if text:
        yield line, text


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yields line and text of the docstrings and comments of a module."""
    source = file.read_text(encoding="utf-8")
    for constant in docstrings(ast.parse(source)):
        yield constant.lineno, " ".join(str(constant.value).split())
    yield from comments(source)


def messages(file: Path) -> Iterator[tuple[int, str]]:
    """Yields line and text of the strings of a module that are no docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    documentation = {id(constant) for constant in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


def comments_in_sql(file: Path) -> Iterator[tuple[int, str]]:
    """Yields line and text of the comments that `column()` and `parameter()` give to columns and parameters."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("column", "parameter") and node.args:
            comment = node.args[0]
            if isinstance(comment, ast.Constant):
                yield node.lineno, str(comment.value)


def wrong_texts(
    rooms: tuple[str, ...], texts_in: Callable[[Path], Iterator[tuple[int, str]]], is_wrong: Callable[[str], object]
) -> list[str]:
    """Returns file, line and beginning of the texts of all modules of the rooms that break a rule."""
    return [
        f"{file.relative_to(ROOT)}:{line}: {text[:100]}" for file in python_files(rooms) for line, text in texts_in(file) if is_wrong(text)
    ]


def long_sentences(docstring: str) -> Iterator[str]:
    """Yields the sentences above the limit. Lines with an indent or with columns are tables, trees and examples."""
    for paragraph in re.split(r"\n\s*\n", ast.get_docstring(ast.parse(f"'''{docstring}'''")) or ""):
        if not re.search(r"^(?: {2,}|[-|│├└])|\S {2,}\S", paragraph, re.MULTILINE):
            for sentence in re.split(r"(?<=[.!?:;])\s", " ".join(paragraph.split())):
                if len(sentence.split()) > LONGEST_SENTENCE:
                    yield sentence


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_and_comments_name_their_subject_and_who_acts(room: str) -> None:
    assert wrong_texts((room,), texts, lambda text: VAGUE.search(re.sub(r"`[^`]*`", "", text)) or WITHOUT_NOUN.match(text)) == []


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_and_comments_begin_with_their_subject(room: str) -> None:
    assert wrong_texts((room,), texts, WITHOUT_SUBJECT.match) == []


def test_comments_of_columns_and_parameters_name_their_subject() -> None:
    """SQL shows them one by one: in DESCRIBE, in the reference, in the tooltip of a tool."""
    patterns = (WITHOUT_NOUN, WITHOUT_SUBJECT, OF_AN_UNNAMED_THING)
    assert wrong_texts(PRODUCT, comments_in_sql, lambda text: any(pattern.match(text) for pattern in patterns)) == []


def test_messages_of_the_product_say_who_acts() -> None:
    assert wrong_texts(PRODUCT, messages, VAGUE.search) == []


def test_sentences_of_docstrings_are_short() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{constant.lineno}: {sentence[:100]}"
        for file in python_files(PRODUCT)
        for constant in docstrings(ast.parse(file.read_text(encoding="utf-8")))
        for sentence in long_sentences(str(constant.value))
    ]
    assert wrong == []


def test_comments_of_proto_files_and_of_the_plugin_name_their_subject_and_who_acts() -> None:
    files = [*(ROOT / "proto").rglob("*.proto"), *(ROOT / "catalog" / "src").rglob("*.java")]
    first_lines = re.compile(r"(?:/\*\*(?:\s*\*)?|(?<!:)//) *(.*)")
    wrong = []
    for file in files:
        lines = file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            is_comment = line.lstrip().startswith(("//", "*", "/*"))
            continues = number > 1 and lines[number - 2].lstrip().startswith("//")
            match = first_lines.search(line) if is_comment and not continues else None
            if (is_comment and VAGUE.search(line)) or (match and WITHOUT_NOUN.match(match[1])):
                wrong.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()}")
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("Of the bucket's partition.", True),
        ("See `ProcedureMethods.pause_tiering`.", True),
        ("As `execute`.", True),
        ("As SystemTable.schema.", True),
        ("Offsets of a bucket.", False),
        ("As a function of time.", False),
        ("Whatever the outcome, the lease ends.", False),
        ("Sees the table as a user does.", False),
    ],
)
def test_the_beginnings_that_lack_a_noun(text: str, is_wrong: bool) -> None:
    assert bool(WITHOUT_NOUN.match(text)) == is_wrong
