"""A bench refuses to print figures that are nonsense, and takes a tiny size by `--smoke`."""

from __future__ import annotations

import argparse
import json
import sys

import pytest

from support.bench.modules import figures, load_module

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("report", "named"),
    [
        ({"bench": "idle", "empty_seconds": -13.8}, "empty_seconds is -13.8, and cannot be negative"),
        ({"sizes": [{"round_parts_s": {"spark": -0.12}}]}, r"sizes\[0\].round_parts_s.spark is -0.12"),
        ({"runs": {"alone": {"rows_a_second": NAN}}}, "runs.alone.rows_a_second is nan"),
        ({"rows_a_second": INFINITY}, "rows_a_second is inf"),
        ({"rounds": -1}, "rounds is -1"),
    ],
)
def test_figures_that_are_nonsense_end_the_bench_before_anything_is_printed(
    report: dict[str, object], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=named):
        figures.finish(report, lambda: print("a table"))
    assert capsys.readouterr().out == ""


def test_sound_figures_are_shown_and_the_last_line_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    report = {"bench": "x", "seconds": 0.0, "met": True, "p99_ms": None, "p50_overhead": -1.5, "difference_percent": -16.0, "rows": [1, 2]}
    figures.finish(report, lambda: print("a table"))
    table, last = capsys.readouterr().out.splitlines()
    assert (table, json.loads(last)) == ("a table", report)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (9.9, "met"),
        (10.0, "met"),
        (10.1, "missed"),
        (None, "not measured"),
        (-13.8, "not measured"),
        (0.0, "not measured"),
        (NAN, "not measured"),
    ],
)
def test_a_target_is_met_only_by_what_a_clock_can_give(value: float | None, answer: str) -> None:
    assert figures.verdict(value, 10.0) == answer


def test_the_parts_of_a_round_are_never_negative_and_add_up_to_the_step() -> None:
    parts = load_module("rounds/round_parts.py")
    for step, read, whole in ((1.0, 0.4, 1.0), (0.1, 0.4, 1.0), (0.0, 0.4, 1.0), (0.5, 0.0, 0.0)):
        shares = parts.parts_of_work(step, read, whole, 2)
        assert min(shares.values()) >= 0
        assert sum(shares.values()) == pytest.approx(step)
    assert parts.rest_of(1.0, {"a": 0.4, "b": 0.601}) == 0.0
    assert parts.rest_of(1.0, {"a": 0.4, "b": 0.7}) < -0.05, "steps that take longer than their round are nonsense, and stay so"


@pytest.mark.parametrize(("words", "sizes"), [([], (2_000_000, None)), (["--smoke"], (100, [5])), (["--smoke", "--rows", "7"], (7, [5]))])
def test_smoke_replaces_the_default_sizes_alone(
    words: list[str], sizes: tuple[int, list[int] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", *words])
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--tables", type=int, action="append")
    arguments = figures.parse(parser, rows=100, tables=[5])
    assert (arguments.rows, arguments.tables) == sizes
