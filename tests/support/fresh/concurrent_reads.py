"""Readers beside a writer, rounds, upkeep and retention, in one process over a real cluster and a real lake.

A seed draws what happens between any two calls that a read makes to the cluster and the lake: rows are written, a round makes a step,
files are rewritten, snapshots expire, the log is cut. So each order of events can be repeated. Several reads are open at the same time.
Each answer is compared with the model at exactly the offsets of the read's moment.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.background import tick
from support.fresh.read_model import Row, TableModel, rows_of
from support.lake_kinds.kinds import LakeKind
from support.worlds.data_folders import FolderWorld
from support.worlds.lake_world import FRESHNESS_S, SteppedRound
from support.worlds.stories.tables import EXPIRES_EARLY
from sys_tables.offline.engine import OfflineEngine, OfflineSource
from sys_tables.query.reading import statement_view_of
from tiering.cli.sql.fresh_reads import LocalRead, reads_of_folder
from tiering.cluster.writable import TableSpec
from tiering.coordinator.status.offline_view import offline_view
from tiering.errors import KvSnapshotGone, LakeUnavailable, LogTruncated, SourceChanged
from tiering.lake.file_lists import RowScan
from tiering.model.reading.scans import ReadMoment, ReadPart, ReadScan
from tiering.model.tables import TableInfo, TablePath, TableType
from tiering.round.steps import actions as act
from tiering.union_read.plan import base_without_coordinator, open_read

REGIONS = ("eu", "us", "asia")
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("region", pa.string())])
KEYS = 24
OPEN_READS = 3
EVENTS = (1,) * 29 + (30,)
"""Numbers of events between two calls of a read. The highest has time for a whole round, from the plan to the commit."""
BETWEEN = 0.1
"""Probability that something happens between two calls of a read."""
TOO_LATE = (LogTruncated, LakeUnavailable, SourceChanged, KvSnapshotGone)
"""Errors of a read without holds: what it needs was removed. It is never answered with other rows."""


class WrongRows(AssertionError):
    """A statement did not have the rows of the model at its moment."""


@dataclass(frozen=True)
class Shape:
    """The shape of a table."""

    name: str
    has_primary_key: bool = False
    is_partitioned: bool = False


LOG_SHAPES = (Shape("log"), Shape("days", is_partitioned=True))
KEY_SHAPES = (Shape("keys", has_primary_key=True), Shape("regions", has_primary_key=True, is_partitioned=True))


@dataclass
class Figures:
    """The number of statements of each kind that were answered, and of those that were too late."""

    answered: Counter[str] = field(default_factory=Counter)
    too_late: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    log_records: int = 0

    @property
    def statements(self) -> int:
        """Number of statements that were answered and compared."""
        return self.answered.total()


class Interrupted:
    """A cluster or a lake before whose calls something else happens."""

    def __init__(self, real: Any, between: Callable[[], None]) -> None:
        self._real = real
        self._between = between

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._real, name)
        if not callable(attribute):
            return attribute

        def interrupted(*values: Any, **named: Any) -> Any:
            self._between()
            return attribute(*values, **named)

        return interrupted


@dataclass
class OpenStatement:
    """A read whose moment is fixed, and which is scanned later."""

    model: TableModel
    read: LocalRead
    kinds: list[str]
    """The scans that are left to do."""


class ConcurrentReads:
    """The world, its model, and what happens in it."""

    def __init__(self, folder: Path, kind: LakeKind, seed: int, shapes: tuple[Shape, ...]) -> None:
        self.rng = random.Random(seed)
        self.world = FolderWorld(folder, kind)
        self.figures = Figures()
        self.models = [TableModel(self._create(shape)) for shape in shapes]
        self._numbers = count()
        self._round: SteppedRound | None = None
        self._is_busy = False
        self._places: dict[tuple[int, Row], None] = {}

    def close(self) -> None:
        self.world.close()

    def run(self, statements: int) -> Figures:
        """Runs and compares this number of statements. Raises AssertionError for wrong rows."""
        pending: list[OpenStatement] = []
        while self.figures.statements < statements:
            self._event()
            model = self.rng.choice(self.models)
            if self.rng.random() < (0.08 if isinstance(self.world.lake, RowScan) else 1.0):
                self._attempt("duckdb", lambda model=model: self._duckdb(model))
                continue
            if len(pending) < OPEN_READS:
                opened = self._attempt("open", lambda model=model: self._open(model))
                pending += [] if opened is None else [opened]
            if len(pending) == OPEN_READS or self.rng.random() < 0.4:
                self._scan_some(pending)
        return self.figures

    def _scan_some(self, pending: list[OpenStatement]) -> None:
        """One scan of an open read. A read that is too late, or has no scan left, is closed."""
        if not pending:
            return
        statement = self.rng.choice(pending)
        kind = statement.kinds.pop()
        is_answered = self._attempt(kind, lambda: self._scan(statement, kind))
        if not statement.kinds or not is_answered:
            pending.remove(statement)

    def _attempt(self, kind: str, work: Callable[[], Any]) -> Any:
        try:
            done = work()
        except TOO_LATE as error:
            self.figures.too_late[type(error).__name__] += 1
            return None
        if kind != "open":
            self.figures.answered[kind] += 1
        return done

    def _open(self, model: TableModel) -> OpenStatement:
        before = dict(model.ends)
        cluster, open_lake = self._cluster(), self._open_lake
        if self.rng.random() < 0.5:
            opened = reads_of_folder(self.world.store, cluster, open_lake)(model.table.path)
            read: Any = opened.__enter__()
        else:
            moment = open_read(cluster, model.table.path, base_without_coordinator(cluster, open_lake))
            read = _read(cluster, open_lake, model.table, moment)
        self._check_moment(model, read.moment, before)
        kinds = ("rows", "rows", "parts") if self.world.lake_format == "iceberg" else ("rows",)
        return OpenStatement(model, read, [self.rng.choice(kinds) for _ in range(self.rng.randrange(1, 5))])

    def _check_moment(self, model: TableModel, moment: ReadMoment, before: dict[Any, int]) -> None:
        """A read sees all that was acknowledged before it, and nothing that was written after it."""
        ends, after = moment.stopping_offsets, model.ends
        late = {bucket: (end, ends.get(bucket)) for bucket, end in before.items() if ends.get(bucket, 0) < end}
        if late:
            raise WrongRows(f"acknowledged records are not in the read: {late}")
        early = {bucket: end for bucket, end in ends.items() if end > after.get(bucket, 0)}
        if early:
            raise WrongRows(f"the read ends after the log: {early}")
        self.figures.log_records += moment.log_records

    def _scan(self, statement: OpenStatement, kind: str) -> bool:
        expected = statement.model.rows_at(statement.read.moment.stopping_offsets)
        rows = rows_of(self._parts(statement) if kind == "parts" else self._rows(statement.read, ReadPart.ROWS))
        if rows != expected:
            moment = statement.read.moment
            raise WrongRows(
                f"{kind} of {moment.path} after {self.figures.statements} statements: too many {rows - expected}, "
                f"missing {expected - rows}; {moment}"
            )
        return True

    def _rows(self, read: LocalRead, part: ReadPart, columns: tuple[str, ...] = ()) -> pa.Table:
        names = columns or tuple(SCHEMA.names)
        batches = []
        for batch in read.rows(ReadScan(part, names)):
            batches.append(batch.select(list(names)))
            self._between()
        schema = pa.schema([read.table.schema.field(name) for name in names])
        return pa.Table.from_batches(batches, schema=schema)

    def _parts(self, statement: OpenStatement) -> pa.Table:
        """The rows as an engine makes them that reads the lake itself: the lake at S without changed keys, and the log part."""
        read, table = statement.read, statement.model.table
        lake = self._lake_rows(table, read.moment.lake_snapshot_id)
        log = self._rows(read, ReadPart.LOG_ROWS)
        if table.table_type is TableType.PRIMARY_KEY:
            keys = self._rows(read, ReadPart.CHANGED_KEYS, table.primary_key)
            changed = rows_of(keys).keys()
            values = zip(*(lake.column(name).to_pylist() for name in table.primary_key), strict=True)
            lake = lake.filter(pa.array([value not in changed for value in values], pa.bool_()))
        return pa.concat_tables([lake.cast(log.schema), log])

    def _lake_rows(self, table: TableInfo, snapshot_id: int | None) -> pa.Table:
        if snapshot_id is None:
            return table.schema.empty_table()
        self._between()
        if self.world.lake_format == "iceberg":
            loaded = self.world.iceberg(table)
            if loaded.snapshot_by_id(snapshot_id) is None:
                raise LakeUnavailable("the snapshot expired")
            try:
                return loaded.scan(snapshot_id=snapshot_id, selected_fields=tuple(SCHEMA.names)).to_arrow()
            except FileNotFoundError as error:
                raise LakeUnavailable("a file was deleted") from error
        raise AssertionError("only Iceberg's own scan is compared")

    def _duckdb(self, model: TableModel) -> None:
        """A statement of the DuckDB engine that uses a table twice."""
        moments: list[ReadMoment] = []
        opened = reads_of_folder(self.world.store, self._cluster(), self._open_lake)

        @contextmanager
        def recorded(path: TablePath) -> Iterator[LocalRead]:
            with opened(path) as read:
                moments.append(read.moment)
                yield read

        source = OfflineSource(
            lambda: statement_view_of(offline_view(self.world.store, self.world.storage, self.world.clock)),
            self._open_lake,
            recorded,
            self.world.lake_format,
            self.world.validate,
            None,
        )
        before = dict(model.ends)
        sql = f"SELECT id, text, region, (SELECT count(*) FROM {model.table.path}) AS n FROM {model.table.path}"
        rows = Counter(tuple(row) for row in OfflineEngine(source).execute(sql).rows)
        self._check_moment(model, moments[-1], before)
        expected = model.rows_at(moments[-1].stopping_offsets)
        if rows != Counter({(*row, expected.total()): times for row, times in expected.items()}):
            raise WrongRows(f"DuckDB on {model.table.path}: {rows}, not {expected}; {moments[-1]}")

    def _cluster(self) -> Any:
        return Interrupted(self.world.storage, self._between)

    def _open_lake(self, lake_format: str) -> Any:
        return Interrupted(self.world.lake, self._between)

    def _between(self) -> None:
        if self.rng.random() < BETWEEN:
            for _ in range(self.rng.choice(EVENTS)):
                self._event()

    def _event(self) -> None:
        if self._is_busy:
            return
        self._is_busy = True
        try:
            events = {self._write: 40, self._step: 45, self._retention: 6, self._snapshot: 3, self._tick: 6}
            (event,) = self.rng.choices(list(events), weights=list(events.values()))
            self.figures.events[event.__name__] += 1
            event()
        finally:
            self._is_busy = False

    def _write(self) -> None:
        model = self.rng.choice(self.models)
        if model.table.table_type is TableType.LOG:
            self._append(model)
        else:
            self._change(model)

    def _append(self, model: TableModel) -> None:
        number = next(self._numbers)
        region = self.rng.choice(REGIONS)
        rows = [(number * 100 + place, self._text(number), region) for place in range(self.rng.randrange(1, 6))]
        [written] = self.world.storage.append(model.table.path, _table(rows, model.table.schema), f"writer-{number}", 0)
        model.appended(rows, written)

    def _change(self, model: TableModel) -> None:
        """One key is written or deleted: so the ranges say in which bucket it is."""
        number, path = next(self._numbers), model.table.path
        row = (self.rng.randrange(KEYS), self._text(number), self.rng.choice(REGIONS))
        key = tuple(row[model.table.schema.names.index(name)] for name in model.table.primary_key)
        if self.rng.random() < 0.3:
            keys = pa.schema([model.table.schema.field(name) for name in model.table.primary_key])
            ranges = self.world.storage.delete(path, _table([key], keys), f"writer-{number}", 0)
            for written in ranges:
                model.changed(key, None, written)
            return
        for written in self.world.storage.upsert(path, _table([row], model.table.schema), f"writer-{number}", 0):
            model.changed(key, row, written)

    def _text(self, number: int) -> str | None:
        return self.rng.choice((f"text {number}", None, "x" * 50))

    def _step(self) -> None:
        """A round begins, makes a step or ends. A round that begins may be one of upkeep."""
        if self._round is None:
            self.world.clock.advance(FRESHNESS_S + 1)
            tick(self.world.coordinator)
            answer = self.world.beat(request_table=True)
            self._round = self.world._stepped(answer) if answer.HasField("tiering_table") else None
            return
        if isinstance(self._round.runner.next_action, act.End):
            outcome, self._round = self._round.end(), None
            self.figures.events["rounds" if outcome.error is None else "failed rounds"] += 1
        else:
            self._round.runner.advance()

    def _retention(self) -> None:
        self.world.clock.advance(self.rng.choice((1, 70, 120)))
        self.world.storage.maintenance.run()

    def _snapshot(self) -> None:
        model = self.rng.choice(self.models)
        if model.table.table_type is TableType.PRIMARY_KEY:
            self.world.storage.take_kv_snapshots(model.table.path)

    def _tick(self) -> None:
        self.world.clock.advance(self.rng.choice((1, 1, 60, 4_000)))
        tick(self.world.coordinator)

    def _create(self, shape: Shape) -> TableInfo:
        self.world.storage.create_database("sales", ignore_if_exists=True)
        partition_keys = ("region",) if shape.is_partitioned else ()
        key = (*partition_keys, "id") if shape.has_primary_key else ()
        schema = pa.schema([pa.field(field.name, field.type, nullable=field.name not in (*key, *partition_keys)) for field in SCHEMA])
        properties = {
            "table.datalake.enabled": "true",
            "table.datalake.freshness": f"{FRESHNESS_S} s",
            "table.log.ttl": "1 min",
            **EXPIRES_EARLY,
            **self.world.lake_options,
            **({"table.kv.snapshot.interval": "2 min"} if shape.has_primary_key else {}),
        }
        table = self.world.storage.create_table(TablePath("sales", shape.name), TableSpec(schema, 2, (), properties, key, partition_keys))
        tick(self.world.coordinator)
        return table


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    return pa.table(dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True)), schema=schema)


def _read(cluster: Any, open_lake: Any, table: TableInfo, moment: ReadMoment) -> LocalRead:
    return LocalRead(cluster, open_lake, table, moment, {})
