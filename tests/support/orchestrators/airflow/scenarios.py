"""DAGs of the tests: calls and sensors that fail, wait, or lose their answer. Airflow loads this file."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException
from lakeward_airflow import LakewardCallOperator, LakewardFreshnessSensor
from noted_errors import note


class LosesAnswer(LakewardCallOperator):
    """The worker of the first try dies after the call."""

    def execute(self, context: Any) -> list[dict[str, Any]]:
        rows = super().execute(context)
        if context["ti"].try_number == 1:
            raise AirflowException("the worker died")
        return rows


NOTED = {"retries": 1, "retry_delay": timedelta(0), "on_failure_callback": note, "on_retry_callback": note}

with DAG("scenarios", start_date=datetime(2026, 1, 1), schedule=None, default_args=NOTED):
    LosesAnswer(task_id="lost_answer", procedure="tier_table", arguments={"table": "demo.boats"})
    LakewardCallOperator(task_id="unknown_table", procedure="tier_table", arguments={"table": "demo.baots"})
    LakewardCallOperator(task_id="too_slow", procedure="wait_for_tiering", arguments={"table": "demo.trains", "timeout_ms": 0})
    LakewardFreshnessSensor(task_id="fresh", table="demo.flights")
    LakewardFreshnessSensor(task_id="never", table="demo.flights", rows_until="2999-01-01", timeout=0, retries=0)
    LakewardFreshnessSensor(task_id="failed_table", table="demo.cars")
    LakewardFreshnessSensor(task_id="no_service", table="demo.flights", conn_id="nowhere")
