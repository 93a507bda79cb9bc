"""An operator that calls a procedure of Lakeward, and a sensor on the freshness of a table. For Airflow 3.

Copy this file onto the PYTHONPATH of the scheduler and the workers. It needs the package lakeward. docs/orchestration.md explains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tiering.client import ClientAccess, LakewardClient
from tiering.client.tasks import TaskCall, describe, why_not_fresh
from tiering.errors import LakewardError

DEFAULT_CONN_ID = "lakeward_default"
_FILES = ("token_file", "tls_ca", "tls_cert", "tls_key")


@contextmanager
def lakeward_client(conn_id: str) -> Iterator[LakewardClient]:
    """Yields a client for a connection of Airflow: host, port, and in its extra `token_file`, `tls_ca`, `tls_cert` and `tls_key`.

    An error of Lakeward becomes one of Airflow with its class, message and hint. An error that no retry helps fails the task at once.
    """
    connection = BaseHook.get_connection(conn_id)
    files = {name: Path(path) for name, path in connection.extra_dejson.items() if name in _FILES}
    try:
        with LakewardClient(f"{connection.host}:{connection.port or 7707}", ClientAccess(**files) if files else None) as client:
            yield client
    except LakewardError as error:
        kind = AirflowException if error.retryable else AirflowFailException
        raise kind(describe(error)) from error


class LakewardCallOperator(BaseOperator):
    """Calls a procedure, such as `tier_table`, and waits for its answer, which is the task's XCom: a list of rows.

    `arguments` have the names of SQL. A retry of the task attaches to the work of the try before, and begins anew only if that failed.
    """

    template_fields: Sequence[str] = ("procedure", "arguments")

    def __init__(
        self, *, procedure: str, arguments: Mapping[str, Any] | None = None, conn_id: str = DEFAULT_CONN_ID, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.procedure, self.arguments, self.conn_id = procedure, dict(arguments or {}), conn_id

    def execute(self, context: Any) -> list[dict[str, Any]]:
        task = context["ti"]
        key = f"airflow/{task.dag_id}/{task.run_id}/{task.task_id}/{task.map_index}"
        with lakeward_client(self.conn_id) as client:
            return TaskCall(self.procedure, self.arguments, key).perform(client, task.try_number)


class LakewardFreshnessSensor(BaseSensorOperator):
    """Waits until the lake copy of a table is fresh. It asks for no round.

    `rows_until`: the lake has all rows that the log received until this time, such as `{{ data_interval_end }}`. Without it: the table
    keeps its promise of freshness. The task fails at once if the table failed in a way that Lakeward does not retry.
    """

    template_fields: Sequence[str] = ("table", "rows_until")

    def __init__(self, *, table: str, rows_until: datetime | str | None = None, conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table, self.rows_until, self.conn_id = table, rows_until, conn_id

    def poke(self, context: Any) -> bool:
        with lakeward_client(self.conn_id) as client:
            [status] = client.list_tiering_statuses(self.table)
        if status.error_retryable is False:
            raise AirflowFailException(f"[{status.error_class}] {status.last_error} Hint: {status.error_hint}")
        reason = why_not_fresh(status, _time(self.rows_until))
        if reason is not None:
            self.log.info("not fresh: %s", reason)
        return reason is None


def _time(moment: datetime | str | None) -> datetime | None:
    """Returns the time, in UTC unless it has a zone. A template leaves a text."""
    parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return parsed.replace(tzinfo=UTC) if parsed is not None and parsed.tzinfo is None else parsed
