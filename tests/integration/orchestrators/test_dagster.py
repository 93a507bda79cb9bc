"""Dagster itself runs the example of `integrations/dagster`, and jobs and sensors that fail, wait and lose answers, in its process."""

from __future__ import annotations

from typing import Any

import pytest

from support.orchestrators.environment import DAGSTER, answer_of
from support.readers.environment import TEST_SECONDS
from support.repository import ROOT
from support.running.cluster_of_processes import Deployment
from tiering.client import LakewardClient

RUNS = ROOT / "tests" / "support" / "orchestrators" / "dagster" / "runs.py"

pytestmark = pytest.mark.timeout(TEST_SECONDS)


@pytest.fixture(scope="module")
def outcomes(service: Deployment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All outcomes by their names; all runs are in one process."""
    home, variables = tmp_path_factory.mktemp("dagster"), {"LAKEWARD_URI": service.uri}
    answer: dict[str, Any] = answer_of(DAGSTER, RUNS, home, None, [ROOT / "integrations" / "dagster"], DAGSTER_HOME=str(home), **variables)
    return answer


def test_the_example_tiers_and_reports(outcomes: dict[str, Any]) -> None:
    assert outcomes["example"].startswith("demo.flights is in the lake, snapshot ")
    assert outcomes["asset"] == "True"


def test_the_sensor_requests_one_run_for_each_state_of_the_lake_copy(outcomes: dict[str, Any], service: Deployment) -> None:
    with LakewardClient(service.uri) as client:
        [status] = client.list_tiering_statuses("demo.flights")
    [[run_key, tags]] = outcomes["flights"]["runs"]
    assert run_key == f"demo.flights@{status.lake_snapshot_id}"
    assert tags["lakeward/lake_snapshot_id"] == str(status.lake_snapshot_id)
    assert outcomes["requested"] == f"snapshot {status.lake_snapshot_id}"


def test_a_sensor_skips_or_fails_with_the_reason(outcomes: dict[str, Any]) -> None:
    assert outcomes["trains"] == {"runs": [], "skipped": "no row of demo.trains is in the lake yet"}
    errors = {"cars": "[LakeTableReplaced]", "baots": "[UnknownTable]", "no_service": "[ServiceUnreachable]"}
    for name, text in errors.items():
        assert outcomes[name]["failure"].startswith(text)
        assert "Hint: " in outcomes[name]["failure"]


def test_a_retry_attaches_to_the_round_of_the_lost_try(outcomes: dict[str, Any], service: Deployment) -> None:
    lost = outcomes["lost_answer"]
    with LakewardClient(service.uri) as client:
        rounds = client.read_system_table("tiering_rounds", database_name="demo", table_name="planes", trigger="call")
    assert (lost["success"], lost["tries"]) == (True, 2)
    assert [row["round_id"] for row in rounds] == [lost["value"][0]["round_id"]]
    assert (lost["value"][0]["state"], lost["value"][0]["records"]) == ("SUCCEEDED", 20)


def test_an_error_that_no_retry_helps_fails_at_once(outcomes: dict[str, Any]) -> None:
    unknown = outcomes["unknown_table"]
    assert (unknown["success"], unknown["tries"], unknown["errors"]) == (False, 1, ["[UnknownTable] there is no table demo.baots"])


def test_a_call_that_does_not_end_in_time_is_tried_again(outcomes: dict[str, Any]) -> None:
    slow = outcomes["too_slow"]
    assert (slow["success"], slow["tries"]) == (False, 2)
    assert slow["errors"][0].startswith("[CallUnfinished] sys.wait_for_tiering of demo.trains did not end in time")
    assert slow["hints"][0].startswith("The work continues.")
