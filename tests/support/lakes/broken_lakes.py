"""Lake tables that no round may build on, each broken for real, and the source table that tells which rows should be there."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.table.update import RemoveSnapshotRefUpdate

from support.background import tick
from support.worlds.lake_world import LakeWorld
from tiering.cluster.log_writer import LogWriter
from tiering.lake.base import FLUSS_COMMIT_USER, Committable
from tiering.lake.iceberg.reading.view import TAG
from tiering.lake.marker import PLAIN_KEY, ROUND_ID_KEY, Marker
from tiering.model.rounds import RoundState
from tiering.round.steps import actions as act

COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False), pa.field("text", pa.string())]
)
LOG_TTL_S = 3_600
OFTEN = "365 d"
"""KV snapshots are taken by hand."""


class Source:
    """A table of one kind, written by `write` only."""

    def __init__(self, world: LakeWorld, has_primary_key: bool, partitioned: bool) -> None:
        self.world, self.has_primary_key, self.partitioned = world, has_primary_key, partitioned
        self._writes = 0
        self.create()

    def create(self) -> None:
        """The table, empty."""
        partition_keys = ("region",) if self.partitioned else ()
        self.logged: list[int] = []
        self.rows: dict[int, str] = {}
        self.foreign: set[int] = set()
        if self.has_primary_key:
            key = (*partition_keys, "id")
            options = {"log_ttl": f"{LOG_TTL_S} s", "kv_snapshot_interval": OFTEN}
            self.info = self.world.primary_key_table("orders", 2, COLUMNS, key, partition_keys, **options)
        else:
            self.info = self.world.table("orders", 2, partition_keys, COLUMNS, log_ttl=f"{LOG_TTL_S} s")

    def write(self) -> None:
        """Twelve new rows; of a primary-key table then three updates and a deletion of older ones, too."""
        self._writes += 1
        writer = LogWriter(self.world.storage, self.info.path, f"writer-{self._writes}")
        fresh = range(self._writes * 100, self._writes * 100 + 12)
        text = f"write {self._writes}"
        if not self.has_primary_key:
            for half in (fresh[:6], fresh[6:]):
                writer.append(self._table(half, text))
            self.logged += fresh
            self.rows |= dict.fromkeys(fresh, text)
            return
        older = sorted(self.rows)[:4]
        writer.upsert(self._table([*fresh, *older[:3]], text))
        self.rows |= dict.fromkeys([*fresh, *older[:3]], text)
        if older:
            writer.delete(self._table(older[3:], None).drop_columns(["text"] if self.partitioned else ["text", "region"]))
            del self.rows[older[3]]

    def _table(self, ids: Collection[int], text: str | None) -> pa.Table:
        columns = {"id": list(ids), "region": ["eu" if row_id % 2 else "us" for row_id in ids], "text": [text] * len(ids)}
        return pa.table(columns, schema=COLUMNS)

    def tier(self) -> act.RoundOutcome:
        return self.world.tier(self.info)

    def in_lake(self) -> list[tuple[int, str]]:
        """Rows that readers see, without rows of other writers."""
        rows = self.world.by_hand.rows(self.info.path)
        pairs = zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True)
        return sorted(pair for pair in pairs if pair[0] not in self.foreign)

    def missing(self) -> int:
        """How many rows of a log table the lake lacks; of either kind, no row comes twice, and none is there that was not written."""
        held = Counter(self.in_lake())
        assert not [row for row, count in held.items() if count > 1]
        written = Counter(self.rows.items())
        if not self.has_primary_key:
            assert not held - written
        return (written - held).total()

    def cut_log(self) -> None:
        """The log goes as far as it may; of a primary-key table a KV snapshot has the rest."""
        if self.has_primary_key:
            for _ in range(2):
                self.world.storage.take_kv_snapshots(self.info.path)
        self.world.clock.advance(LOG_TTL_S + 1)
        self.world.storage.maintenance.run()
        assert all(log.log_start > 0 for log in self.world.storage.offsets(self.info).values() if log.log_end)


def tiered(world: LakeWorld, has_primary_key: bool, partitioned: bool) -> Source:
    """Two rounds are in the lake, and more is in the log."""
    source = Source(world, has_primary_key, partitioned)
    for _ in range(2):
        source.write()
        assert source.tier().state is RoundState.SUCCEEDED
    source.write()
    return source


def _snapshots(source: Source) -> list[int]:
    return source.world.by_hand.snapshots(source.info.path)


def _compact(source: Source) -> None:
    source.world.by_hand.rewrite(source.info.path)


def _add_foreign_row(source: Source, offset: int = 9_000, **summary: str) -> None:
    """Adds a row of another writer, in the place and shape of ours."""
    row = {"id": offset, "region": "us", "text": "by hand", "__bucket": 0, "__offset": offset, "__timestamp": datetime.now(UTC)}
    source.foreign.add(offset)
    source.world.by_hand.append(source.info.path, pa.Table.from_pylist([row]), summary)


def _name_newest(source: Source) -> None:
    """The tag of an Iceberg table moves to the newest snapshot. In Paimon that is the newest tiering commit if it says so itself."""
    if source.world.lake_format == "iceberg":
        tag_removed(source)
        source.world.iceberg(source.info).manage_snapshots().create_tag(_snapshots(source)[-1], TAG).commit()


def lost(source: Source) -> None:
    source.world.by_hand.drop(source.info.path)


def renamed(source: Source) -> None:
    source.world.by_hand.rename(source.info.path, "former")


def recreated_empty(source: Source) -> None:
    lost(source)
    source.world.lake.ensure_table(source.info)


def recreated_with_its_rows(source: Source) -> None:
    rows = source.world.by_hand.rows(source.info.path)
    recreated_empty(source)
    source.world.by_hand.append(source.info.path, rows, {})


def rolled_back(source: Source) -> None:
    source.world.by_hand.roll_back(source.info.path, _snapshots(source)[0])


def rolled_back_below_a_compaction(source: Source) -> None:
    rolled_back(source)
    _compact(source)


def tag_removed(source: Source) -> None:
    source.world.iceberg(source.info).manage_snapshots().remove_tag(TAG).commit()


def tag_removed_from_an_emptied_table(source: Source) -> None:
    tag_removed(source)
    source.world.by_hand.empty(source.info.path)


def tag_moved_back(source: Source) -> None:
    tag_removed(source)
    source.world.iceberg(source.info).manage_snapshots().create_tag(_snapshots(source)[0], TAG).commit()


def tag_on_a_snapshot_without_marker(source: Source) -> None:
    _compact(source)
    _name_newest(source)


def created_or_replaced(source: Source) -> None:
    """Leaves the result of Spark's `CREATE OR REPLACE TABLE`: uuid, tag and snapshots are as before, and there is no main branch."""
    table = source.world.iceberg(source.info)
    table.catalog.commit_table(table, (), (RemoveSnapshotRefUpdate(ref_name="main"),))


def created_or_replaced_as_select(source: Source) -> None:
    """Replaces the table with `AS SELECT` of its own rows: the new main branch has no parent."""
    rows = source.world.iceberg(source.info).scan().to_arrow()
    created_or_replaced(source)
    source.world.iceberg(source.info).append(rows)


def created_or_replaced_and_the_log_cut(source: Source) -> None:
    source.tier()
    source.cut_log()
    source.write()
    created_or_replaced(source)


def created_or_replaced_as_select_and_the_log_cut(source: Source) -> None:
    source.tier()
    source.cut_log()
    source.write()
    created_or_replaced_as_select(source)


def marker_unreadable(source: Source) -> None:
    _add_foreign_row(source, **{ROUND_ID_KEY: "damaged", PLAIN_KEY: "{"})
    _name_newest(source)


def restored_from_a_backup(source: Source) -> None:
    """Head and tag are those of the first round, and nothing tells of the second."""
    first, *others = _snapshots(source)
    loaded = source.world.iceberg(source.info)
    loaded.manage_snapshots().rollback_to_snapshot(first).remove_tag(TAG).commit()
    source.world.iceberg(source.info).manage_snapshots().create_tag(first, TAG).commit()
    for snapshot in others:
        source.world.iceberg(source.info).maintenance.expire_snapshots().by_id(snapshot).commit()


def history_expired(source: Source) -> None:
    """Expires the history. The tag of an Iceberg table keeps the newest tiering commit."""
    _compact(source)
    _compact(source)
    source.world.by_hand.expire(source.info.path)
    source.world.by_hand.forget_history(source.info.path)


def history_expired_and_the_log_cut(source: Source) -> None:
    source.tier()
    source.cut_log()
    source.write()
    history_expired(source)


def markers_expired(source: Source) -> None:
    """A user compacts the table and expires all snapshots that have a marker."""
    if source.world.lake_format == "iceberg":
        tag_removed(source)
    history_expired(source)


def markers_expired_and_the_log_cut(source: Source) -> None:
    source.tier()
    source.cut_log()
    source.write()
    markers_expired(source)


def set_back_to_a_compaction_and_the_log_cut(source: Source) -> None:
    """A round came after the compaction, and the log was cut before it; the table is then what the compaction left."""
    _compact(source)
    compacted = _snapshots(source)[-1]
    source.cut_log()
    source.write()
    assert source.tier().state is RoundState.SUCCEEDED
    source.write()
    source.world.by_hand.roll_back(source.info.path, compacted)


def _another_owners(source: Source, cluster_id: str, table_id: int) -> None:
    """Another service created the lake table and tiered a round to it."""
    recreated_empty(source)
    view = source.world.lake.view(source.info.path)
    assert view is not None
    marker = Marker(cluster_id, table_id, view.table_uuid, "their-round", 1, None, {})
    committer = source.world.lake.tiering_factory(source.info).create_committer()
    committer.commit(Committable("their-round", ()), view, marker)
    _add_foreign_row(source)


def of_another_cluster(source: Source) -> None:
    _another_owners(source, "another-cluster", source.info.table_id)


def of_another_table(source: Source) -> None:
    _another_owners(source, source.world.storage.cluster_id, source.info.table_id + 100)


def source_made_anew(source: Source) -> None:
    source.world.storage.drop_table(source.info.path)
    tick(source.world.coordinator)
    source.create()
    source.write()
    tick(source.world.coordinator)


def source_made_anew_and_the_markers_gone(source: Source) -> None:
    """The rows of the former table stand there, and nothing tells whose they are."""
    source_made_anew(source)
    markers_expired(source)


def _foreign_tiering(source: Source, offsets: str) -> None:
    _add_foreign_row(source, **{"commit-user": FLUSS_COMMIT_USER, "fluss-offsets": offsets})


def foreign_tiering_that_cannot_be_read(source: Source) -> None:
    _foreign_tiering(source, "/nowhere")


def foreign_tiering(source: Source) -> None:
    """Another service goes on from our offsets; its one row is none of the log's, which keeps the counting simple."""
    view = source.world.view(source.info)
    assert view.marker is not None
    at = {bucket: tiered.tiered for bucket, tiered in view.marker.buckets.items()}
    document: dict[str, Any] = {"version": 1, "table_id": source.info.table_id}
    if source.partitioned:
        partitions = sorted({bucket.partition_id or 0 for bucket in at})
        rows = [
            (partition, [offset for bucket, offset in sorted(at.items(), key=str) if bucket.partition_id == partition])
            for partition in partitions
        ]
        document["partition_offsets"] = [{"partition_id": partition, "bucket_offsets": offsets} for partition, offsets in rows]
    else:
        document["bucket_offsets"] = [offset for _, offset in sorted(at.items(), key=str)]
    file = source.world.storage.root.parent / "lake" / "sales" / "orders" / "metadata" / "theirs.offsets"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))
    _foreign_tiering(source, str(file))


def lost_and_the_log_cut(source: Source) -> None:
    source.tier()
    source.cut_log()
    source.write()
    lost(source)


def rolled_back_and_the_log_cut(source: Source) -> None:
    source.tier()
    source.cut_log()
    source.write()
    rolled_back(source)


def log_cut_beyond_the_lake(source: Source) -> None:
    """While its lake was disabled, nothing kept the log."""
    source.world.storage.alter_table(source.info.path, {"table.datalake.enabled": "false"})
    source.cut_log()
    source.info = source.world.storage.alter_table(source.info.path, {"table.datalake.enabled": "true"})
    tick(source.world.coordinator)
    source.write()


def cluster_restored_from_a_copy(source: Source) -> None:
    """The log ends before what the lake holds."""
    world = source.world
    root, copy = world.storage.root, world.storage.root.with_name("copy")
    world.close()
    shutil.copytree(root, copy)
    world.reopen()
    rows = dict(source.rows)
    source.write()
    assert source.tier().state is RoundState.SUCCEEDED
    world.close()
    shutil.rmtree(root)
    shutil.move(copy, root)
    world.reopen()
    source.foreign |= source.rows.keys() - rows.keys()
    source.rows = rows


def cluster_restored_and_outgrown(source: Source) -> None:
    """The log has other records at offsets that the lake holds."""
    cluster_restored_from_a_copy(source)
    for _ in range(3):
        source.write()


State = Callable[[Source], None]
STATES: tuple[State, ...] = (
    lost,
    renamed,
    recreated_empty,
    recreated_with_its_rows,
    rolled_back,
    rolled_back_below_a_compaction,
    tag_removed,
    tag_removed_from_an_emptied_table,
    tag_moved_back,
    tag_on_a_snapshot_without_marker,
    marker_unreadable,
    restored_from_a_backup,
    history_expired,
    of_another_cluster,
    of_another_table,
    source_made_anew,
    foreign_tiering,
    foreign_tiering_that_cannot_be_read,
    lost_and_the_log_cut,
    rolled_back_and_the_log_cut,
    log_cut_beyond_the_lake,
    cluster_restored_from_a_copy,
    source_made_anew_and_the_markers_gone,
)


def first_round_failed_behind_its_plan(world: LakeWorld, has_primary_key: bool, partitioned: bool) -> Source:
    """Returns a table whose lake table the coordinator knows, and to which nothing was ever committed."""
    source = Source(world, has_primary_key, partitioned)
    source.write()
    world.due()
    world.begin(source.info).advance_to(act.RunSplits)
    world.clock.advance(200)
    tick(world.coordinator)
    return source


def untracked_after_a_failed_first_round(source: Source) -> None:
    _add_foreign_row(source)


def replaced_by_rows_of_another_program(source: Source) -> None:
    recreated_empty(source)
    _add_foreign_row(source)


IN_ICEBERG_ALONE: frozenset[State] = frozenset(
    {
        tag_removed,
        tag_removed_from_an_emptied_table,
        markers_expired,
        markers_expired_and_the_log_cut,
        tag_moved_back,
        tag_on_a_snapshot_without_marker,
        restored_from_a_backup,
        created_or_replaced,
        created_or_replaced_and_the_log_cut,
        created_or_replaced_as_select,
        created_or_replaced_as_select_and_the_log_cut,
    }
)
"""Paimon tables have no tag of ours: `history_expired` leaves no marker of them, and one that is restored from a backup was rolled back."""

FIRST_STATES: tuple[State, ...] = (
    lost,
    renamed,
    recreated_empty,
    untracked_after_a_failed_first_round,
    replaced_by_rows_of_another_program,
)
