"""`lakeward` commands in tests: how one ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """The output and the exit status of a command."""

    status: int
    out: str
    err: str


Lakeward = Callable[..., Ended]
"""Runs one with these words."""
