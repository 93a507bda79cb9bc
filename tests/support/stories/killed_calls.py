"""A coordinator that dies in the middle of a call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.worlds.lake_world import LakeWorld
from tiering import crash_points
from tiering.library_guards.panics import UnexpectedEnd


class Killed(BaseException):
    """Passes every handler, as the end of the process does."""


def killed(world: LakeWorld, monkeypatch: pytest.MonkeyPatch, point: str, call: Callable[[], object]) -> None:
    """The coordinator dies in the call at `point`, and another one takes over."""

    def kill(reached: str) -> None:
        if reached == point:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(crash_points, "reach", kill)
        with pytest.raises(UnexpectedEnd, match="Killed"):
            call()
    world.restart()
