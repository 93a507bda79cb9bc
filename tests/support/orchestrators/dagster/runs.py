"""Runs in Dagster's environment: the example of `integrations/dagster`, and jobs and sensors that fail, wait and lose answers.

Standard output's last line is a JSON object of outcomes by their names.
"""

import json
import os
from typing import Any

import dagster as dg
from definitions import defs
from lakeward_dagster import LakewardResource, call_op, freshness_sensor

LAKEWARD = LakewardResource(uri=os.environ["LAKEWARD_URI"])
RETRY = dg.RetryPolicy(max_retries=1)


@dg.op(retry_policy=RETRY)
def lost_answer(context: dg.OpExecutionContext, lakeward: LakewardResource) -> list[Any]:
    """The process of the first try dies after the call."""
    rows = lakeward.call(context, "tier_table", {"table": "demo.planes"})
    if context.retry_number == 0:
        raise RuntimeError("the process died")
    return rows


@dg.asset
def planes_in_lake(context: dg.AssetExecutionContext, lakeward: LakewardResource) -> str:
    """An asset that calls a procedure."""
    return str(lakeward.call(context, "wait_for_tiering", {"table": "demo.flights"})[0]["reached"])


OPS = [
    lost_answer,
    call_op("unknown_table", "tier_table", {"table": "demo.baots"}, retry_policy=RETRY),
    call_op("too_slow", "wait_for_tiering", {"table": "demo.trains", "timeout_ms": 0}, retry_policy=RETRY),
]


def run(op: dg.OpDefinition) -> dict[str, Any]:
    """The outcome of a job of one op."""

    @dg.job(name=f"job_of_{op.name}", resource_defs={"lakeward": LAKEWARD})
    def job() -> None:
        op()

    result = job.execute_in_process(raise_on_error=False)
    failures = [event.step_failure_data.user_failure_data for event in result.get_step_failure_events()]
    retries = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY]
    return {
        "success": result.success,
        "tries": 1 + len(retries),
        "value": result.output_for_node(op.name) if result.success else None,
        "errors": [failure.description for failure in failures if failure is not None],
        "hints": [failure.metadata["hint"].value for failure in failures if failure is not None],
    }


def tick(sensor: dg.SensorDefinition, lakeward: LakewardResource) -> dict[str, Any]:
    """The outcome of one evaluation of a sensor."""
    with dg.build_sensor_context(resources={"lakeward": lakeward}) as context:
        try:
            data = sensor.evaluate_tick(context)
        except dg.Failure as failure:
            return {"failure": failure.description}
    return {"runs": [[request.run_key, request.tags] for request in data.run_requests or ()], "skipped": data.skip_message}


def outcomes() -> dict[str, Any]:
    """All outcomes by their names."""
    example = defs.resolve_job_def("report_after_tiering").execute_in_process()
    sensors = {name: freshness_sensor(name, f"demo.{name}", job_name="report_when_fresh") for name in ("trains", "cars", "baots")}
    fresh = tick(defs.resolve_sensor_def("flights_are_fresh"), LAKEWARD)
    requested = defs.resolve_job_def("report_when_fresh").execute_in_process(tags=fresh["runs"][0][1])
    return {
        "example": example.output_for_node("report"),
        "asset": dg.materialize([planes_in_lake], resources={"lakeward": LAKEWARD}).output_for_node("planes_in_lake"),
        "requested": requested.output_for_node("report_of_fresh_table"),
        **{op.name: run(op) for op in OPS},
        "flights": fresh,
        **{name: tick(sensor, LAKEWARD) for name, sensor in sensors.items()},
        "no_service": tick(sensors["trains"], LakewardResource(uri="127.0.0.1:1")),
    }


if __name__ == "__main__":
    print("\n" + json.dumps(outcomes()))
