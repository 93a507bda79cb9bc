"""Primary-key tables of a real Fluss cluster with every merge engine, changelog image and way to delete: each is tiered, and proved.

Random changes come between rounds, some of which are fenced, lose their ack or have no time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from support.behaviours.backends import FLUSS, FlussBackend, fluss_backend
from support.behaviours.merging_table import DATABASE, ENGINES, KEYS, MergeEngine, MergingTable, Write
from support.depth import SOAKS, soaked
from support.lake_kinds.kinds import LAKE_KINDS, PAIMON, LakeKind
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.lake.layouts import Layout
from tiering.model.rounds import RoundState

ROUNDS = 20 if SOAKS else 5
LOG, KV_SNAPSHOTS = "log", "KV snapshots"
"""Sources of the first round of a table."""


def cases() -> Iterator[object]:
    """Every engine with every kind of lake table and both starts. CI tries one kind of each format with an engine, in turns."""
    for number, engine in enumerate(ENGINES):
        for kind in LAKE_KINDS:
            turn = number + (kind.format == PAIMON.format)
            for start in (LOG, KV_SNAPSHOTS):
                is_layouts_turn = (kind.layout is Layout.CLEAN) == bool(turn % 2)
                is_starts_turn = (start is LOG) == bool((number // 2 + turn - number) % 2)
                yield soaked((engine, kind, start), is_layouts_turn and is_starts_turn)


def case_id(value: object) -> str:
    return value if isinstance(value, str) else str(getattr(value, "name", value))


@pytest.fixture(scope="module")
def backend(fluss: LocalFlussCluster) -> Iterator[FlussBackend]:
    with fluss_backend(FLUSS, fluss.bootstrap_servers, stories=1) as backend:
        yield backend
        backend.forget(DATABASE)


class Story:
    """Writes of one client to a table, and rounds."""

    def __init__(self, table: MergingTable, rng: random.Random) -> None:
        self.table, self._rng = table, rng

    def write(self) -> None:
        """Two to four writes of some changes each, so that a batch has several changes of a key."""
        for _ in range(self._rng.randint(2, 4)):
            self.table.write([self._change() for _ in range(self._rng.randint(1, 8))])

    def _change(self) -> Write:
        rng, columns = self._rng, self.table.engine.columns(self._rng)
        verb = "delete" if self.table.engine.may_delete and rng.random() < 0.25 else "upsert"
        values = {
            "id": rng.choice(KEYS),
            "version": rng.randrange(20),
            "text": rng.choice((None, "", "a", "b", "é")),
            "amount": rng.choice((None, *range(5))),
        }
        named = ["id"] if verb == "delete" else columns or values
        return Write(verb, columns, {name: values[name] for name in named})

    def round(self) -> None:
        """Rounds until all is tiered. Before the last one, there may be one that is fenced, loses its ack or has no time, and a restart."""
        how = self._rng.choice(({}, {}, {"refuse_fence": True}, {"lose_ack": True}, {"max_duration_ms": 0}))
        if how:
            self.table.run_round(**how)
            self.table.restart()
        outcome = self.table.run_round()
        assert outcome.state in (RoundState.SUCCEEDED, RoundState.EMPTY), outcome.error


@pytest.mark.parametrize(("engine", "kind", "start"), [*cases()], ids=case_id)
def test_the_lake_has_the_rows_of_the_tablet_servers(
    backend: FlussBackend, tmp_path: Path, engine: MergeEngine, kind: LakeKind, start: str
) -> None:
    table = MergingTable(tmp_path, backend.with_lake_of(kind), engine)
    try:
        story = Story(table, random.Random(None if SOAKS else crc32(f"{engine.name}, {kind.name}, {start}".encode())))
        story.write()
        if start is KV_SNAPSHOTS:
            table.show_kv_snapshots()
        for _ in range(ROUNDS):
            story.write()
            story.round()
            table.prove()
    finally:
        table.close()
