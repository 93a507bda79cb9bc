"""Airflow itself runs the example of `integrations/airflow`, and DAGs that fail, wait and lose answers, with `dag.test()`."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from support.orchestrators.environment import AIRFLOW, answer_of
from support.readers.environment import TEST_SECONDS
from support.repository import ROOT
from support.running.cluster_of_processes import Deployment
from tiering.client import LakewardClient

PACKAGE = ROOT / "integrations" / "airflow"
SCENARIOS = ROOT / "tests" / "support" / "orchestrators" / "airflow"

pytestmark = pytest.mark.timeout(TEST_SECONDS)


@pytest.fixture(scope="module")
def runs(service: Deployment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcomes of all DAGs, which run in one process."""
    home = tmp_path_factory.mktemp("airflow")
    shutil.copytree(PACKAGE / "dags", home / "dags")
    shutil.copy(SCENARIOS / "scenarios.py", home / "dags")
    host, _, port = service.uri.rpartition(":")
    outcomes: dict[str, Any] = answer_of(
        AIRFLOW,
        SCENARIOS / "runs.py",
        home,
        ["report_after_tiering", "report_of_complete_hours", "scenarios"],
        (PACKAGE, SCENARIOS),
        AIRFLOW_HOME=str(home),
        AIRFLOW__CORE__DAGS_FOLDER=str(home / "dags"),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__LOGGING__LOGGING_LEVEL="WARNING",
        AIRFLOW_CONN_LAKEWARD_DEFAULT=json.dumps({"conn_type": "generic", "host": host, "port": int(port)}),
        AIRFLOW_CONN_NOWHERE=json.dumps({"conn_type": "generic", "host": "127.0.0.1", "port": 1}),
    )
    return outcomes


def scenario(runs: dict[str, Any], task: str) -> dict[str, Any]:
    outcome: dict[str, Any] = runs["scenarios"]["tasks"][task]
    return outcome


def test_the_example_tiers_and_reports(runs: dict[str, Any], service: Deployment) -> None:
    example = runs["report_after_tiering"]
    assert example["state"] == "success"
    assert example["tasks"]["tier"]["value"][0]["table"] == "demo.flights"
    assert example["tasks"]["report"]["value"].startswith("demo.flights is in the lake, snapshot ")


def test_the_example_waits_for_rows_until_a_time(runs: dict[str, Any]) -> None:
    assert runs["report_of_complete_hours"]["state"] == "success"


def test_a_retry_attaches_to_the_round_of_the_lost_try(runs: dict[str, Any], service: Deployment) -> None:
    lost = scenario(runs, "lost_answer")
    with LakewardClient(service.uri) as client:
        rounds = client.read_system_table("tiering_rounds", database_name="demo", table_name="boats", trigger="call")

    assert (lost["state"], lost["tries"], lost["errors"]) == ("success", 2, ["the worker died"])
    assert [row["round_id"] for row in rounds] == [lost["value"][0]["round_id"]]
    assert (lost["value"][0]["state"], lost["value"][0]["records"]) == ("SUCCEEDED", 20)


def test_an_error_that_no_retry_helps_fails_at_once_with_its_hint(runs: dict[str, Any]) -> None:
    errors = {"unknown_table": "[UnknownTable] there is no table demo.baots", "failed_table": "[LakeTableReplaced]"}
    for task, text in errors.items():
        outcome = scenario(runs, task)
        assert (outcome["state"], outcome["tries"]) == ("failed", 1)
        [error] = outcome["errors"]
        assert error.startswith(text)
    assert "Hint: Restore it in the lake's catalog" in scenario(runs, "failed_table")["errors"][0]


def test_a_call_that_does_not_end_in_time_is_tried_again(runs: dict[str, Any]) -> None:
    outcome = scenario(runs, "too_slow")
    assert (outcome["state"], outcome["tries"]) == ("failed", 2)
    assert outcome["errors"][0].startswith("[CallUnfinished] sys.wait_for_tiering of demo.trains did not end in time")


def test_a_service_that_is_down_is_tried_again(runs: dict[str, Any]) -> None:
    outcome = scenario(runs, "no_service")
    assert (outcome["state"], outcome["tries"]) == ("failed", 2)
    assert outcome["errors"][0].startswith("[ServiceUnreachable]")


def test_sensors_wait_for_the_promise_and_for_a_time(runs: dict[str, Any]) -> None:
    assert scenario(runs, "fresh")["state"] == "success"
    assert scenario(runs, "never")["state"] == "failed"
    assert "Sensor has timed out" in scenario(runs, "never")["errors"][0]
