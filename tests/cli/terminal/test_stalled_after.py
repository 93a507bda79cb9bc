"""`--stalled-after` of `lakeward tierer` and `lakeward up`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tiering.cli.processes import up
from tiering.cli.processes.up import UpSettings
from tiering.cli.terminal import options
from tiering.cli.terminal.options import DEFAULT_STALLED_AFTER, read_stalled_after
from tiering.cli.terminal.service_options import ServiceOptions
from tiering.errors import InvalidArgument
from tiering.round.tierer import TiererOptions


@pytest.mark.parametrize(("text", "expected"), [("1 min", 60_000), ("2 h", 7_200_000), ("0", 0), ("0 s", 0)])
def test_it_is_a_duration_and_zero_is_never(text: str, expected: int) -> None:
    assert read_stalled_after(text) == expected


def test_the_default_is_that_of_a_tierer() -> None:
    assert read_stalled_after(DEFAULT_STALLED_AFTER) == TiererOptions.stalled_after_ms


@pytest.mark.parametrize("text", ["59 s", "1", "soon"])
def test_a_busy_round_is_not_given_up_by_mistake(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--stalled-after") as refused:
        read_stalled_after(text)
    assert refused.value.hint


def test_the_tierer_of_lakeward_up_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []

    async def start(*command: str, **_: Any) -> None:
        commands.append(command)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    (tmp_path / "logs").mkdir()
    settings = UpSettings(ServiceOptions(tmp_path), options.TiererOptions("local", stalled_after="90 s"))
    asyncio.run(up._start_tierer(settings, "127.0.0.1:1"))
    [command] = commands
    assert read_stalled_after(command[command.index("--stalled-after") + 1]) == 90_000
