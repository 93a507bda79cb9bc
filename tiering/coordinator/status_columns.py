"""`sys.lake_tiering_status` by column: Arrow arrays that are kept between looks and renewed where a record has changed.

Records are frozen, so a cell is out of date exactly when its record is another object. A look goes by the rows of its own
moment, whatever other looks do meanwhile: the arrays that it gets are made of those rows and never change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import compress, count
from operator import is_not
from typing import Any, Generic, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.coordinator.api import AnyArray, TableStatus
from tiering.coordinator.observer import Pending, Seen
from tiering.coordinator.reasons import next_check_texts, status_reason
from tiering.coordinator.records import TableRecord
from tiering.coordinator.statuses import CONSTANT, OBSERVED, REASON, STEADY, STORED, Cell
from tiering.coordinator.timebase import Moment
from tiering.state import TableState

DIRECT_ROWS = 256
"""Cells of so few rows are read from their records: quicker than renewing whole columns."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIME = pa.timestamp("us", tz="UTC")
_ARROW: Mapping[object, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), datetime: _TIME}
_TYPES: Mapping[str, pa.DataType] = {
    name: next(arrow for kind, arrow in _ARROW.items() if hint in (kind, kind | None))  # type: ignore[operator]  # a class
    for name, hint in get_type_hints(TableStatus).items()
}
_CELLS: Mapping[str, Cell] = {**STORED, **STEADY}
_LAG = "lag_ms"
"""Of the observed columns the only one that grows while nothing is observed."""

RowT = TypeVar("RowT")
Rows = Sequence[TableRecord]
Positions = npt.NDArray[np.int64]


class StatusColumns:
    """What is kept. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._columns = {name: _Column(name, _of_live(cell)) for name, cell in _CELLS.items()}
        self._observed = {name: _Column(name, _of_seen(cell)) for name, cell in OBSERVED.items() if name != _LAG}
        self._order = _Order()
        self._last_rows: tuple[Mapping[int, TableRecord], Rows] = ({}, [])

    def rows(self, records: Mapping[int, TableRecord]) -> Rows:
        """The records as a list, the same list for the same mapping."""
        with self._lock:
            if self._last_rows[0] is not records:
                self._last_rows = (records, list(records.values()))
            return self._last_rows[1]

    def array(self, name: str, rows: Rows) -> AnyArray:
        """A stored or steady column of all `rows`; a removed table's cell is NULL."""
        with self._lock:
            return self._columns[name].array(rows)

    def ordered(self, name: str, rows: Rows) -> AnyArray:
        """The same of the tables there are, by path."""
        with self._lock:
            return self._columns[name].at(rows, self._order.positions(rows))

    def observed(self, name: str, seen: Sequence[Pending | None]) -> AnyArray:
        """An observed column, but not of lags, of what was seen of all tables; None = nothing yet."""
        with self._lock:
            return self._observed[name].array(seen)

    def order(self, rows: Rows) -> Positions:
        """Positions in `rows` of the tables there are, by path."""
        with self._lock:
            return self._order.positions(rows)


class StatusLook:
    """The statuses of one moment, or some of them, by column (`api.Columns`). Pending rows are looked up once, for all that follows."""

    def __init__(self, kept: StatusColumns, rows: Rows, moment: Moment, observer: Seen, *, connected: bool | None, may_wait: bool) -> None:
        self._kept = kept
        self._rows = rows
        self._moment = moment
        self._observer = observer
        self._connected = connected
        self._may_wait = may_wait
        self._positions = self._all = kept.order(rows)
        self._pending: list[Pending | None] | None = None

    @property
    def num_rows(self) -> int:
        return len(self._positions)

    def take(self, indices: AnyArray) -> StatusLook:
        """Those rows, in that order."""
        chosen = indices.to_numpy(zero_copy_only=False)
        taken = object.__new__(StatusLook)
        taken.__dict__.update(self.__dict__)
        taken._positions = self._positions[chosen]
        taken._pending = None if self._pending is None else [self._pending[i] for i in chosen]
        return taken

    def column(self, name: str) -> AnyArray:
        """A column of `TableStatus`. The first one of pending rows may ask the cluster, for few tables and a short time."""
        if name in CONSTANT:
            value: Any = pa.scalar(CONSTANT[name](self._moment), _TYPES[name])
            return pa.repeat(value, self.num_rows)
        if name in OBSERVED:
            return self._observed(name)
        if name == REASON:
            return self._reasons()
        stored = self._stored(name)
        return self._at_wall(stored) if name in STEADY else stored

    def _records(self) -> list[TableRecord]:
        return [self._rows[position] for position in self._positions]

    def _stored(self, name: str) -> AnyArray:
        if self.num_rows <= DIRECT_ROWS:
            cell = _CELLS[name]
            return _array(name, [_plain(cell(record)) for record in self._records()])
        if self._positions is self._all:
            return self._kept.ordered(name, self._rows)
        return self._kept.array(name, self._rows).take(pa.array(self._positions))

    def _at_wall(self, steady: AnyArray) -> AnyArray:
        drift = self._moment.to_wall(self._moment.steady)
        assert drift is not None
        return pc.add(steady, pa.scalar(drift - self._moment.steady, pa.duration("us")))

    def _observed(self, name: str) -> AnyArray:
        if self._pending is None:
            records = self._records()
            if self._may_wait:
                self._observer.refresh_for_a_look(records)
            self._pending = [self._observer.pending(record) for record in records]
        if self._positions is self._all and self.num_rows > DIRECT_ROWS:
            return self._lags(self._pending) if name == _LAG else self._kept.observed(name, self._pending)
        cell, now = OBSERVED[name], self._moment.wall
        return _array(name, [None if seen is None else _plain(cell(seen, now)) for seen in self._pending])

    def _lags(self, seen: Sequence[Pending | None]) -> AnyArray:
        """As `Pending.lag_ms` says, of all at once."""
        nothing: AnyArray = pc.equal(self._kept.observed("pending_records", seen), pa.scalar(0))
        oldest = self._kept.observed("oldest_pending_time", seen).cast(pa.int64())
        ages_ms = np.maximum(0, (_micros(self._moment.wall) - pc.fill_null(oldest, 0).to_numpy()) // 1_000)
        known = pa.array(ages_ms, pa.int64(), mask=oldest.is_null().to_numpy(zero_copy_only=False))
        return pc.if_else(pc.fill_null(nothing, False), pa.scalar(0), known)

    def _reasons(self) -> AnyArray:
        """Nearly all tables rest, and only the time that is left differs: written once for each span there is."""
        if self.num_rows <= DIRECT_ROWS or self._connected is None:
            return pa.array([self._reason(record) for record in self._records()], pa.string())
        deadlines = self._stored("freshness_deadline")
        scheduled = pc.equal(self._stored("status"), pa.scalar(TableState.SCHEDULED.value))
        rests: AnyArray = pc.and_(pc.and_(scheduled, pc.invert(self._stored("paused"))), pc.is_valid(deadlines))
        plain = rests.to_numpy(zero_copy_only=False)
        due_us = pc.fill_null(deadlines.cast(pa.int64()), 0).to_numpy()
        left_ms = np.maximum(0, (due_us - _micros(self._moment.steady)) // 1_000)
        texts, which = next_check_texts(np.where(plain, left_ms, 0))
        reasons: AnyArray = pa.array(texts, pa.string()).take(which)
        others = [None if rest else self._reason(self._rows[at]) for rest, at in zip(plain.tolist(), self._positions, strict=True)]
        return pc.if_else(pa.array(plain), reasons, pa.array(others, pa.string()))

    def _reason(self, record: TableRecord) -> str | None:
        return status_reason(record, self._moment, tierer_connected=self._connected)


class _Column(Generic[RowT]):
    """One column of all rows, as of the rows it was asked for last. A row is another object when it has changed."""

    def __init__(self, name: str, read: Callable[[RowT], Any]) -> None:
        self._name = name
        self._read = read
        self._rows: Sequence[RowT] = []
        self._cells: list[Any] = []
        self._array: AnyArray | None = None
        self._taken: tuple[Positions, AnyArray] | None = None

    def array(self, rows: Sequence[RowT]) -> AnyArray:
        if self._array is None or self._rows is not rows:
            self._renew(rows)
        assert self._array is not None
        return self._array

    def at(self, rows: Sequence[RowT], positions: Positions) -> AnyArray:
        """Kept for the next who asks with the same `positions`."""
        array = self.array(rows)
        if self._taken is None or self._taken[0] is not positions:
            self._taken = (positions, array.take(pa.array(positions)))
        return self._taken[1]

    def _renew(self, rows: Sequence[RowT]) -> None:
        stale = self._array is None or len(self._rows) != len(rows)
        del self._cells[len(rows) :]
        for position in _changed(self._rows, rows):
            cell = self._read(rows[position])
            if cell != self._cells[position]:
                self._cells[position] = cell
                stale = True
        self._cells += map(self._read, rows[len(self._cells) :])
        self._rows = rows
        if stale:
            self._array = _array(self._name, self._cells)
            self._taken = None


class _Order:
    """Positions of live rows, by path."""

    def __init__(self) -> None:
        self._rows: Rows = []
        self._positions: Positions = np.empty(0, np.int64)

    def positions(self, rows: Rows) -> Positions:
        if self._rows is not rows:
            moved = (_place(self._rows[at]) != _place(rows[at]) for at in _changed(self._rows, rows))
            if len(self._rows) != len(rows) or any(moved):
                live = (at for at, record in enumerate(rows) if record.state is not None)
                by_path = sorted(live, key=lambda at: (rows[at].database_name, rows[at].table_name))
                self._positions = np.array(by_path, np.int64)
            self._rows = rows
        return self._positions


def _place(record: TableRecord) -> tuple[bool, str, str]:
    return record.state is None, record.database_name, record.table_name


def _of_live(cell: Cell) -> Cell:
    """NULL in a removed table's row."""
    return lambda record: None if record.state is None else _plain(cell(record))


def _of_seen(cell: Callable[[Pending, datetime], Any]) -> Callable[[Pending | None], Any]:
    """NULL where nothing was seen; for columns that are the same at every moment."""
    return lambda seen: None if seen is None else _plain(cell(seen, _EPOCH))


def _changed(before: Sequence[object], after: Sequence[object]) -> list[int]:
    """Positions, as far as both reach, whose row is another one."""
    return list(compress(count(), map(is_not, before, after)))


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _plain(value: Any) -> Any:
    """As pyarrow takes it quickly: aware datetimes one by one are slow."""
    return _micros(value) if isinstance(value, datetime) else value


def _array(name: str, cells: list[Any]) -> AnyArray:
    return pa.array(cells, type=_TYPES[name])
