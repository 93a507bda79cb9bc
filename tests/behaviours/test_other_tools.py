"""Other tools change the lake table between any two steps of rounds that merge, expire and sweep: nothing is lost, doubled or stuck."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.depth import examples
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, PAIMON, PAIMON_CLEAN, LakeKind
from support.lakes.foreign import maintenance
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.validated import check, faults
from tiering.cluster.log_writer import LogWriter
from tiering.coordinator.calls.sweep_lake import sweep_lake
from tiering.lake.rules.upkeep import small_files
from tiering.lake.table_options import SNAPSHOT_MAX_AGE, SNAPSHOT_MIN_COUNT
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo, TableType
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder
from tiering.procedures.sweep_lake import SweepLake
from tiering.round.steps import actions as act

EXAMPLES = examples(3)
STEPS = 12
"""Upper bound of the actions of a round; what is drawn for a later one is not done."""
TRIES = 4
"""Rounds after which a table that is not stuck has tiered."""
BACKOFF_S = 301
REQUESTS = ("answered", "answer lost", "request lost")

PAIMON_ACTIONS = ("compact", "expire")
SWEEP = "sweep of ours"

drawn = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES < 100,
    phases=[Phase.generate],  # an example takes seconds: what fails is not made smaller
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds merge whatever they may, nearly every time."""
    monkeypatch.setattr(small_files, "SMALL_FILES", 2)


@dataclass
class Story:
    """One table, the rows that it must have, and what is done to it."""

    world: LakeWorld
    table: TableInfo
    rows: dict[int, str] = field(default_factory=dict)
    rounds: int = 0

    def write(self) -> None:
        """Rows with new ids; in a primary-key table some have ids of former rows."""
        number, self.rounds = self.rounds, self.rounds + 1
        begin = 6 * number - (2 if number and self.is_keyed else 0)
        ids = range(begin, begin + 8)
        texts = [f"row {key} of {number}" for key in ids]
        writer = LogWriter(self.world.storage, self.table.path, f"story-{number}")
        rows = pa.table({"id": ids, "text": texts}, schema=self.table.schema)
        (writer.upsert if self.is_keyed else writer.append)(rows)
        self.rows.update(zip(ids, texts, strict=True) if self.is_keyed else ((8 * number + i, text) for i, text in enumerate(texts)))

    @property
    def is_keyed(self) -> bool:
        return self.table.table_type is TableType.PRIMARY_KEY

    def tier(self, between: Mapping[int, Sequence[str]], request: str = "answered", order: UpkeepOrder | None = None) -> act.RoundOutcome:
        """A round before whose step of a number what `between` has is done; its first request goes as `request` says.

        With an `order` it is an upkeep round.
        """
        self.world.due()
        stepped, number = self.world.begin(self.table, upkeep=order), 0
        while not isinstance(stepped.runner.next_action, act.End):
            for name in between.get(number, ()):
                self.act(name)
            number += 1
            if isinstance(stepped.runner.next_action, act.CommitLake) and request != "answered":
                with troubled_catalog(self.world, lands=request == "answer lost"):
                    stepped.runner.advance()
                request = "answered"
            else:
                stepped.runner.advance()
        return stepped.end()

    def act(self, name: str) -> None:
        """Changes the lake table as another tool does beside the rounds. Nothing happens before there is a lake table."""
        if self.world.lake.view(self.table.path) is None:
            return
        if name == SWEEP:
            sweep_lake(self.world.coordinator.call_parts, SweepLake(self.table.path, 0, caller="ann"))
            self.world.clock.advance(1)
        elif name == "compact":
            if self.world.by_hand.snapshots(self.table.path):
                self.world.by_hand.rewrite(self.table.path)
        elif name == "expire":
            if self.world.by_hand.snapshots(self.table.path):
                self.world.by_hand.expire_unkept(self.table.path)
        else:
            maintenance.ALL[name](self.world, self.table)

    def settled(self) -> None:
        """The table tiers within some rounds, whatever went wrong before, and the lake has each row once."""
        for _ in range(TRIES):
            record = self.world.record(self.table)
            assert not (record.state == "Failed" and record.retry_deadline is None), record.last_error
            self.world.clock.advance(BACKOFF_S)
            if self.tier({}).state in (RoundState.SUCCEEDED, RoundState.EMPTY):
                break
        else:
            raise AssertionError(f"the table does not tier: {self.world.record(self.table).last_error}")
        rows = self.world.by_hand.rows(self.table.path)
        assert sorted(rows["text"].to_pylist()) == sorted(self.rows.values())
        assert not faults(check(self.world, self.table))


@contextmanager
def troubled_catalog(world: LakeWorld, *, lands: bool) -> Iterator[None]:
    """The next commit request to an Iceberg catalog raises an error, after it has landed or instead."""
    catalog: Any = world.lake._open() if world.lake_format == "iceberg" else None
    if catalog is None:
        yield
        return
    commit = catalog.commit_table

    def commit_table(*arguments: Any) -> None:
        if lands:
            commit(*arguments)
        raise TimeoutError("no answer")

    catalog.commit_table = commit_table
    try:
        yield
    finally:
        del catalog.commit_table


@contextmanager
def story(kind: LakeKind, table_type: TableType) -> Iterator[Story]:
    with TemporaryDirectory() as folder:
        world = LakeWorld(Path(folder), kind=kind)
        world.clock.wall = datetime.now(UTC) + timedelta(days=2)  # files carry the machine's time
        try:
            table = world.table("orders") if table_type is TableType.LOG else world.primary_key_table("orders", schema=PRIMARY_KEY_SCHEMA)
            world.storage.set_table_option(table.path, SNAPSHOT_MIN_COUNT.name, "1")
            world.storage.set_table_option(table.path, SNAPSHOT_MAX_AGE.name, "1 min")
            yield Story(world, table)
        finally:
            world.close()


ORDERS = (None, UpkeepOrder(), UpkeepOrder(full=True, manifests=True, expiry=ExpiryOrder(retain_last=1)))
"""Orders of a tiering round, of an upkeep round, and of one with all that a caller may request."""


def disturbances(actions: Sequence[str]) -> st.SearchStrategy[Any]:
    """Disturbances of a round: the change before each step, the fate of its first request, and its order."""
    between = st.dictionaries(st.integers(0, STEPS), st.lists(st.sampled_from(actions), min_size=1, max_size=2), max_size=3)
    return st.tuples(between, st.sampled_from(REQUESTS), st.sampled_from(ORDERS))


def play(kind: LakeKind, table_type: TableType, rounds: Sequence[tuple[Mapping[int, Sequence[str]], str, UpkeepOrder | None]]) -> None:
    with story(kind, table_type) as played:
        for _ in range(4):
            played.write()
            played.settled()
        for between, request, order in rounds:
            if order is None:
                played.write()
            played.tier(between, request, order)
            if order is not None:
                played.write()
            played.settled()


@pytest.mark.parametrize("table_type", TableType, ids=lambda table_type: table_type.value.lower())
@pytest.mark.parametrize("kind", [ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name)
@drawn
@given(rounds=st.lists(disturbances((*maintenance.ALL, SWEEP)), min_size=3, max_size=3))
def test_icebergs_procedures_at_any_moment(kind: LakeKind, table_type: TableType, rounds: Sequence[Any]) -> None:
    play(kind, table_type, rounds)


@pytest.mark.parametrize("table_type", TableType, ids=lambda table_type: table_type.value.lower())
@pytest.mark.parametrize("kind", [PAIMON, PAIMON_CLEAN], ids=lambda kind: kind.name)
@drawn
@given(rounds=st.lists(disturbances((*PAIMON_ACTIONS, SWEEP)), min_size=3, max_size=3))
def test_paimons_compaction_and_expiry_at_any_moment(kind: LakeKind, table_type: TableType, rounds: Sequence[Any]) -> None:
    play(kind, table_type, rounds)
