"""The questions of `sys_query.py`, to a plain coordinator and to one behind TLS, tokens and policies, in turn; `--secured` runs it.

Both know the same tables. Each is asked through a session of its own of one Spark, and straight, to the last byte; every other time in the
opposite order (A B, B A), so that neither has the warmer machine. Medians.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from running.secured_service import overhead

TARGET_PERCENT = 10.0

Readers = Mapping[str, Callable[[], object]]


@dataclass(frozen=True)
class SecuredFigures:
    """Milliseconds of one question, through Spark (`sys`) and straight from the service; what TLS, token and policies add, in percent."""

    tables: int
    question: str
    sys_plain_ms: float
    sys_secured_ms: float
    server_plain_ms: float
    server_secured_ms: float

    @property
    def sys_overhead(self) -> float:
        return overhead(self.sys_plain_ms, self.sys_secured_ms)

    @property
    def server_overhead(self) -> float:
        return overhead(self.server_plain_ms, self.server_secured_ms)


def in_pairs(readers: Readers, times: int, in_turn: Callable[[dict[str, Callable[[], object]]], dict[str, float]]) -> dict[str, float]:
    """Medians of each reader; `in_turn` asks them one after the other."""
    forward, backward = dict(readers), dict(reversed(readers.items()))
    runs = [in_turn(backward if number % 2 else forward) for number in range(times)]
    return {name: statistics.median(run[name] for run in runs) for name in readers}
