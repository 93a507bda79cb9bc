"""A resource that calls procedures of Lakeward, an op for one call, and a sensor on the freshness of a table. For Dagster.

Copy this file into your code location. It needs the package lakeward. docs/orchestration.md explains it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from tiering.client import ClientAccess, LakewardClient
from tiering.client.tasks import TaskCall, describe, why_not_fresh
from tiering.errors import LakewardError


class LakewardResource(dg.ConfigurableResource):
    """A service of Lakeward. Without a file, the variables `LAKEWARD_TOKEN_FILE`, `LAKEWARD_TLS_CA` and so on count."""

    uri: str = "127.0.0.1:7707"
    token_file: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def client(self) -> LakewardClient:
        """Returns a client, which the caller closes."""
        names = ("token_file", "tls_ca", "tls_cert", "tls_key")
        files = {name: Path(path) for name in names if (path := getattr(self, name)) is not None}
        return LakewardClient(self.uri, ClientAccess(**files) if files else None)

    def call(self, context: Any, procedure: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Calls a procedure for an op or an asset, waits for its answer, and returns its rows. `arguments` have the names of SQL.

        A retry of the op attaches to the work of the try before, and begins anew only if that failed. Raises dagster.Failure with the
        class, message and hint of an error; an error that no retry helps allows none.
        """
        key = f"dagster/{context.run_id}/{context.op_handle}/{procedure}"
        try:
            with self.client() as client:
                return TaskCall(procedure, arguments, key).perform(client, context.retry_number + 1)
        except LakewardError as error:
            raise dg.Failure(describe(error), metadata=_metadata(error), allow_retries=error.retryable) from error


def _metadata(error: LakewardError) -> dict[str, str]:
    return {"error_class": error.error_class, "message": error.message, "hint": error.hint, **error.ids}


def call_op(name: str, procedure: str, arguments: Mapping[str, Any], **options: Any) -> dg.OpDefinition:
    """Returns an op that calls a procedure and waits for its answer, its output. `options` are those of `dagster.op`.

    It needs the resource `lakeward`.
    """

    @dg.op(name=name, ins={"after": dg.In(dg.Nothing)}, **options)
    def call(context: dg.OpExecutionContext, lakeward: LakewardResource) -> list[dict[str, Any]]:
        return lakeward.call(context, procedure, arguments)

    return call


def freshness_sensor(name: str, table: str, **options: Any) -> dg.SensorDefinition:
    """Returns a sensor that requests a run for each new lake snapshot of the table with which it keeps its promise of freshness.

    `options` are those of `dagster.sensor`, such as `job`. It needs the resource `lakeward`.
    """

    @dg.sensor(name=name, **options)
    def fresh(lakeward: LakewardResource) -> Any:
        try:
            with lakeward.client() as client:
                [status] = client.list_tiering_statuses(table)
        except LakewardError as error:
            raise dg.Failure(describe(error), metadata=_metadata(error)) from error
        if status.error_retryable is False:
            raise dg.Failure(f"[{status.error_class}] {status.last_error} Hint: {status.error_hint}")
        reason = why_not_fresh(status)
        if reason is not None or status.lake_snapshot_id is None:
            return dg.SkipReason(reason or f"no row of {table} is in the lake yet")
        tags = {"lakeward/table": table, "lakeward/lake_snapshot_id": str(status.lake_snapshot_id)}
        return dg.RunRequest(run_key=f"{table}@{status.lake_snapshot_id}", tags=tags)

    return fresh
