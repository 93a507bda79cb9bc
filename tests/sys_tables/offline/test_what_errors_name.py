"""The statements that docs/errors.md names for each class of error run, if they need no service."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import chain

import pytest
import typer.main
from click import Group

from support.worlds.data_folders import make_example_folder
from sys_tables.registry import default_registry
from tiering import errors
from tiering.cli.main import app
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.errors import LakewardError, StatementFailed
from tiering.errors import __name__ as TREE


def classes(root: type[LakewardError] = LakewardError) -> Iterator[type[LakewardError]]:
    """The root and all below it."""
    yield root
    yield from chain.from_iterable(classes(child) for child in root.__subclasses__() if child.__module__ == TREE)


LOOKS = sorted({kind.check for kind in classes()})
STATEMENTS = [check for check in LOOKS if not check.startswith("lakeward ")]
COMMANDS = [check for check in LOOKS if check.startswith("lakeward ")]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    folder = make_example_folder(tmp_path_factory.mktemp("setting"))
    engine = DuckDbEngine(folder.root, "iceberg", {})
    yield engine
    engine.close()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_is_answered_or_would_be_by_a_service(engine: DuckDbEngine, statement: str) -> None:
    """A CALL that changes something is refused offline only after its arguments were read."""
    own = statement.replace("'db.t'", "'demo.flights'").replace("'t'", "'flights'")
    called = re.match(r"CALL fluss\.sys\.(\w+)", own)
    if called and default_registry().procedure(called[1]).mutates:
        with pytest.raises(StatementFailed, match="needs a running service"):
            engine.execute(own)
    else:
        assert list(engine.execute(own).columns)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_there_with_its_options(command: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "lakeward"
    known = typer.main.get_command(app)
    while isinstance(known, Group):
        known = known.commands[arguments.pop(0)]
    known.make_context(program, arguments)  # raises UsageError


def test_no_class_is_without_one_and_those_of_a_service_have_none_of_a_table() -> None:
    assert [kind for kind in classes() if not kind.check] == []
    of_a_service = [kind for kind in classes() if kind.no_statement == errors.Unauthenticated.no_statement]
    assert len(of_a_service) > 5
    assert [kind for kind in of_a_service if "table_name = " in kind.check or "db.t" in kind.check] == []
