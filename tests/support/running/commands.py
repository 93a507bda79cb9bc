"""`lakeward` commands in tests: how one ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """What a command printed and how it ended."""

    status: int
    out: str
    err: str


Lakeward = Callable[..., Ended]
"""Runs one with these words."""
