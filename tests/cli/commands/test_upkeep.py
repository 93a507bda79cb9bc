"""`lakeward compact` and `lakeward expire`: what they ask for, and what they print."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from tiering.cli.main import app
from tiering.cli.terminal.exit_status import ExitStatus
from tiering.client import LakewardClient
from tiering.errors import InvalidArgument
from tiering.model.tables import TablePath
from tiering.model.upkeep import UpkeepStats
from tiering.procedures.base import UpkeepCallOutcome, UpkeepResult

ORDERS = TablePath("sales", "orders")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Requests of the commands. `answer` answers the calls."""
    calls: list[dict[str, Any]] = []

    def answered(stats: UpkeepStats, **fields: Any) -> Any:
        def call(self: LakewardClient, path: TablePath, **arguments: Any) -> UpkeepResult:
            calls.append({"path": path, **arguments})
            outcome = UpkeepCallOutcome.SUCCEEDED if arguments["timeout_ms"] else UpkeepCallOutcome.WAITING
            return UpkeepResult(path, outcome, None if arguments["timeout_ms"] else "no tierer", "r1", 1, stats, **fields)

        return call

    monkeypatch.setattr(LakewardClient, "rewrite_data_files", answered(UpkeepStats(files_before=9, files_after=1, bytes_left=0)))
    monkeypatch.setattr(LakewardClient, "expire_snapshots", answered(UpkeepStats(snapshots_expired=41), kept={"the tag 'audit'": 1}))
    return calls


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_compact_passes_its_options_on_and_prints_the_row(calls: list[dict[str, Any]]) -> None:
    ended = run("compact", "sales.orders", "--where", "day < '2026-03-01'", "--full", "--format", "json", "--idempotency-key", "k")
    assert ended.exit_code == 0, ended.output
    [row] = json.loads(ended.stdout)
    assert (row["table"], row["outcome"], row["rewritten_files"], row["added_files"], row["round_id"]) == (
        "sales.orders",
        "SUCCEEDED",
        9,
        1,
        "r1",
    )
    [call] = calls
    assert (call["path"], call["where"], call["full"], call["idempotency_key"]) == (ORDERS, "day < '2026-03-01'", True, "k")
    assert call["wait_for_tierer"]


def test_compact_that_waits_in_vain_has_a_status_of_its_own(calls: list[dict[str, Any]]) -> None:
    ended = run("compact", "sales.orders", "--timeout-ms", "0")
    assert ended.exit_code == ExitStatus.NOT_YET
    assert "the upkeep of sales.orders is not done yet and continues: no tierer" in ended.stderr
    assert run("compact", "sales.orders", "--timeout-ms", "0", "--no-wait").exit_code == 0


def test_expire_takes_a_moment_or_an_age(calls: list[dict[str, Any]]) -> None:
    ended = run("expire", "sales.orders", "--older-than", "6 h", "--retain-last", "2", "--format", "json")
    assert ended.exit_code == 0, ended.output
    [row] = json.loads(ended.stdout)
    assert (row["deleted_snapshots"], row["kept_snapshots"], row["kept_because"]) == (41, 1, "1: the tag 'audit'")
    run("expire", "sales.orders", "--older-than", "2026-03-01T08:00:00Z", "--dry-run")
    run("expire", "sales.orders")
    ages = [call["older_than"] for call in calls]
    assert abs(ages[0] - (datetime.now(UTC) - timedelta(hours=6))) < timedelta(minutes=5)
    assert ages[1:] == [datetime(2026, 3, 1, 8, tzinfo=UTC), None]
    assert [call["retain_last"] for call in calls] == [2, None, None]
    assert [call["dry_run"] for call in calls] == [False, True, False]


def test_expire_refuses_what_is_no_time() -> None:
    ended = run("expire", "sales.orders", "--older-than", "soon")
    assert isinstance(ended.exception, InvalidArgument)
    assert "--older-than 'soon' is neither a time nor a duration" in ended.exception.message
