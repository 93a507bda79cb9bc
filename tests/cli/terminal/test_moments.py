"""Moments as people write them behind an option."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tiering.cli.terminal.options import parse_end
from tiering.errors import InvalidArgument


def test_an_end_is_a_moment_or_a_time_from_now() -> None:
    assert parse_end(None, "--until") is None
    assert parse_end("2026-03-01T08:00:00", "--until") == datetime(2026, 3, 1, 8, tzinfo=UTC)
    before = datetime.now(UTC)
    end = parse_end("2 h", "--until")
    assert end is not None
    assert before <= end - timedelta(hours=2) <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["soon", "", "2 parsecs"])
def test_what_is_neither_is_refused_with_an_example_of_both(text: str) -> None:
    with pytest.raises(InvalidArgument, match="neither a time nor a duration") as refused:
        parse_end(text, "--until")
    assert "2026-03-01T08:00:00Z" in refused.value.hint
    assert "'2 h'" in refused.value.hint
