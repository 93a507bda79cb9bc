"""Faults of a story that come with a dropped partition: a write is repeated, records were not tiered, the lake alone has the rows."""

from __future__ import annotations

from support.background import tick
from support.worlds.stories.cluster_faults import ClusterFaults
from support.worlds.stories.model import Model
from tiering.coordinator.observing.dropped_partitions import PARTITION_DROPPED


class DroppedPartitions(ClusterFaults):
    """Each returns what it did, or None where there was nothing to do it to."""

    renamed: dict[str, set[tuple[str, int]]]
    """By table, the rows of dropped partitions that the lake table had when a statement that was named gave it another name."""

    def repeat_write_after_drop(self) -> str | None:
        """The writer did not hear that its rows were written. Before it repeats them a partition is dropped, at times after a round."""
        if (model := self._partitioned()) is None:
            return None
        number = next(self.numbers)
        rows, writer = self.drawn_rows(model, number), f"writer-{number}"
        self.put(model, rows, writer)
        self.note(model, rows)
        if self.rng.random() < 0.5:
            self._tier_only(model)
        region = self.rng.choice(sorted({row[1] for row in rows}))
        dropped = self.drop_region(model, region)
        if self.rng.random() < 0.5:
            self.attempt("write", lambda: self.write(model))
        self.put(model, rows, writer)
        self.note(model, [row for row in rows if row[1] == region])
        return f"{dropped} and {rows} came again"

    def drop_untiered_partition(self) -> str | None:
        """Drops a partition whose records were not tiered: they are lost for the lake, and an event says how many."""
        model = self._partitioned()
        if model is None or not self.world.storage.table(model.info.path).lake_enabled or self.record_of(model) is None:
            return None
        self.attempt("write", lambda: self.write(model))
        storage, recorded = self.world.storage, self.world.storage.lake_snapshot(model.info)
        partition = self.rng.choice(sorted(storage.partitions(model.info), key=lambda partition: partition.partition_name))
        tiered = {} if recorded is None else recorded.offsets
        untiered = sum(
            max(0, ends.log_end - max(ends.log_start, tiered.get(bucket, 0)))
            for bucket, ends in storage.offsets(model.info).items()
            if bucket.partition_id == partition.partition_id
        )
        dropped = self.drop_region(model, partition.partition_name)
        tick(self.world.coordinator)
        self.world.coordinator.observer.observe_all()
        counts = [
            event.details["untiered_records"]
            for event in self.world.store.events()
            if event.event_type == PARTITION_DROPPED and event.details["partition_id"] == partition.partition_id
        ]
        assert counts == [untiered], f"{dropped} had {untiered} records that were not tiered, and {counts} were reported"
        return f"{dropped} with {untiered} records"

    def drift_over_archive(self) -> str | None:
        """A partition is dropped whose rows are in the lake, then a column of the lake table; at times after rounds of a recreated one."""
        model = self._partitioned()
        if model is None or self.plain_lake_table(model) is None or self.record_of(model) is None:
            return None
        self._tier_only(model)
        if self.plain_lake_table(model) is None:
            return None
        in_lake, regions = self.keys_in_lake(model), {partition.partition_name for partition in self.world.storage.partitions(model.info)}
        tiered = sorted({region for region, _ in in_lake} & regions)
        if not tiered:
            return None
        region = self.rng.choice(tiered)
        dropped = self.drop_region(model, region)
        model.archived |= {key for key in in_lake if key[0] == region}
        if self.rng.random() < 0.5:
            number = next(self.numbers)
            rows = [(key, region, text) for key, _, text in self.drawn_rows(model, number)]
            self.put(model, rows, f"writer-{number}")
            self.note(model, rows)
            self._tier_only(model)
            dropped = f"{dropped}, recreated with {rows}"
        return f"{dropped}, of {self.drop_lake_column(model)}"

    def _partitioned(self) -> Model | None:
        model = self.pick()
        return model if model.partitioned and model.odd_values is None else None
