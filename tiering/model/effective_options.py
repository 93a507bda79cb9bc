"""An option that is in effect, as `sys.options` shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EffectiveOption:
    """An option. `value` is None if only a running coordinator knows it. `source` tells whether a user set the option."""

    scope: str
    name: str
    value: str | None
    default: str | None
    source: str | None
    description: str
