"""Random stories of a primary-key table against a dict: state, changelog and every snapshot with the log after it say the same."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from support.clusters.changelog import rows_of
from support.clusters.embedded import PATH, ManualClock, cities, make_table, order_ids, scan
from support.depth import examples
from tiering.cluster.embedded.kv.snapshot_files import StoredSnapshot
from tiering.cluster.embedded.kv.state import KvState, remove_state, state_file
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.lease_rules import MAX_TTL_MS
from tiering.model.leases import KvSnapshot
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import BucketKey, BucketOffsets, TableBucket

Rows = dict[int, str | None]
KEYS = st.integers(0, 12)
ROWS = st.lists(st.tuples(KEYS, st.none() | st.sampled_from("abc")), min_size=1, max_size=8)


class PrimaryKeyTable(RuleBasedStateMachine):
    """One table in two buckets; the story may be interrupted by restarts, lost states and cuts of the log at any place."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="primary-key-")
        self.root = Path(self.folder.name)
        self.clock = ManualClock()
        self.storage = EmbeddedStorage(self.root, self.clock)
        options = {"table.log.ttl": "1 min", "table.kv.snapshot.interval": "365 d"}
        self.table = make_table(self.storage, bucket_count=2, primary_key=("id",), properties=options)
        self.rows: Rows = {}
        self.writes = 0
        self.leased: dict[BucketKey, KvSnapshot] = {}

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
        taken = self.storage.take_kv_snapshots(PATH)
        read_rows: Rows = {}
        for bucket, snapshot in taken.items():
            read_rows |= self._read(bucket, snapshot)
        assert read_rows == self.rows

    @rule()
    def lease(self) -> None:
        """The newest snapshots, instead of those leased before."""
        newest = self.storage.kv_snapshots(self.table)
        wanted = {TableBucket(self.table.table_id, bucket): snapshot.snapshot_id for bucket, snapshot in newest.items()}
        if wanted:
            assert self.storage.acquire_lease("story", MAX_TTL_MS, wanted) == []
            self.leased = dict(newest)

    @rule()
    def drop_the_lease(self) -> None:
        assert self.storage.drop_lease("story") == bool(self.leased)
        self.leased = {}

    @rule(lose_state=st.booleans())
    def restart(self, lose_state: bool) -> None:
        self.storage.close()
        if lose_state:
            remove_state(state_file(self.root, self.table.table_id))
        self.storage = EmbeddedStorage(self.root, self.clock)

    @rule()
    def cut_the_log(self) -> None:
        self.clock.advance(120)
        self.storage.maintenance.run()

    @invariant()
    def all_agree(self) -> None:
        if not hasattr(self, "storage"):
            return
        assert self._state() == self.rows
        replayed: Rows = {}
        for bucket, ends in self.storage.offsets(self.table).items():
            kept = [KvSnapshot(stored.snapshot_id, stored.log_offset) for stored in self._snapshots(bucket)]
            assert bucket not in self.leased or self.leased[bucket] in kept
            read_rows = [self._replayed(bucket, self._read(bucket, snapshot), snapshot.log_offset, ends) for snapshot in kept]
            if ends.log_start == 0:
                read_rows.append(self._replayed(bucket, {}, 0, ends))
            assert all(rows == read_rows[0] for rows in read_rows)
            replayed |= read_rows[0]
        assert replayed == self.rows

    def _replayed(self, bucket: BucketKey, base: Rows, start: int, ends: BucketOffsets) -> Rows:
        return rows_of(scan(self.storage, self.table, bucket, start, ends.log_end), base.items())

    def _snapshots(self, bucket: BucketKey) -> Sequence[StoredSnapshot]:
        return self.storage.primary_key_tables._snapshots(self.table.table_id, bucket)

    def _read(self, bucket: BucketKey, snapshot: KvSnapshot) -> Rows:
        split = TieringSnapshotSplit(PATH, bucket, None, snapshot.snapshot_id, snapshot.log_offset, snapshot.log_offset)
        rows: Rows = {}
        for batch in self.storage.reader(self.table, split).read():
            rows.update(zip(batch["id"].to_pylist(), batch["city"].to_pylist(), strict=True))
        return rows

    def _state(self) -> Rows:
        read_rows: Rows = {}

        def read(kv: KvState) -> None:
            for bucket in self.storage.offsets(self.table):
                for batch in kv.rows(bucket):
                    read_rows.update(zip(*batch.to_pydict().values(), strict=True))

        with self.storage.primary_key_tables.exclusive(self.table.table_id):
            self.storage.primary_key_tables._using(self.table, read)
        return read_rows


PrimaryKeyTable.TestCase.settings = settings(
    max_examples=examples(8), stateful_step_count=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
TestPrimaryKeyTable = PrimaryKeyTable.TestCase
