"""Fixtures that the tests of the service share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

_PATIENCE_S = 60


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs the coroutine of a test; one that hangs fails."""

    def to_its_end(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(asyncio.wait_for(work, _PATIENCE_S))

    return to_its_end
