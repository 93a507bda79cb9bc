"""Calls by tasks of an orchestrator: one operation for all attempts until it failed, and when a table is fresh."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tiering.client import LakewardClient
from tiering.client.tasks import CallFailed, CallUnfinished, TaskCall, attempt_key, complete_until, describe, why_not_fresh
from tiering.errors import InvalidArgument, RoundFailed, ServiceUnreachable, UnknownProcedure
from tiering.model.status import TableStatus, promise_of
from tiering.model.tables import TablePath
from tiering.procedures.base import CallRequest
from tiering.procedures.tier_table import TierTable, TierTableResult
from tiering.procedures.wait_for_tiering import WaitForTieringResult

ORDERS = TablePath("sales", "orders")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
CALL = TaskCall("tier_table", {"table": "sales.orders"}, "run-7")


def tiered(state: str = "SUCCEEDED") -> TierTableResult:
    return TierTableResult(ORDERS, "r1", state, 1, 41, 1, 20, 1, 100, 5, 0, 10)


class Service:
    """A client whose service has an answer or an error for each idempotency key; another call has the last one."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.requests: list[CallRequest[Any]] = []

    def perform(self, request: CallRequest[Any]) -> Any:
        self.requests.append(request)
        number = int((getattr(request, "idempotency_key", None) or "#1").rpartition("#")[2])
        answer = self.answers[number - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def call(self, call: TaskCall, attempt: int = 1) -> list[dict[str, Any]]:
        return call.perform(cast(LakewardClient, self), attempt)

    @property
    def keys(self) -> list[str | None]:
        return [getattr(request, "idempotency_key", None) for request in self.requests]


def test_an_answer_is_rows_as_sql_shows_them() -> None:
    service = Service(tiered())
    [row] = service.call(CALL)
    assert (row["table"], row["state"], row["records"]) == ("sales.orders", "SUCCEEDED", 20)
    assert service.requests == [TierTable(ORDERS, idempotency_key="run-7#1")]


def test_a_repeat_gets_the_answer_of_the_attempt_before() -> None:
    service = Service(tiered())
    service.call(CALL, attempt=3)
    assert service.keys == ["run-7#1"]


def test_a_repeat_begins_anew_only_after_work_that_failed() -> None:
    service = Service(RoundFailed("no disk left"), RoundFailed("no disk left"), tiered())
    assert service.call(CALL, attempt=3)[0]["state"] == "SUCCEEDED"
    assert service.keys == ["run-7#1", "run-7#2", "run-7#3"]


@pytest.mark.parametrize("error", [ServiceUnreachable("no answer"), None])
def test_a_repeat_begins_nothing_while_the_outcome_is_unknown(error: Exception | None) -> None:
    service = Service(error or tiered("Pending"))
    with pytest.raises(ServiceUnreachable if error else CallUnfinished):
        service.call(CALL, attempt=2)
    assert service.keys == ["run-7#1"]


def test_work_that_is_not_waited_for_is_not_late() -> None:
    call = replace(CALL, arguments={"table": "sales.orders", "wait": False})
    assert Service(tiered("QUEUED")).call(call)[0]["state"] == "QUEUED"


def test_a_call_without_a_key_is_made_once() -> None:
    service = Service(WaitForTieringResult(ORDERS, reached=False, lake_snapshot_id=None, waited_ms=5))
    with pytest.raises(CallUnfinished, match=r"wait_for_tiering of sales\.orders did not end in time"):
        service.call(TaskCall("wait_for_tiering", {"table": "sales.orders"}, "run-7"), attempt=2)
    assert len(service.requests) == 1


def test_a_row_with_an_error_fails_the_task() -> None:
    call = TaskCall("tier_database", {"database": "sales"}, "run-7")
    row = {"table": "sales.orders", "error": "paused", "state": "Pending"}
    with pytest.raises(CallFailed, match=r"tier_database of sales\.orders failed: paused"):
        call._check(row)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (TaskCall("tier_tabel", {}, "k"), UnknownProcedure),
        (TaskCall("tier_table", {"tabel": "sales.orders"}, "k"), InvalidArgument),
        (TaskCall("tier_table", {"table": "sales.orders", "idempotency_key": "mine"}, "k"), InvalidArgument),
    ],
)
def test_a_wrong_call_is_refused_before_it_is_sent(call: TaskCall, error: type[Exception]) -> None:
    service = Service()
    with pytest.raises(error):
        service.call(call)
    assert service.requests == []


def test_long_keys_stay_different() -> None:
    keys = {attempt_key("run" * 100, number) for number in (1, 2)} | {attempt_key("run" * 101, 1)}
    assert (len(keys), max(map(len, keys))) == (3, 256)


def test_an_error_is_shown_with_its_class_and_hint() -> None:
    assert describe(InvalidArgument("no such thing", hint="Look again.")) == "[InvalidArgument] no such thing Hint: Look again."


def status(**values: Any) -> TableStatus:
    empty = dict.fromkeys(field.name for field in fields(TableStatus))
    present: dict[str, Any] = {"database_name": "sales", "table_name": "orders", "freshness_ms": 60_000, "observed_time": NOW}
    promise = promise_of(values["lag_ms"], present["freshness_ms"], "Scheduled", paused=False)
    return TableStatus(**{**empty, **present, "promise": promise, "offsets_observed_time": NOW - timedelta(seconds=2), **values})


@pytest.mark.parametrize(
    ("lag_ms", "rows_until", "is_fresh"),
    [
        (0, None, True),
        (60_000, None, True),
        (60_001, None, False),
        (None, None, False),
        (60_000, NOW - timedelta(seconds=60), True),
        (60_000, NOW - timedelta(seconds=59), False),
        (0, NOW - timedelta(seconds=2), True),
        (0, NOW - timedelta(seconds=1), False),
    ],
)
def test_a_table_is_fresh(lag_ms: int | None, rows_until: datetime | None, is_fresh: bool) -> None:
    assert (why_not_fresh(status(lag_ms=lag_ms), rows_until) is None) is is_fresh


def test_rows_are_complete_only_until_the_log_was_read() -> None:
    assert complete_until(status(lag_ms=0, offsets_observed_time=None)) is None
    assert complete_until(status(lag_ms=0)) == NOW - timedelta(seconds=2)
