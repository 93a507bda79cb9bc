"""An example: bring a table up to date in the lake, and run a report on it; and one that starts when the lake has all rows of an hour."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, task
from lakeward_airflow import LakewardCallOperator, LakewardFreshnessSensor

TABLE = "demo.flights"


@task
def report(rows: list[dict[str, object]]) -> str:
    """Stands for your job, which reads the lake copy."""
    return f"{rows[0]['table']} is in the lake, snapshot {rows[0]['lake_snapshot_id']}"


with DAG("report_after_tiering", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    tiered = LakewardCallOperator(
        task_id="tier",
        procedure="tier_table",
        arguments={"table": TABLE, "timeout_ms": 600_000},
        retries=3,
        retry_delay=timedelta(minutes=1),
    )
    report(tiered.output)

with DAG("report_of_complete_hours", schedule="@hourly", start_date=datetime(2026, 1, 1), catchup=False):
    LakewardFreshnessSensor(
        task_id="wait", table=TABLE, rows_until="{{ data_interval_end | default(dag_run.run_after) }}", mode="reschedule", poke_interval=5
    )
