"""Steps of a story: tables and their rows."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa

from support.worlds.lake_world import FRESHNESS_S
from support.worlds.stories.model import COLUMNS, NAMES, REGIONS, Model, Row
from support.worlds.stories.odd_values import OddValues
from support.worlds.stories.parts import StoryParts
from tiering.cluster.writable import TableSpec
from tiering.errors import InvalidData
from tiering.lake import table_options
from tiering.model.schema.changes import additions
from tiering.model.tables import TablePath

ODD = "odd"
"""The table of odd values."""


EXPIRES_EARLY = {"table.datalake.snapshot.max-age": "1 ms", "table.datalake.snapshot.min-count": "3"}
"""Options of tables whose snapshots expire with each round, where such an age is allowed (`upkeep.upkeep_often`)."""


class TableSteps(StoryParts):
    """Actions of users on source tables."""

    def create(self) -> str | None:
        free = [name for name in NAMES if name not in self.models]
        if not free:
            return None
        name, rng = self.rng.choice(free), self.rng
        has_primary_key, partitioned = rng.random() < 0.5, rng.random() < 0.5
        partition_keys = ("region",) if partitioned else ()
        properties = {
            "table.datalake.enabled": "true" if rng.random() < 0.8 else "false",
            "table.datalake.freshness": f"{FRESHNESS_S} s",
            "table.kv.snapshot.interval": "365 d",
            **self.world.lake_options,
            **(EXPIRES_EARLY if table_options.LEAST_MAX_AGE_MS == 0 else {}),
        }
        if not has_primary_key:
            del properties["table.kv.snapshot.interval"]
        key = (*partition_keys, "id") if partitioned else ("id",)
        spec = TableSpec(COLUMNS, rng.choice((1, 2)), (), properties, key if has_primary_key else (), partition_keys)
        info = self.world.storage.create_table(TablePath("sales", name), spec)
        self.models[name] = Model(info, has_primary_key, partitioned)
        return f"{name} has_primary_key={has_primary_key} partitioned={partitioned} {properties['table.datalake.enabled']}"

    def drop(self) -> str:
        model = self.pick()
        self.world.storage.drop_table(model.info.path)
        del self.models[model.info.path.table_name]
        return str(model.info.path)

    def switch(self) -> str:
        model = self.pick()
        wanted = "false" if self.rng.random() < 0.4 else "true"
        self.world.storage.alter_table(model.info.path, {"table.datalake.enabled": wanted})
        return f"{model.info.path} {wanted}"

    def add_column(self) -> str:
        model = self.pick()
        name = f"c{next(self.numbers)}"
        self.world.storage.alter_table(model.info.path, {}, additions([pa.field(name, self.rng.choice((pa.int32(), pa.string())))]))
        return f"{model.info.path} {name}"

    def drop_partition(self, model: Model | None = None) -> str | None:
        """Drops an existing partition of a table, if there are any."""
        present = [] if model is None else sorted(partition.partition_name for partition in self.world.storage.partitions(model.info))
        model = model or self.pick()
        if not model.partitioned:
            return None
        return self.drop_region(model, self.rng.choice(present or REGIONS))

    def drop_region(self, model: Model, region: str) -> str:
        self.world.storage.drop_partition(model.info.path, region)
        model.lost_partition = True
        for place in [place for place in model.rows if place[0] == region]:
            del model.rows[place]
        return f"{model.info.path} {region}"

    def write(self, model: Model | None = None) -> str:
        model = model or self.pick()
        number = next(self.numbers)
        if model.odd_values is not None:
            return self._write_odd_values(model, model.odd_values, number)
        rows = self.drawn_rows(model, number)
        self.put(model, rows, f"writer-{number}")
        self.note(model, rows)
        return f"{model.info.path} {rows}"

    def drawn_rows(self, model: Model, number: int) -> list[Row]:
        rng = self.rng
        ids = (
            rng.sample(range(12), rng.randrange(1, 8)) if model.has_primary_key else range(number * 100, number * 100 + rng.randrange(1, 8))
        )
        return [(key, rng.choice(REGIONS), rng.choice((f"text {number}", None))) for key in ids]

    def put(self, model: Model, rows: list[Row], writer: str) -> None:
        """The first write of a writer, which it may repeat."""
        table = pa.table(dict(zip(("id", "region", "text"), zip(*rows, strict=True), strict=True)), schema=COLUMNS)
        storage = self.world.storage
        (storage.upsert if model.has_primary_key else storage.append)(model.info.path, table, writer, 0)

    def note(self, model: Model, rows: list[Row]) -> None:
        """The model has what was written."""
        for row in rows:
            model.rows[self._place(model, row)] = row
            model.former[row] += 1

    def delete(self) -> str | None:
        model, rng = self.pick(), self.rng
        if not model.has_primary_key or model.odd_values is not None:
            return None
        places = [(rng.choice(REGIONS), key) for key in rng.sample(range(12), rng.randrange(1, 6))]
        columns = {"region": [region for region, _ in places], "id": pa.array([key for _, key in places], pa.int64())}
        keys = pa.table(columns if model.partitioned else {"id": columns["id"]})
        keys = keys.cast(pa.schema([pa.field(name, keys.schema.field(name).type, nullable=False) for name in keys.schema.names]))
        self.world.storage.delete(model.info.path, keys, f"writer-{next(self.numbers)}", 0)
        for region, key in places:
            model.rows.pop((region if model.partitioned else "", key), None)
            model.archived.discard((region, key))
        return f"{model.info.path} {places}"

    def _place(self, model: Model, row: Row) -> tuple[str, int]:
        return (row[1] if model.partitioned or not model.has_primary_key else "", row[0])

    def snapshot(self) -> str | None:
        model = self.pick()
        return f"{model.info.path} {len(self.world.storage.take_kv_snapshots(model.info.path))}" if model.has_primary_key else None

    def write_odd_values(self, kind: Callable[[random.Random], OddValues]) -> str:
        """Into a table of their own, which is made anew for each kind of them."""
        if ODD in self.models:
            self.world.storage.drop_table(self.models.pop(ODD).info.path)
        values, has_primary_key = kind(self.rng), self.rng.random() < 0.5
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": f"{FRESHNESS_S} s", **self.world.lake_options}
        bucket_keys = () if has_primary_key or self.rng.random() < 0.5 else (values.key,)
        spec = TableSpec(values.schema, 2, bucket_keys, properties, (values.key,) if has_primary_key else ())
        info = self.world.storage.create_table(TablePath("sales", ODD), spec)
        model = self.models[ODD] = Model(info, has_primary_key, False, odd_values=values)
        self.has_values_shown_wrong |= values.shown_wrong
        return self._write_odd_values(model, values, next(self.numbers))

    def _write_odd_values(self, model: Model, values: OddValues, number: int) -> str:
        count = self.rng.randrange(1, 6)
        batch = values.rows(self.rng, count, range(number * 100, number * 100 + count))
        storage, table = self.world.storage, pa.Table.from_batches([batch])
        try:
            (storage.upsert if model.has_primary_key else storage.append)(model.info.path, table, f"writer-{number}", 0)
        except InvalidData as refusal:
            return f"{model.info.path} refused: {refusal}"
        keys = batch.schema.names.index(values.key)
        for index, row in enumerate(model.rows_of(table)):
            model.rows[(row[keys],) if model.has_primary_key else (number, index)] = row
            model.former[row] += 1
        return f"{model.info.path} {values.schema.names} {count} rows"
