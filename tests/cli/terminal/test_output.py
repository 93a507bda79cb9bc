"""How rows are printed."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from rich.cells import cell_len

from tiering.cli.terminal.output import OutputFormat, print_result, print_rows

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


def test_csv_has_nested_values_as_json_and_null_as_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"id": 1, "none": None, "truth": True, "list": [1, None], "map": {"a": date(2026, 1, 2)}, "text": 'a,"b"\nc', "raw": b"\x00\xff"}
    print_rows([row], OutputFormat.CSV, ["id"])
    [header, values] = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == list(row)
    assert values == ["1", "", "true", "[1, null]", '{"a": "2026-01-02"}', 'a,"b"\nc', "00ff"]


def test_json_stays_json_whatever_the_numbers_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"nan": float("nan"), "exact": Decimal("1.10"), "Ørsted 北京": "ж"}], OutputFormat.JSON)
    out = capsys.readouterr().out
    assert json.loads(out, parse_constant=lambda name: pytest.fail(name)) == [{"nan": "nan", "exact": "1.10", "Ørsted 北京": "ж"}]
    assert "北京" in out


def test_columns_of_one_name_all_reach_programs(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(["a", "a", "a_2"], [[1, 2, 3]], OutputFormat.JSON)
    assert json.loads(capsys.readouterr().out) == [{"a": 1, "a_3": 2, "a_2": 3}]
    print_result(["a", "a"], [[1, 2]], OutputFormat.CSV)
    assert capsys.readouterr().out == "a,a\n1,2\n"


def test_columns_stay_under_each_other_whatever_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"city": "北京", "id": 1}, {"city": "Åre", "id": 2}, {"city": "tab\there", "id": 3}], OutputFormat.TABLE)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert {cell_len(line) for line in lines} == {cell_len(lines[0])}
    assert all(f"│ {number} " in line for number, line in enumerate(lines, 1))
    assert "…" not in "".join(lines)


def test_data_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"note": "red \x1b[31m and \x9b2J"}], OutputFormat.TABLE)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert r"red \x1b[31m and \x9b2J" in out


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_are_for_terminals_that_want_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    print_rows([{"status": "Failed"}], OutputFormat.TABLE, styles={"status": lambda value: "red"})
    assert ("\x1b[31m" in capsys.readouterr().out) is coloured


HOSTILE = "a\x1b[2J\x9b\u202e\u200b\U000e0041\ud800"


def test_no_value_and_no_column_steers_a_terminal_and_programs_get_it_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    row = {HOSTILE: HOSTILE, "nested": [HOSTILE]}
    print_rows([row], OutputFormat.TABLE)
    shown = capsys.readouterr().out
    assert not set(shown) & set("\x1b\x9b\u202e\u200b\U000e0041\ud800")
    assert "\\x1b[2J\\x9b\\u202e\\u200b\\U000e0041\\ud800" in shown
    print_rows([row], OutputFormat.JSON)
    as_json = capsys.readouterr().out
    assert not set(as_json) & set("\x1b\x9b\u202e\u200b\U000e0041\ud800")
    assert json.loads(as_json) == [row]
    exact = HOSTILE[:-1]  # no encoding has half a pair
    print_rows([{"a": exact}], OutputFormat.CSV)
    assert capsys.readouterr().out == f"a\n{exact}\n"
