"""Upkeep in stories: rounds merge any two files, snapshots expire early, and users ask for upkeep rounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from support.worlds.stories.rounds import RoundSteps
from tiering.coordinator.decisions.upkeep import requests
from tiering.lake import table_options
from tiering.lake.rules.upkeep import small_files
from tiering.model.upkeep import UpkeepOrder


@contextmanager
def upkeep_often() -> Iterator[None]:
    """Else stories are too short for it."""
    with (
        patch.object(small_files, "SMALL_FILES", 1),
        patch.object(table_options, "LEAST_MAX_AGE_MS", 0),
        patch("tiering.lake.iceberg.commit.upkeep.PAUSE_MS", 0),
    ):
        yield


class UpkeepSteps(RoundSteps):
    """Rounds that rewrite files, at times all of them."""

    def upkeep(self) -> str | None:
        """Requests a rewrite of files. A tierer does it when no table is due, or after the due tables."""
        order = UpkeepOrder(full=self.rng.random() < 0.5, manifests=self.rng.random() < 0.3)
        records = self.world.coordinator.table_records
        tiered = sorted((record for record in records.live() if record.lake.table_uuid is not None), key=lambda record: record.path)
        if not tiered:
            return None
        chosen = self.rng.choice(tiered)
        with records.changing():
            called = requests.request(records.context("ann"), chosen, order, "rewrite_data_files")
            records.put(called.change)
        taken = self.begin()
        if taken is None:
            return f"{chosen.path} waits"
        return self.end(taken)
