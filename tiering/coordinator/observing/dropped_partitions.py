"""Reports partitions of the source that were dropped, with the number of their records that never reached the lake.

A cluster that counts them itself (`DroppedPartitions`) is read, and then told to forget them. So each drop is reported at least once. For
any other cluster, such as Fluss, two observations of a table's log are compared: a partition id that is only in the earlier one was
dropped. Then the number is unknown, because records may have come after the last observation. The event's details have the number from that
observation.

A coordinator compares its first observation with the partitions that were tiered according to its store, because a partition may have been
dropped while no coordinator ran. The name of such a partition is unknown.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import replace

import structlog

from tiering.cluster.base import TableCatalog
from tiering.cluster.capabilities import DroppedPartition, DroppedPartitions
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import TableRecord, from_text
from tiering.coordinator.decisions.records.history import Level
from tiering.coordinator.memory.table_records import TableRecords
from tiering.counts import counted
from tiering.errors import LakewardError
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo

_log = structlog.get_logger(__name__)

PARTITION_DROPPED = "PARTITION_DROPPED"


class DropReports:
    """Reports dropped partitions as events. It is thread-safe."""

    def __init__(self, table_records: TableRecords, cluster: TableCatalog) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._names: dict[int, dict[int, str]] = {}
        """The names of each table's partitions at the last observation."""
        self._reported: dict[int, set[int]] = {}
        """The partitions of each table whose drop was reported, because two observations may overlap."""
        self._compared: set[int] = set()
        """Tables whose partitions were compared with the store."""
        self._lock = threading.Lock()

    def report_counted(self) -> None:
        """Reports the drops that the cluster counted itself."""
        if not isinstance(self._cluster, DroppedPartitions):
            return
        try:
            dropped = self._cluster.dropped_partitions()
            reported = [partition.partition_id for partition in dropped if self._report(partition)]
            if reported:
                self._cluster.forget_dropped_partitions(reported)
        except LakewardError as error:
            _log.warning("dropped partitions could not be reported", error=error.message)

    def compare(
        self, record: TableRecord, info: TableInfo, before: Mapping[BucketKey, BucketOffsets], now: Mapping[BucketKey, BucketOffsets]
    ) -> None:
        """Reports partitions that are in `before` but not in `now`, unless the cluster counts them itself."""
        if not info.partition_keys or isinstance(self._cluster, DroppedPartitions):
            return
        living = {bucket.partition_id for bucket in now if bucket.partition_id is not None}
        names = self._names_of(info, living)
        forgotten = self._dropped_before(record, info, living)
        with self._lock:
            reported = self._reported.setdefault(info.table_id, set())
            dropped = {bucket.partition_id for bucket in before if bucket.partition_id is not None} - living - reported
            reported |= dropped
            self._names[info.table_id] = {partition_id: name for partition_id, name in names.items() if partition_id in living}
            forgotten -= reported
            reported |= forgotten
        for partition_id in sorted(forgotten):
            self._report(DroppedPartition(info.table_id, partition_id, None))
        tiered = from_text(record.shown_offsets or {})
        for partition_id in sorted(dropped):
            ends = {bucket: bounds for bucket, bounds in before.items() if bucket.partition_id == partition_id}
            observed = sum(max(0, bounds.log_end - max(tiered.get(bucket, 0), bounds.log_start)) for bucket, bounds in ends.items())
            self._report(DroppedPartition(info.table_id, partition_id, names.get(partition_id)), observed)

    def forget(self, table_ids: Collection[int]) -> None:
        """Forgets tables that were dropped."""
        with self._lock:
            self._compared.difference_update(table_ids)
            for table_id in table_ids:
                self._names.pop(table_id, None)
                self._reported.pop(table_id, None)

    def _dropped_before(self, record: TableRecord, info: TableInfo, living: Collection[int]) -> set[int]:
        """Returns the partitions that were tiered, and dropped before this coordinator first observed the table."""
        if info.table_id in self._compared:
            return set()
        tiered = _tiered_partitions(record).difference(living, record.lake.reported_drops)
        try:
            present = {partition.partition_id for partition in self._cluster.partitions(info)} if tiered else set[int]()
        except LakewardError as error:
            _log.debug("partitions could not be compared with those in the store", table=str(info.path), error=error.message)
            return set()
        self._compared.add(info.table_id)
        return tiered - present

    def _names_of(self, info: TableInfo, living: Collection[int]) -> dict[int, str]:
        """Returns the names from the last observation, and those of new partitions."""
        with self._lock:
            names = dict(self._names.get(info.table_id, {}))
        if set(living) <= names.keys():
            return names
        try:
            return names | {partition.partition_id: partition.partition_name for partition in self._cluster.partitions(info)}
        except LakewardError as error:
            _log.debug("the names of partitions could not be observed", table=str(info.path), error=error.message)
            return names

    def _report(self, partition: DroppedPartition, observed: int | None = None) -> bool:
        """Adds the event. Returns False for a table that has no record yet."""
        records = self._table_records
        with records.changing():
            record = records.get(partition.table_id)
            if record is None:
                return False
            lost = partition.untiered_records if observed is None else observed
            level = Level.INFO if lost == 0 else Level.WARN
            reported = {*record.lake.reported_drops, partition.partition_id} & _tiered_partitions(record)
            change = Change(record).update(lake=replace(record.lake, reported_drops=tuple(sorted(reported))))
            records.put(
                change.note(
                    records.context(),
                    PARTITION_DROPPED,
                    _message(partition, observed),
                    level,
                    partition_name=partition.partition_name,
                    partition_id=partition.partition_id,
                    untiered_records=partition.untiered_records,
                    **({} if observed is None else {"observed_untiered_records": observed}),
                )
            )
            return True


def _tiered_partitions(record: TableRecord) -> set[int]:
    """Returns the partitions with recorded tiered offsets, including dropped ones."""
    offsets = {**(record.lake.offsets or {}), **(record.shown_offsets or {})}
    return {bucket.partition_id for bucket in from_text(offsets) if bucket.partition_id is not None}


def _message(partition: DroppedPartition, observed: int | None) -> str:
    name = "" if partition.partition_name is None else f" {partition.partition_name!r}"
    text = f"the partition{name} (id {partition.partition_id}) was dropped"
    if observed is not None:
        untiered = f"{counted(observed, 'record')} that had not reached the lake" if observed else "no such record"
        return f"{text}; how many of its records never reached the lake is unknown, the last observation showed {untiered}"
    if partition.untiered_records is None:
        return f"{text}; how many of its records never reached the lake is unknown"
    if partition.untiered_records:
        return f"{text} with {counted(partition.untiered_records, 'record')} that had not reached the lake"
    return f"{text}; all of its records had reached the lake"
