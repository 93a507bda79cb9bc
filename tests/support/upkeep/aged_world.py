"""A deployment in this process whose lake files are old enough for every rule of upkeep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support.lake_kinds.kinds import LakeKind
from support.worlds.lake_world import LakeWorld
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.opening import warehouse_folder


class AgedWorld(LakeWorld):
    """The world's clock is two days ahead, because files have the machine's time. Snapshots of Paimon tables have the clock's time."""

    def __init__(self, folder: Path, kind: LakeKind) -> None:
        super().__init__(folder, kind=kind)
        self.clock.wall = datetime.now(UTC) + timedelta(days=2)

    def _open_lake(self) -> Any:
        if self.lake_format == "paimon":
            return PaimonLake(warehouse_folder(self.lake_properties), clock=self.clock)
        return super()._open_lake()
