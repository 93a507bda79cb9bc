"""An option that is in force, as `sys.options` shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EffectiveOption:
    """`value` is None where only a running coordinator knows it; `source` says whether somebody set it."""

    scope: str
    name: str
    value: str | None
    default: str | None
    source: str | None
    description: str
