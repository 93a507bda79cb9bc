"""The kinds of lake tables that stories, crashes and simulations are told of: each format in each of its layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tiering.lake.layouts import Layout
from tiering.lake.table_options import LAYOUT


@dataclass(frozen=True)
class LakeKind:
    """A format, and how its tables lay out rows."""

    format: str
    layout: Layout

    @property
    def options(self) -> Mapping[str, str]:
        """Options of a source table whose lake table is of this kind."""
        return {"table.datalake.format": self.format, LAYOUT.name: self.layout.value}

    @property
    def name(self) -> str:
        return f"{self.format}-{self.layout.value}"


ICEBERG = LakeKind("iceberg", Layout.SYSTEM_COLUMNS)
ICEBERG_CLEAN = LakeKind("iceberg", Layout.CLEAN)
PAIMON = LakeKind("paimon", Layout.SYSTEM_COLUMNS)
PAIMON_CLEAN = LakeKind("paimon", Layout.CLEAN)

LAKE_KINDS = (ICEBERG, ICEBERG_CLEAN, PAIMON, PAIMON_CLEAN)
"""All that are tiered to."""


def in_lakes(*kinds: LakeKind) -> pytest.MarkDecorator:
    """Runs a test whose fixture `world` has a lake of each kind with these kinds alone."""
    return pytest.mark.parametrize("world", kinds, ids=lambda kind: kind.name, indirect=True)
