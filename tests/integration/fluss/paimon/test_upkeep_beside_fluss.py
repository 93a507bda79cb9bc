"""Upkeep rounds of Lakeward meet rounds of Fluss's own tiering, which compacts the lake table, too. Readers see the rows of the log."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fluss_paimon.flink_tiering import FlinkTiering
from support.fluss_paimon.paimon_lake_world import PaimonLakeWorld
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, SteppedRound
from support.worlds.validated import check, faults
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.model.rounds import RoundState
from tiering.model.tables import TableType
from tiering.model.upkeep import UpkeepOrder, UpkeepStats
from tiering.round.steps import actions as act

FULL = UpkeepOrder(full=True)
KEYS = 40


@pytest.fixture
def world(fluss_on_paimon: LocalFlussCluster, flink: FlinkTiering, tmp_path: Path) -> Iterator[PaimonLakeWorld]:
    world = PaimonLakeWorld(tmp_path, fluss_on_paimon, flink)
    yield world
    world.close()


class RandomRows:
    """A table of one bucket with auto-compaction, and random rows in it: appended ones in a log table; inserts, updates and deletes of keys
    in a primary-key table."""

    def __init__(self, world: PaimonLakeWorld, kind: TableType, name: str) -> None:
        self.world = world
        is_log = kind is TableType.LOG
        description: dict[str, Any] = {"bucket_keys": ["id"]} if is_log else {}  # without a bucket key, Fluss compacts no log table
        options = {"table.datalake.auto-compaction": "true"}
        self.table = world.create(f"{name}_{kind.value.lower()}", PRIMARY_KEY_SCHEMA, () if is_log else ("id",), options, **description)
        self.texts: dict[int, str] = {}
        """The rows of the table by id. In a log table the id is the offset."""
        self._rng, self._versions = random.Random(name), itertools.count()

    def write(self) -> None:
        if not self.table.primary_key:
            first, count = len(self.texts), self._rng.randint(5, 12)
            self.world.append(self.table, first, count)
            self.texts |= {number: f"row {number}" for number in range(first, first + count)}
            return
        version, changed = f"version {next(self._versions)} of", self._rng.sample(range(KEYS), 8)
        self.world.upsert(self.table, changed, version)
        self.texts |= {key: f"{version} {key}" for key in changed}
        deleted = self._rng.sample(sorted(self.texts), 3)
        self.world.delete(self.table, deleted)
        for key in deleted:
            del self.texts[key]

    def tier(self, rounds: int = 1) -> None:
        """Rounds of Lakeward with new rows each."""
        for _ in range(rounds):
            self.write()
            self.world.tier_whole(self.table)

    def tier_by_fluss(self) -> None:
        """A round of Fluss's own tiering with new rows."""
        self.write()
        self.world.flink(self.table).whole()

    def upkeep(self) -> act.RoundOutcome:
        self.world.due()
        return self.end(self.world.begin(self.table, upkeep=FULL))

    def end(self, stepped: SteppedRound) -> act.RoundOutcome:
        """The outcome of the round; Fluss may assign the table to its own tiering afterwards."""
        outcome, relay = stepped.end(), self.world.coordinator.relay
        assert relay is not None
        self.world.beat(stopping=True)
        relay.run_quietly()
        return outcome

    @property
    def newest_commits(self) -> list[tuple[str, bool]]:
        """The last two snapshots: the kind of commit, and whether it is one of Lakeward."""
        snapshots = self.world.folder_of(self.table).snapshots()[-2:]
        return [(snapshot["commitKind"], "lakeward.round-id" in snapshot["properties"]) for snapshot in snapshots]

    def assert_right(self) -> None:
        """pypaimon, Fluss's reader and the validation agree with the rows that were written, and Fluss's record with the lake."""
        rows = self.world.rows(self.table)
        assert {row["id"]: row["text"] for row in rows} == self.texts
        assert len(rows) == len(self.texts)
        assert self.world.read_by_fluss(self.table) == sorted((str(key), text) for key, text in self.texts.items())
        assert faults(check(self.world, self.table)) == []
        self.world.assert_told(self.table)


def done(outcome: act.RoundOutcome) -> UpkeepStats:
    assert outcome.state is RoundState.SUCCEEDED, outcome.error
    assert outcome.stats.upkeep is not None
    return outcome.stats.upkeep


def test_an_upkeep_round_drops_its_work_if_a_round_of_fluss_compacts_the_files_first(world: PaimonLakeWorld) -> None:
    rows = RandomRows(world, TableType.LOG, "compacted_first")
    rows.tier(4)
    world.due()
    upkeep = world.begin(rows.table, upkeep=FULL).advance_to(act.CommitLake)
    rows.write()
    world.flink(rows.table).plan().check().prepare().append().tell()
    assert rows.newest_commits == [("APPEND", False), ("COMPACT", False)]
    outcome = rows.end(upkeep)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == ("Fenced", True)
    assert rows.newest_commits == [("APPEND", False), ("COMPACT", False)]
    rows.assert_right()
    rows.tier(2)
    stats = done(rows.upkeep())
    assert (stats.files_before, stats.files_after) == (2, 1)
    rows.assert_right()
    rows.tier_by_fluss()
    rows.assert_right()


def test_an_upkeep_round_keeps_the_order_of_the_rows_beside_a_file_of_fluss(world: PaimonLakeWorld, flink: FlinkTiering) -> None:
    """A reader of a bucket takes its files by sequence number."""
    rows = RandomRows(world, TableType.LOG, "in_order")
    rows.tier(2)
    rows.tier_by_fluss()
    rows.tier(3)
    assert rows.upkeep().error is None
    rows.assert_right()
    flink.plan(world.written, rows.table)
    offsets = [int(row[0]) for row in flink.read(world.folder_of(rows.table).snapshots()[-1]["id"])]
    assert offsets == list(range(len(rows.texts)))
