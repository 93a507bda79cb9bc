"""The house stays in order: sizes of files, folders and functions, and names that say what a thing is (CONTRIBUTING)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.dealt_out import OF_PROCESSES
from support.repository import ROOT
from tiering.procedures.registry import NOT_PROCEDURES

ROOMS = ("tiering", "sys_tables", "tests", "bench")
FILE_LINES = 500
FUNCTION_LINES = 40
FOLDER_FILES = 15
"""Modules of a folder, without its `__init__`."""
FILE_EACH = {
    *("tiering/cli/commands", "tiering/procedures", "tiering/coordinator/calls", "tests/coordinator/calls", "sys_tables/tables", "bench")
}
"""Folders that hold a file for each thing of one kind, named as it is: they are searched by name."""

SAY_NOTHING = frozenset({"one", "found", "said", "told", "asked", "seen", "given", "made", "each", "what", "way"})
"""Names that any value could have. A record, a matching table, a lag have names of their own."""
SAY_NOTHING_IN_PRODUCT = SAY_NOTHING | {
    *("known", "wanted", "held", "rest", "untold", "tellings", "doubted", "believed", "heard", "spelled", "anew", "lull"),
    *("look", "looks", "standing", "mine", "ours", "theirs", "begun"),
}
"""The product also names the thing: `known_partitions`, `requested_columns`, `leased_snapshots`, `remaining_batches`."""

NO_ACTOR = re.compile(r"(?:^|_)(?:whoever|somebody|nobody|anybody|someone)(?:s|_|$)", re.IGNORECASE)
"""Words for an actor that the reader of a test's name has to guess."""


def sources() -> list[Path]:
    """Every module that people write; generated stubs are not among them."""
    return [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py")) if file.parent.parent.name != "rpc"]


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of what a module binds: variables, parameters, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


@pytest.mark.parametrize("room", ROOMS)
def test_names_say_what_a_thing_is(room: str) -> None:
    say_nothing = SAY_NOTHING_IN_PRODUCT if room in ("tiering", "sys_tables") else SAY_NOTHING
    vague = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in sources()
        if file.is_relative_to(ROOT / room)
        for line, name in bound_names(ast.parse(file.read_text(encoding="utf-8")))
        if name.strip("_") in say_nothing
    ]
    assert vague == []


@pytest.mark.parametrize("room", ["tests", "bench"])
def test_names_of_tests_say_who_acts(room: str) -> None:
    vague = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in sources()
        if file.is_relative_to(ROOT / room)
        for line, name in bound_names(ast.parse(file.read_text(encoding="utf-8")))
        if NO_ACTOR.search(name)
    ]
    assert vague == []


def test_a_file_has_one_reason_to_change_and_a_length_that_is_read_at_once() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in sources()}
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES} == {}


def test_a_folder_is_taken_in_at_a_glance() -> None:
    folders: dict[str, int] = {}
    for file in sources():
        if file.name != "__init__.py":
            folder = str(file.parent.relative_to(ROOT))
            folders[folder] = folders.get(folder, 0) + 1
    assert {folder: files for folder, files in folders.items() if files > FOLDER_FILES and folder not in FILE_EACH} == {}


def test_the_body_of_a_function_fits_a_screen() -> None:
    """Parameters are not counted: a command declares its options there. Nor are tests: some tell a long story in one go."""
    long = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for file in sources()
        if not file.is_relative_to(ROOT / "tests")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.body[0].lineno >= FUNCTION_LINES
    ]
    assert long == []


def patterns_made_at_run_time(tree: ast.AST) -> Iterator[int]:
    """Lines of calls of `re` inside functions whose pattern does not stand in the source."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "re":
                is_pattern = node.func.attr != "escape"
                if is_pattern and not isinstance(node.args[0] if node.args else None, ast.Constant):
                    yield node.lineno


def test_no_pattern_of_a_caller_reaches_an_engine_that_backtracks() -> None:
    """Python's `re` holds the interpreter's lock while it backtracks, so a pattern of a caller would stop the service."""
    late = {
        f"{file.relative_to(ROOT)}:{line}"
        for file in sources()
        if file.is_relative_to(ROOT / "tiering") or file.is_relative_to(ROOT / "sys_tables")
        for line in patterns_made_at_run_time(ast.parse(file.read_text(encoding="utf-8")))
    }
    compiled_late = {name for name in late if name.startswith("tiering/redaction/unnamed_secrets.py:")}  # its own constants
    assert len(compiled_late) == 1
    assert late == compiled_late


def test_every_room_says_what_it_is_for() -> None:
    rooms = [file for file in sources() if file.name == "__init__.py" and file.is_relative_to(ROOT / "tiering")]
    rooms += [file for file in sources() if file.name == "__init__.py" and file.parent.parent == ROOT / "sys_tables"]
    assert [str(file.relative_to(ROOT)) for file in rooms if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))] == []


def test_no_unit_test_is_in_a_folder_that_make_unit_leaves_out() -> None:
    [line] = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("STORIES := ")]
    assert {f"tests/{name}/" for name in line.removeprefix("STORIES := ").split()} <= set(OF_PROCESSES)


def test_a_procedure_is_its_declaration_and_its_effect() -> None:
    """Adding or changing a procedure touches these two files alone."""
    declared = {file.stem for file in (ROOT / "tiering/procedures").glob("[!_]*.py")} - NOT_PROCEDURES
    effects = {file.stem for file in (ROOT / "tiering/coordinator/calls").glob("[!_]*.py")}
    assert declared - effects == {"help"}
    assert effects - declared == set()
