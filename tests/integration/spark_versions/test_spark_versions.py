"""Every version of Spark that the plugin supports answers the same statements as the locked version, with the jar for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from support.readers.environment import TEST_SECONDS
from support.running.cluster_of_processes import Deployment
from support.spark_versions.installations import OTHERS, REFERENCE, Installation
from support.spark_versions.matrix import READ_WITH_WRONG_LAKE, Answer, answers, cells, executed
from support.spark_versions.page import PAGE, section, section_of
from support.spark_versions.scene import scene
from support.spark_versions.statements import OTHER_WORDS, SPARK_35, STATEMENTS
from tiering.cli.spark.jars import INSTALLED_SPARK, SparkVersion
from tiering.cli.spark.properties import CALL_EXTENSION, DRIVER_CLASS_PATH, EXTENSIONS, plugin_jar

pytestmark = pytest.mark.timeout(TEST_SECONDS)

AnswersOf = Callable[[Installation], list[Answer]]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with scene(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture(scope="module")
def answers_of(service: Deployment, tmp_path_factory: pytest.TempPathFactory) -> AnswersOf:
    """Returns the answers of a version to all statements, and to the read with a lake of another version. It is asked once."""

    @cache
    def of(installation: Installation) -> list[Answer]:
        installation.fetch()
        folder: Path = tmp_path_factory.mktemp("spark")
        return answers(service, installation, folder, [*(statement.sql for statement in STATEMENTS), READ_WITH_WRONG_LAKE])

    return of


def test_all_versions_execute_one_list_of_statements() -> None:
    assert REFERENCE.spark is INSTALLED_SPARK
    assert sorted(installation.spark for installation in (REFERENCE, *OTHERS)) == sorted(SparkVersion)
    assert SPARK_35.keys() <= {statement.sql for statement in STATEMENTS}, "a limit of Spark 3.5 without its statement"


@pytest.mark.parametrize("installation", OTHERS, ids=lambda installation: installation.version)
def test_a_version_answers_as_the_locked_one(installation: Installation, answers_of: AnswersOf) -> None:
    compared = cells(installation, answers_of(installation)[:-1], answers_of(REFERENCE)[:-1])

    assert [(cell.statement.sql, cell.limit, cell.difference) for cell in compared if not cell.is_explained] == []


def test_spark_3_5_refuses_what_it_words_differently(answers_of: AnswersOf) -> None:
    of_spark_35 = zip(STATEMENTS, answers_of(OTHERS[0]), strict=False)

    assert [
        statement.sql for statement, answer in of_spark_35 if statement.limits.get("3.5") is OTHER_WORDS and "error" not in answer
    ] == []


def test_the_locked_version_refuses_only_what_is_an_error(answers_of: AnswersOf) -> None:
    right = zip(STATEMENTS, answers_of(REFERENCE), strict=False)

    assert [(statement.sql, answer) for statement, answer in right if statement.fails != ("error" in answer)] == []


def test_a_call_with_a_key_has_one_effect(answers_of: AnswersOf) -> None:
    rounds = next(number for number, statement in enumerate(STATEMENTS) if "WHERE idempotency_key" in statement.sql)

    assert answers_of(REFERENCE)[rounds]["rows"] == [["SUCCEEDED", "2"]]


def test_each_call_of_a_script_has_an_effect(answers_of: AnswersOf) -> None:
    paused = next(number for number, statement in enumerate(STATEMENTS) if statement.sql.startswith("SELECT paused"))

    with_scripts = [installation for installation in (REFERENCE, *OTHERS) if installation.spark is not SparkVersion.V3_5]
    assert {installation.version: answers_of(installation)[paused]["rows"] for installation in with_scripts} == {
        installation.version: [["True"]] for installation in with_scripts
    }


@pytest.mark.parametrize(
    "installation", [other for other in OTHERS if not other.has_iceberg], ids=lambda installation: installation.version
)
def test_an_iceberg_runtime_of_another_version_is_named(installation: Installation, answers_of: AnswersOf) -> None:
    error = answers_of(installation)[-1]["error"]

    assert f"whose jars are made for another version of Spark than {installation.version}" in error
    assert "remove the option" in error


def test_a_session_does_not_start_with_the_jar_for_another_spark(tmp_path: Path) -> None:
    spark_35 = OTHERS[0]
    spark_35.fetch()

    ended = executed(spark_35, {DRIVER_CLASS_PATH: str(plugin_jar()), EXTENSIONS: CALL_EXTENSION}, tmp_path, ["SELECT 1"])

    assert ended.returncode != 0
    assert "Spark 3.5 needs lakeward-spark-plugin-3.5.jar, whose properties `lakeward spark-conf --spark 3.5` prints" in ended.stderr


def test_the_page_has_these_results(answers_of: AnswersOf) -> None:
    right = answers_of(REFERENCE)[:-1]
    by_version = {other.version: cells(other, answers_of(other)[:-1], right) for other in OTHERS}

    assert section_of(PAGE.read_text()) == section(by_version), (
        "PYTHONPATH=.:tests .venv/bin/python -m support.spark_versions.page writes it anew"
    )
