"""Sparklines: the last values of a number as one line of blocks, or of ASCII characters. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions
from rich.text import Text

from tiering.round_history import Round, rows_per_second, waits

CELLS = 12
"""Most values of a sparkline: the last ones."""
BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.,-=+*#"
TOO_HIGH = "!"
"""ASCII character of a value above the limit. Blocks show it in red."""


def levels_for(console: Console, options: ConsoleOptions) -> str:
    """Returns the characters of a sparkline, the lowest first: ASCII if the terminal cannot show blocks or shows no colours."""
    plain = options.ascii_only or console.no_color or console.is_dumb_terminal
    return ASCII if plain else BLOCKS


def lag_sparkline(rounds: Sequence[Round], freshness_ms: int, levels: str) -> Text:
    """Returns the lags at which the last rounds brought the rows, as shares of the promise. A lag above the promise is marked."""
    return _sparkline([wait.lag_ms for wait in waits(rounds, freshness_ms)[-CELLS:]], freshness_ms, levels)


def throughput_sparkline(rounds: Sequence[Round], levels: str) -> Text:
    """Returns the rows per second of the last rounds, as shares of the highest one of them."""
    values = rows_per_second(rounds)[-CELLS:]
    return _sparkline(values, max(values, default=0), levels)


def _sparkline(values: Sequence[float], limit: float, levels: str) -> Text:
    text = Text()
    for value in values:
        if value > limit:
            text.append(TOO_HIGH if levels is ASCII else levels[-1], style="red")
        else:
            text.append(levels[min(int(value / limit * len(levels)), len(levels) - 1)] if limit else levels[0])
    return text
