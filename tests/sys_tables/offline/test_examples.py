"""Every file of sql_examples/ that needs neither Spark nor a service, on a folder without a coordinator."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from support.repository import ROOT
from support.sql_examples import Example, ExpectedError, differences, load_examples
from support.worlds.data_folders import make_example_folder
from sys_tables.registry import default_registry
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.errors import StatementFailed

EXAMPLES = load_examples(ROOT / "sql_examples")
ANSWERED_OFFLINE = {"help", "validate_table"}
"""Procedures that ask the coordinator for nothing but a look."""


def why_not(example: Example) -> str | None:
    """Why a file is not answered offline: a rule, never a list of files. None = it is."""
    called = re.match(r"CALL fluss\.sys\.(\w+)", example.sql)
    if called and called[1] not in ANSWERED_OFFLINE:
        return "a CALL that needs a running service"
    return None


OFFLINE = [example for example in EXAMPLES if why_not(example) is None]
REFUSED = [example for example in EXAMPLES if why_not(example) is not None]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    folder = make_example_folder(tmp_path_factory.mktemp("setting"))
    engine = DuckDbEngine(folder.root, "iceberg", {})
    yield engine
    engine.close()


@pytest.mark.parametrize("example", OFFLINE, ids=lambda example: example.file_name)
def test_an_example_gives_what_it_says_without_spark(engine: DuckDbEngine, example: Example) -> None:
    if isinstance(example.expected, ExpectedError):
        with pytest.raises(StatementFailed) as caught:
            engine.execute(example.sql)
        assert [text for text in example.expected.contains if text not in caught.value.message] == []
        return
    answer = engine.execute(example.sql)
    assert differences(example.expected, answer.columns, answer.rows) == []


@pytest.mark.parametrize("example", REFUSED, ids=lambda example: example.file_name)
def test_a_call_that_needs_the_service_says_so_and_how_to_start_it(engine: DuckDbEngine, example: Example) -> None:
    with pytest.raises(StatementFailed) as raised:
        engine.execute(example.sql)
    if isinstance(example.expected, ExpectedError) and example.expected.contains == ("timeout_ms",):  # arguments are read first
        assert "timeout_ms must not be negative" in raised.value.message
        return
    assert "needs a running service" in raised.value.message
    assert "lakeward up --data " in raised.value.hint


def test_the_rule_is_that_of_the_code_and_leaves_most_files() -> None:
    procedures = default_registry().procedures
    assert {procedure.name for procedure in procedures if procedure.name in ANSWERED_OFFLINE and procedure.mutates} == set()
    assert len(OFFLINE) > len(REFUSED)
