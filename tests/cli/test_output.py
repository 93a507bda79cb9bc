"""How rows are printed."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tiering.cli.output import OutputFormat, print_rows

ROWS = [{"table": "sales.orders", "lag_ms": 5, "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "last_error": None, "note": "[bold]x"}]


def test_json_has_everything_and_null_for_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, OutputFormat.JSON, ["table"])
    [row] = json.loads(capsys.readouterr().out)
    assert row == {"table": "sales.orders", "lag_ms": 5, "at": "2026-01-02T03:04:05+00:00", "last_error": None, "note": "[bold]x"}


def test_a_table_in_a_pipe_is_never_wrapped_and_takes_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{**ROWS[0], "note": "[bold]" + "x" * 300}], OutputFormat.TABLE)
    line = next(line for line in capsys.readouterr().out.splitlines() if "sales.orders" in line)
    assert "[bold]" + "x" * 300 in line
    assert "2026-01-02 03:04:05" in line


def test_a_table_wider_than_the_terminal_is_shown_row_by_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    print_rows(ROWS, OutputFormat.TABLE)
    out = capsys.readouterr().out
    assert "sales.orders" in out
    assert "last_error" not in out  # NULL: nothing to say


def test_no_rows_print_an_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], OutputFormat.TABLE, ["table"])
    assert "table" in capsys.readouterr().out
