"""The stage of the demo: its service ends with it, or stays for `lakeward demo --keep` when nothing went wrong."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tiering.cli.demo import stage


@pytest.mark.parametrize(("keep", "fails", "stays"), [(False, False, False), (True, False, True), (True, True, False)])
def test_the_service_of_a_demo_stays_only_for_keep_and_without_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keep: bool, fails: bool, stays: bool
) -> None:
    stopped: list[str] = []
    service = SimpleNamespace(uri="127.0.0.1:1", console_url="http://127.0.0.1:2/ui", stop=lambda: stopped.append("service"))
    replaced: dict[str, Any] = {
        "start_service": lambda *arguments: service,
        "open_reader_spark": lambda *arguments, **named: SimpleNamespace(stop=lambda: stopped.append("spark")),
        "LakewardClient": lambda uri: nullcontext(),
    }
    for name, replacement in replaced.items():
        monkeypatch.setattr(stage, name, replacement)
    with suppress(ZeroDivisionError), stage.open_stage(Console(quiet=True), tmp_path, 0, source=nullcontext(), keep=keep):  # type: ignore[arg-type]  # no cluster is used
        if fails:
            raise ZeroDivisionError
    assert stopped == ["spark", *([] if stays else ["service"])]
