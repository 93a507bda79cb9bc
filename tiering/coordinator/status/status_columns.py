"""`sys.lake_tiering_status` by column: Arrow arrays that are kept between reads, and renewed where a record has changed.

Records are frozen, so a cell is outdated exactly if its record is another object. A `StatusView` reads the rows of its own moment, whatever
other looks do meanwhile: its arrays are made of those rows and never change.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiering.access.grants import Access
from tiering.access.privileges import SERVICE, Resource, statement_for
from tiering.access.requirements import PrivilegeTarget
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.next_action import CatalogNames, next_action
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.waits import begin_deadline
from tiering.coordinator.observing.lag import Lag, LagSource
from tiering.coordinator.reasons import next_check_texts, status_reason
from tiering.coordinator.status.cells import CONSTANT, NEXT_ACTION, OBSERVED, PROMISE, REASON, STEADY, STORED, Cell
from tiering.coordinator.status.versioned_columns import Positions, Version, VersionedColumn, differing_positions
from tiering.instants import EPOCH, to_microseconds
from tiering.model.declare import SCALARS
from tiering.model.reading.matching import AnyArray
from tiering.model.states import TableState
from tiering.model.status import TableStatus, promises_of
from tiering.procedures.registry import requirements

DIRECT_ROWS = 256
"""Up to this many rows, cells are read from their records, which is faster than renewing whole columns."""

_BEGIN = "begin_deadline"
"""When a scheduled table becomes due. It is part of the reason, and not a column that readers see."""

_TYPES: Mapping[str, pa.DataType] = {
    name: next(arrow for kind, arrow in SCALARS.items() if hint in (kind, kind | None))  # type: ignore[operator]  # a class
    for name, hint in {**get_type_hints(TableStatus), _BEGIN: datetime}.items()
}
_ANY_NAMES = CatalogNames("\x01", "\x02")
"""Placeholders for the reader's catalog names in cached statements. No name of a table or column in an error has control characters."""
_CELLS: Mapping[str, Cell] = {**STORED, **STEADY, _BEGIN: begin_deadline, NEXT_ACTION: lambda record: next_action(record, _ANY_NAMES)}
_LAG = "lag_ms"
"""The only observed column that grows while nothing is observed."""

Rows = Version[TableRecord]
"""The records, including those of removed tables."""
Lags = Version[Lag | None]
"""The lags of these records."""


class StatusColumns:
    """The cached arrays of all records. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._columns = {name: VersionedColumn(_TYPES[name], _of_live(cell)) for name, cell in _CELLS.items()}
        steady = {name: cell for name, cell in OBSERVED.items() if name != _LAG}
        self._observed = {name: VersionedColumn(_TYPES[name], _of_lag(cell)) for name, cell in steady.items()}
        self._order = _Order()
        self._last_records: tuple[Mapping[int, TableRecord], Rows] = ({}, Version([]))
        self._last_lags: tuple[Rows, int, Lags] | None = None
        self._visible: WeakKeyDictionary[Access, tuple[Positions, Positions]] = WeakKeyDictionary()

    def rows(self, records: Mapping[int, TableRecord]) -> Rows:
        """Returns the records as a version; the same version for the same mapping."""
        with self._lock:
            if self._last_records[0] is not records:
                self._last_records = (records, Version(list(records.values())))
            return self._last_records[1]

    def lags(self, rows: Rows, observer: LagSource) -> Lags:
        """Returns the lags of all rows as a version; the same version until something is observed again."""
        last, generation = self._last_lags, observer.generation
        if last is not None and last[0] is rows and last[1] == generation:
            return last[2]
        version = Version([observer.lag(record) for record in rows.rows])
        self._last_lags = (rows, generation, version)
        return version

    def stored(self, name: str, rows: Rows, positions: Positions) -> AnyArray:
        """Returns a stored or steady column of the rows at `positions`."""
        with self._lock:
            return self._columns[name].at(rows, positions)

    def observed(self, name: str, lags: Lags, positions: Positions) -> AnyArray:
        """Returns an observed column except `lag_ms` of the rows at `positions`."""
        with self._lock:
            return self._observed[name].at(lags, positions)

    def visible(self, rows: Rows, access: Access) -> Positions:
        """Returns the positions of `order` that a caller may see; the same array while neither tables nor policies change."""
        order = self.order(rows)
        if access.is_unrestricted:
            return order
        cached = self._visible.get(access)
        if cached is None or cached[0] is not order:
            databases, names = (self.stored(name, rows, order) for name in ("database_name", "table_name"))
            mask = access.visible(databases, names)
            cached = self._visible[access] = (order, order if mask.all() else order[mask])
        return cached[1]

    def order(self, rows: Rows) -> Positions:
        """Returns the positions in `rows` of the tables that are not removed, by path."""
        with self._lock:
            return self._order.positions(rows)


class StatusView:
    """The statuses of one moment, or some of them, by column (`interface.Columns`). Lags are read once for all columns."""

    def __init__(
        self,
        kept: StatusColumns,
        rows: Rows,
        moment: Moment,
        observer: LagSource,
        *,
        connected: bool | None,
        may_wait: bool,
        assigned_format: str | None = None,
        names: CatalogNames | None = None,
        access: Access | None = None,
    ) -> None:
        self._kept = kept
        self._access = access
        self._names = names or CatalogNames()
        self._rows = rows
        self._moment = moment
        self._observer = observer
        self._connected = connected
        self._may_wait = may_wait
        self._assigned_format = assigned_format
        self._positions = self._all = kept.order(rows) if access is None else kept.visible(rows, access)
        self._lags: Lags | None = None
        self._few_lags: list[Lag | None] | None = None

    @property
    def num_rows(self) -> int:
        return len(self._positions)

    def take(self, indices: AnyArray) -> StatusView:
        """Returns the rows at these indices, in this order."""
        chosen = indices.to_numpy(zero_copy_only=False)
        selection = object.__new__(StatusView)
        selection.__dict__.update(self.__dict__)
        selection._positions = self._positions[chosen]
        selection._few_lags = None if self._few_lags is None else [self._few_lags[i] for i in chosen.tolist()]
        return selection

    def column(self, name: str) -> AnyArray:
        """Returns a column of `TableStatus`. For few tables, the first observed column may ask the cluster for a short time."""
        if name in CONSTANT:
            value: Any = pa.scalar(CONSTANT[name](self._moment), _TYPES[name])
            return pa.repeat(value, self.num_rows)
        if name in OBSERVED:
            return self._observed(name)
        if name == PROMISE:
            return promises_of(*(self.column(part) for part in (_LAG, "freshness_ms", "status", "paused")))
        if name == REASON:
            return self._reasons()
        stored = self._stored(name)
        if name == NEXT_ACTION:
            return self._named(stored)
        return self._at_wall(stored) if name in STEADY else stored

    @property
    def _shows_all(self) -> bool:
        """Whether the cached columns can be used: this look has all rows, and they are many."""
        return self._positions is self._all and self.num_rows > DIRECT_ROWS

    def _records(self) -> list[TableRecord]:
        rows = self._rows.rows
        return [rows[position] for position in self._positions.tolist()]

    def _stored(self, name: str) -> AnyArray:
        if self.num_rows <= DIRECT_ROWS:
            cell = _CELLS[name]
            return _array(name, [_plain(cell(record)) for record in self._records()])
        return self._kept.stored(name, self._rows, self._positions)

    def _named(self, statements: AnyArray) -> AnyArray:
        """Returns the statements with the names of the reader's catalogs."""
        for stand_in, name in ((_ANY_NAMES.catalog, self._names.catalog), (_ANY_NAMES.lake, self._names.lake)):
            statements = pc.replace_substring(statements, stand_in, name)
        if self._access is None or self._access.is_unrestricted:
            return statements
        allowed = statements.to_pylist()
        for at in np.flatnonzero(np.asarray(pc.is_valid(statements))).tolist():
            record = self._rows.rows[int(self._positions[at])]
            allowed[at] = allowed_action(allowed[at], record.database_name, record.table_name, self._access)
        return pa.array(allowed, pa.string())

    def _at_wall(self, steady: AnyArray) -> AnyArray:
        drift = self._moment.to_wall(self._moment.steady)
        assert drift is not None
        return pc.add(steady, pa.scalar(drift - self._moment.steady, pa.duration("us")))

    def _observed(self, name: str) -> AnyArray:
        if self._lags is None and self._few_lags is None:
            self._read_lags()
        if self._shows_all:
            assert self._lags is not None
            return self._lag_ages(self._lags) if name == _LAG else self._kept.observed(name, self._lags, self._all)
        cell, now = OBSERVED[name], self._moment.wall
        return _array(name, [None if lag is None else _plain(cell(lag, now)) for lag in self._shown_lags()])

    def _read_lags(self) -> None:
        if self._may_wait:
            self._observer.refresh(self._records())
        if self._shows_all:
            self._lags = self._kept.lags(self._rows, self._observer)
        else:
            self._few_lags = [self._observer.lag(record) for record in self._records()]

    def _shown_lags(self) -> Sequence[Lag | None]:
        """Returns the lags of the rows in their order."""
        if self._few_lags is not None:
            return self._few_lags
        assert self._lags is not None
        return [self._lags.rows[position] for position in self._positions.tolist()]

    def _lag_ages(self, lags: Lags) -> AnyArray:
        """Returns `Lag.age_ms` of all rows at once."""
        nothing: AnyArray = pc.equal(self._kept.observed("pending_records", lags, self._all), pa.scalar(0))
        oldest = self._kept.observed("oldest_pending_time", lags, self._all).cast(pa.int64())
        ages_ms = np.maximum(0, (to_microseconds(self._moment.wall) - pc.fill_null(oldest, 0).to_numpy()) // 1_000)
        ages = pa.array(ages_ms, pa.int64(), mask=oldest.is_null().to_numpy(zero_copy_only=False))
        return pc.if_else(pc.fill_null(nothing, False), pa.scalar(0), ages)

    def _reasons(self) -> AnyArray:
        """Returns `status_reason` of all rows. Most tables are scheduled and differ only in the time left, so each text is made once."""
        if self.num_rows <= DIRECT_ROWS or self._connected is None or self._assigned_format is not None:
            return pa.array([self._reason(record) for record in self._records()], pa.string())
        deadlines = self._stored(_BEGIN)
        scheduled = pc.equal(self._stored("status"), pa.scalar(TableState.SCHEDULED.value))
        rests: AnyArray = pc.and_(pc.and_(scheduled, pc.invert(self._stored("paused"))), pc.is_valid(deadlines))
        is_resting = rests.to_numpy(zero_copy_only=False)
        due_us = np.where(is_resting, pc.fill_null(deadlines.cast(pa.int64()), 0).to_numpy(), 0)
        texts, text_indices = next_check_texts(np.maximum(0, (due_us - to_microseconds(self._moment.steady)) // 1_000))
        others = [self._reason(self._rows.rows[position]) for position in self._positions[~is_resting].tolist()]
        return pc.replace_with_mask(pa.array(texts, pa.string()).take(text_indices), pa.array(~is_resting), pa.array(others, pa.string()))

    def _reason(self, record: TableRecord) -> str | None:
        return status_reason(record, self._moment, tierer_connected=self._connected, assigned_format=self._assigned_format)


class _Order:
    """Positions of the rows of tables that are not removed, sorted by path."""

    def __init__(self) -> None:
        self._version: Rows = Version([])
        self._positions: Positions = np.empty(0, np.int64)

    def positions(self, rows: Rows) -> Positions:
        if self._version is not rows:
            if self._moved(rows):
                live = (at for at, record in enumerate(rows.rows) if record.state is not None)
                by_path = sorted(live, key=lambda at: (rows.rows[at].database_name, rows.rows[at].table_name))
                self._positions = np.array(by_path, np.int64)
            self._version = rows
        return self._positions

    def _moved(self, rows: Rows) -> bool:
        before, after = self._version.rows, rows.rows
        if len(before) != len(after):
            return True
        return any(_place(before[at]) != _place(after[at]) for at in differing_positions(self._version, rows))


def _place(record: TableRecord) -> tuple[bool, str, str]:
    return record.state is None, record.database_name, record.table_name


def _of_live(cell: Cell) -> Cell:
    """Returns the cell with NULL for the row of a removed table."""
    return lambda record: None if record.state is None else _plain(cell(record))


def _of_lag(cell: Callable[[Lag, datetime], Any]) -> Callable[[Lag | None], Any]:
    """Returns the cell with NULL where nothing was observed. Only for columns that do not depend on the moment."""
    return lambda lag: None if lag is None else _plain(cell(lag, EPOCH))


def _plain(value: Any) -> Any:
    """Returns the value in a form that pyarrow converts quickly; converting datetimes with a time zone one by one is slow."""
    return to_microseconds(value) if isinstance(value, datetime) else value


def _array(name: str, cells: list[Any]) -> AnyArray:
    return pa.array(cells, type=_TYPES[name])


_PROCEDURE = re.compile(r"\.sys\.(\w+)\(")


def allowed_action(statement: str | None, database_name: str, table_name: str, access: Access) -> str | None:
    """Returns `statement` if the reader may run it, otherwise the grant to ask for.

    A statement that Spark runs on the lake table itself is returned unchanged, because the lake's catalog decides about it.
    """
    procedure = None if statement is None or access.is_unrestricted else _PROCEDURE.search(statement)
    requirement = None if procedure is None else requirements().get(procedure.group(1))
    if requirement is None or requirement.privilege is None:
        return statement
    resource = SERVICE if requirement.on is PrivilegeTarget.SERVICE else Resource(database_name, table_name)
    if access.may(requirement.privilege, resource):
        return statement
    granted = statement_for(access.identity.principal, requirement.privilege, resource)
    return f"-- ask for {requirement.privilege} on {resource}, then {statement}: {granted}"
