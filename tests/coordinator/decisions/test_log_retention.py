"""When the success of a round still says that the lake has what was tiered."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tiering.coordinator.decisions.lake_acks import CONFIRMED_FOR, lake_is_confirmed
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import ErrorInfo, TableRecord
from tiering.model.states import TableState

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW = Moment(NOON, NOON)
TABLE = TableRecord(7, "sales", "orders", "LOG", "iceberg", 60_000, "d", TableState.SCHEDULED, NOON, last_checked_time=NOON)
ERROR = ErrorInfo("LakeTableReplaced", "text", "PLAN", "Mend it.", False, NOON)
OLD = NOON - CONFIRMED_FOR - timedelta(seconds=1)


@pytest.mark.parametrize(
    ("record", "confirmed"),
    [
        (TABLE, True),
        (replace(TABLE, last_checked_time=None, last_tiered_time=NOON), True),
        (replace(TABLE, last_checked_time=OLD, last_tiered_time=NOON), True),
        (replace(TABLE, last_checked_time=OLD, freshness_ms=86_400_000), True),
        (replace(TABLE, last_checked_time=OLD), False),
        (replace(TABLE, last_checked_time=NOON + 2 * CONFIRMED_FOR), False),
        (replace(TABLE, last_checked_time=None), False),
        (replace(TABLE, error=ERROR), False),
        (replace(TABLE, error=ERROR, state=TableState.PENDING), False),
        (replace(TABLE, error=replace(ERROR, error_class="LakeUnavailable", retryable=True)), False),
        (replace(TABLE, error=replace(ERROR, error_class="BucketStopped", retryable=True)), True),
        (replace(TABLE, state=None), False),
        (None, False),
    ],
)
def test_a_round_that_succeeded_lately_and_no_failure_since_confirm_the_lake_table(record: TableRecord | None, confirmed: bool) -> None:
    assert lake_is_confirmed(record, NOW) is confirmed
