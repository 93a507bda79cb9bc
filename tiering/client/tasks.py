"""Calls of procedures by tasks of an orchestrator, such as Airflow or Dagster, which runs a failed task again (docs/orchestration.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from tiering.access.request_bounds import ID_LIMIT
from tiering.client.clients import LakewardClient
from tiering.error_text import error_text
from tiering.errors import InvalidArgument, LakewardError, ServiceUnreachable, UnknownProcedure
from tiering.model.declare import parameters_of, row_in_sql
from tiering.model.status import Promise, TableStatus
from tiering.procedures.arguments import ProcedureInput
from tiering.procedures.base import CallRequest, Mutation, UpkeepCallOutcome
from tiering.procedures.registry import declarations

Row = dict[str, Any]
"""A row of an answer as SQL shows it, with values that JSON has: a time is a text."""

_DIGITS = 16
_TIERED = ("SUCCEEDED", "EMPTY")
_WAITS = (UpkeepCallOutcome.WAITING, UpkeepCallOutcome.RUNNING)


class CallUnfinished(LakewardError, no_statement="The answer of the call names what it waited for."):
    """The time of the call was over before its work ended. The work continues, and a repeat with the same key waits for it."""

    retryable = True


class CallFailed(LakewardError, no_statement="The answer of the call has the error of each table or check."):
    """The call has an answer, and a row of it reports an error."""

    retryable = True


@dataclass(frozen=True)
class TaskCall:
    """A call by a task. `arguments` have the names of SQL. `key` names the task in its run, and is the same in all attempts of the task."""

    procedure: str
    arguments: Mapping[str, Any]
    key: str

    def perform(self, client: LakewardClient, attempt: int = 1) -> list[Row]:
        """Returns the rows of the answer. `attempt`: 1 for the first run of the task, 2 for the first repeat.

        Each attempt has an idempotency key. An attempt first calls with the keys of the attempts before it. So it attaches to work that
        still runs, and gets the answer of work that has succeeded, and only after work that failed it begins anew. Raises the error of the
        procedure, CallUnfinished, CallFailed, InvalidArgument, UnknownProcedure, ServiceUnreachable.
        """
        has_key = issubclass(self._request_class, Mutation)
        for number in range(1, attempt) if has_key else ():
            try:
                return self._perform_once(client, number)
            except (ServiceUnreachable, CallUnfinished):
                raise
            except LakewardError:
                continue
        return self._perform_once(client, attempt)

    @property
    def _request_class(self) -> type[CallRequest[Any]]:
        request_class = declarations().get(self.procedure)
        if request_class is None or not request_class.in_sql:
            raise UnknownProcedure(f"there is no procedure sys.{self.procedure}")
        return request_class

    def _perform_once(self, client: LakewardClient, number: int) -> list[Row]:
        request = self._request(number)
        result = client.perform(request)
        rows = [_json(row_in_sql(row, request.row_class)) for row in request.rows(result) if not isinstance(row, str)]
        for row in rows:
            self._check(row)
        return rows

    def _request(self, number: int) -> CallRequest[Any]:
        request_class, arguments = self._request_class, dict(self.arguments)
        if issubclass(request_class, Mutation):
            if "idempotency_key" in arguments:
                raise InvalidArgument("a task has an idempotency key of its own", hint="Leave out the argument idempotency_key.")
            arguments["idempotency_key"] = attempt_key(self.key, number)
        return ProcedureInput(self.procedure, parameters_of(request_class), tuple(arguments.items())).read(request_class)

    def _check(self, row: Row) -> None:
        """Raises CallFailed or CallUnfinished for a row of work that failed or did not end in time."""
        named = f"sys.{self.procedure} of {row.get('table') or self.arguments.get('table') or 'the service'}"
        if row.get("error") or row.get("ok") is False:
            raise CallFailed(f"{named} failed: {row.get('error') or row.get('details') or row.get('check')}")
        is_late = self.procedure in ("tier_table", "tier_database") and row["state"] not in _TIERED
        is_late = is_late or row.get("reached") is False or row.get("outcome") in _WAITS
        if is_late and self.arguments.get("wait", True) and not self.arguments.get("dry_run"):
            state = row.get("state") or row.get("outcome")
            raise CallUnfinished(
                f"{named} did not end in time{f': its state is {state}' if state else ''}",
                hint="The work continues. Give the call a larger timeout_ms, or let the task run again: it waits for the same work.",
            )


def attempt_key(key: str, number: int) -> str:
    """Returns the idempotency key of an attempt. A long key is cut, with a digest of the whole."""
    text = f"{key}#{number}"
    return text if len(text) <= ID_LIMIT else f"{text[: ID_LIMIT - _DIGITS - 1]}~{sha256(text.encode()).hexdigest()[:_DIGITS]}"


def describe(error: LakewardError) -> str:
    """Returns an error as a task shows it: class, message and hint."""
    return error_text(error.error_class, error.message, error.hint)


def complete_until(status: TableStatus) -> datetime | None:
    """Returns the time until which the lake has all rows; None if that is unknown."""
    if status.lag_ms is None or status.offsets_observed_time is None:
        return None
    return status.observed_time - timedelta(milliseconds=status.lag_ms) if status.lag_ms else status.offsets_observed_time


def why_not_fresh(status: TableStatus, rows_until: datetime | None = None) -> str | None:
    """Returns why a table's lake copy is not fresh enough; None if it is.

    `rows_until`: the lake must have all rows that the log received until this time. None: the table must keep its promise of freshness.
    """
    named, complete = f"{status.database_name}.{status.table_name}", complete_until(status)
    if complete is None or status.promise is None:
        return f"the lag of {named} is not known yet"
    if rows_until is not None:
        return None if complete >= rows_until else f"the lake has the rows of {named} until {complete.isoformat()}"
    if status.promise != Promise.BROKEN:
        return None
    return f"{named} is {status.lag_ms} ms behind, and its freshness is {status.freshness_ms} ms"


def _json(row: Row) -> Row:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
