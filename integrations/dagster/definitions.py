"""An example: a job that brings a table up to date in the lake before its report, and a report for each new state of the lake copy."""

import dagster as dg
from lakeward_dagster import LakewardResource, call_op, freshness_sensor

TABLE = "demo.flights"

tier = call_op("tier", "tier_table", {"table": TABLE, "timeout_ms": 600_000}, retry_policy=dg.RetryPolicy(max_retries=3, delay=60))


@dg.op
def report(context: dg.OpExecutionContext, rows: list) -> str:  # type: ignore[type-arg]  # Dagster reads the annotation
    """Stands for your job, which reads the lake copy."""
    text = f"{rows[0]['table']} is in the lake, snapshot {rows[0]['lake_snapshot_id']}"
    context.log.info(text)
    return text


@dg.job
def report_after_tiering() -> None:
    report(tier())


@dg.op
def report_of_fresh_table(context: dg.OpExecutionContext) -> str:
    """Stands for your job: the run's tags name the table and the snapshot."""
    return f"snapshot {context.get_tag('lakeward/lake_snapshot_id')}"


@dg.job
def report_when_fresh() -> None:
    report_of_fresh_table()


defs = dg.Definitions(
    jobs=[report_after_tiering, report_when_fresh],
    sensors=[freshness_sensor("flights_are_fresh", TABLE, job=report_when_fresh, minimum_interval_seconds=30)],
    resources={"lakeward": LakewardResource(uri=dg.EnvVar("LAKEWARD_URI"))},
)
