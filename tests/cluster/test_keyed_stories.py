"""Random stories of a primary-key table against a dict: state, changelog and every snapshot with the log after it say the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from support.embedded import PATH, ManualClock, cities, make_table, order_ids, scan
from support.keyed import rows_of
from tiering.cluster.embedded.kv_state import KvState, remove_state, state_file
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.model import BucketKey, KvSnapshot, TieringSnapshotSplit

Rows = dict[int, str | None]
KEYS = st.integers(0, 12)
ROWS = st.lists(st.tuples(KEYS, st.none() | st.sampled_from("abc")), min_size=1, max_size=8)


class KeyedTable(RuleBasedStateMachine):
    """One table in two buckets; the story may be interrupted by restarts, lost states and cuts of the log at any place."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="keyed-")
        self.root = Path(self.folder.name)
        self.clock = ManualClock()
        self.storage = EmbeddedStorage(self.root, self.clock)
        options = {"table.log.ttl": "1 min", "table.kv.snapshot.interval": "365 d"}
        self.table = make_table(self.storage, bucket_count=2, primary_key=("id",), properties=options)
        self.rows: Rows = {}
        self.writes = 0

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            self.storage.close()
            self.folder.cleanup()

    @rule(rows=ROWS, twice=st.booleans())
    def upsert(self, rows: list[tuple[int, str | None]], twice: bool) -> None:
        for _ in range(1 + twice):
            self.storage.upsert(PATH, cities(*rows), "writer", self.writes)
        self.writes += 1
        self.rows |= dict(rows)

    @rule(keys=st.lists(KEYS, min_size=1, max_size=8))
    def delete(self, keys: list[int]) -> None:
        self.storage.delete(PATH, order_ids(*keys), "writer", self.writes)
        self.writes += 1
        self.rows = {key: city for key, city in self.rows.items() if key not in keys}

    @rule()
    def snapshot(self) -> None:
        taken = self.storage.snapshot_kv(PATH)
        found: Rows = {}
        for bucket, snapshot in taken.items():
            found |= self._read(bucket, snapshot)
        assert found == self.rows

    @rule(lose_state=st.booleans())
    def restart(self, lose_state: bool) -> None:
        self.storage.close()
        if lose_state:
            remove_state(state_file(self.root, self.table.table_id))
        self.storage = EmbeddedStorage(self.root, self.clock)

    @rule()
    def cut_the_log(self) -> None:
        self.clock.advance(120)
        self.storage.upkeep.run()

    @invariant()
    def all_agree(self) -> None:
        if not hasattr(self, "storage"):
            return
        assert self._state() == self.rows
        snapshots = self.storage.kv_snapshots(self.table)
        replayed: Rows = {}
        for bucket, ends in self.storage.offsets(self.table).items():
            base = self._read(bucket, snapshots[bucket]) if bucket in snapshots else {}
            start = snapshots[bucket].log_offset if bucket in snapshots else 0
            assert ends.log_start <= start
            replayed |= rows_of(scan(self.storage, self.table, bucket, start, ends.log_end), base.items())
        assert replayed == self.rows

    def _read(self, bucket: BucketKey, snapshot: KvSnapshot) -> Rows:
        split = TieringSnapshotSplit(PATH, bucket, None, snapshot.snapshot_id, snapshot.log_offset, snapshot.log_offset)
        rows: Rows = {}
        for batch in self.storage.reader(self.table, split).read():
            rows.update(zip(batch["id"].to_pylist(), batch["city"].to_pylist(), strict=True))
        return rows

    def _state(self) -> Rows:
        found: Rows = {}

        def read(kv: KvState) -> None:
            for bucket in self.storage.offsets(self.table):
                for batch in kv.rows(bucket):
                    found.update(zip(*batch.to_pydict().values(), strict=True))

        with self.storage.keyed.exclusive(self.table.table_id):
            self.storage.keyed._using(self.table, read)
        return found


KeyedTable.TestCase.settings = settings(
    max_examples=8, stateful_step_count=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
TestKeyedTable = KeyedTable.TestCase
