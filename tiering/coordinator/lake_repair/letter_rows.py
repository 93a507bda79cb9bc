"""Dead letters as rows of the lake table again: the records that waited, in the present columns, and the files that hold them.

A record is refused again if the lake still cannot hold it. In a primary-key table, a record is superseded if its key changed later: the
later change has been tiered, or will be. Only the log tells that, also of keys that were deleted since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tiering.clock import RandomIds
from tiering.cluster.base import SplitSource
from tiering.cluster.skipping import reader_without
from tiering.errors import BucketStopped, LakewardError, LogTruncated, TransientTieringError
from tiering.lake.base import Committable, LakeTieringFactory, WriteResult, WriterInitContext
from tiering.lake.dead_letters.letter import row_of
from tiering.lake.marker import LaterChange
from tiering.lake.proof.file_footer import merged
from tiering.model.refused_records import ADDED_COLUMNS, may_come_from_a_value, place_of, reason_of
from tiering.model.schema.field_ids import has_field_ids, with_field_ids, without_field_ids
from tiering.model.schema.row_conversion import converted_rows
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, BucketKey, ChangeType, TableInfo, TablePath, TableType

Key = tuple[Any, ...]
"""The values of the key columns of a row."""
Change = tuple[int, ChangeType]
"""The offset of a change, and its type."""
LOG_CUT = "the log no longer has all records behind it, so nothing shows whether its key changed later"
NOT_IN_LOG = "the dead-letter table does not have the record itself, and the log cannot give it"


@dataclass(frozen=True)
class WaitingLetter:
    """A dead letter that waits. `raw` empty: the dead-letter table does not have its row, or its reader could not decode the record."""

    bucket: BucketKey
    offset: int
    raw: bytes = b""


@dataclass
class WrittenLetters:
    """The files of the rows of a replay, and which letters have no row. `refused` has the reasons by place, without values."""

    results: list[WriteResult] = field(default_factory=list)
    replayed: dict[BucketKey, set[int]] = field(default_factory=dict)
    superseded: dict[BucketKey, dict[int, LaterChange]] = field(default_factory=dict)
    refused: dict[tuple[BucketKey, int], str] = field(default_factory=dict)

    def refusals(self, path: TablePath, names: Mapping[BucketKey, str | None]) -> tuple[str, ...]:
        """Returns a text for each bucket and reason, with the offsets of the refused letters. `names`: the buckets' partitions."""
        offsets: defaultdict[tuple[BucketKey, str], list[int]] = defaultdict(list)
        for (bucket, offset), reason in sorted(self.refused.items(), key=lambda entry: (entry[0][0].sort_key(), entry[0][1])):
            offsets[bucket, reason].append(offset)
        return tuple(
            f"{place_of(path, bucket, names[bucket])}, {_offsets_text(refused)}: {reason}" for (bucket, reason), refused in offsets.items()
        )


class LetterWriter:
    """Writes the rows of one bucket's letters at a time."""

    def __init__(self, cluster: SplitSource, table: TableInfo, factory: LakeTieringFactory, round_id: str, time_us: int) -> None:
        self._cluster = cluster
        self._table = table
        self._factory = factory
        self._round_id = round_id
        self._time_us = time_us
        self.written = WrittenLetters()

    def write(self, context: WriterInitContext, letters: Sequence[WaitingLetter], tiered: int, unreadable: Collection[int]) -> None:
        """Writes the rows of a bucket whose tiered end is `tiered`. `unreadable`: its skipped records that were not put aside.

        Raises LakeUnavailable, ClusterUnavailable, LakeTableReplaced.
        """
        rows = dict(self._rows(context, letters))
        if self._table.table_type is TableType.PRIMARY_KEY and rows:
            rows = self._newest(context, rows, tiered, unreadable)
        if result := self._result(context, rows):
            written, bucket = self.written, context.bucket
            offsets = [offset for offset in rows if (bucket, offset) not in written.refused]
            runs = merged((offset, offset + 1) for offset in offsets)
            written.results.append(replace(result, starting_offset=tiered, reached_offset=tiered, empty=(), replayed=runs))
            written.replayed[bucket] = {*offsets}

    def abort(self) -> None:
        """Deletes all files. Call it only before a commit was sent. Never raises."""
        self._delete(*self.written.results)

    def _delete(self, *results: WriteResult) -> None:
        self._factory.create_committer().abort(Committable(self._round_id, results))

    def _rows(self, context: WriterInitContext, letters: Sequence[WaitingLetter]) -> Iterator[tuple[int, pa.RecordBatch]]:
        bucket = context.bucket
        for letter in sorted(letters, key=lambda letter: letter.offset):
            row = row_of(letter.raw) if letter.raw else self._from_log(context, letter.offset)
            if row is None:
                self.written.refused[bucket, letter.offset] = NOT_IN_LOG
            elif _is_update_before(row):  # the change is its +U
                self._supersede(bucket, {letter.offset: (letter.offset + 1, ChangeType.UPDATE_AFTER)})
            elif not letter.raw:
                yield letter.offset, row
            elif (converted := self._converted(row, letter)) is not None:
                yield letter.offset, converted

    def _supersede(self, bucket: BucketKey, later: Mapping[int, Change]) -> None:
        changes = {offset: LaterChange(change[0], change[1].symbol, self._time_us) for offset, change in later.items()}
        self.written.superseded.setdefault(bucket, {}).update(changes)

    def _converted(self, row: pa.RecordBatch, letter: WaitingLetter) -> pa.RecordBatch | None:
        """Returns the record with the present columns; None if it is refused, because one of its values cannot be converted."""
        try:
            return present_row(row, self._table)
        except Exception as error:  # a conversion fails in any way
            if not may_come_from_a_value(error):
                raise
            self.written.refused[letter.bucket, letter.offset] = f"converting it to the present columns ends with {type(error).__name__}"
            return None

    def _from_log(self, context: WriterInitContext, offset: int) -> pa.RecordBatch | None:
        """Returns the record from the log; None if the log does not have it, or it cannot be decoded. Raises ClusterUnavailable."""
        split = TieringLogSplit(self._table.path, context.bucket, context.partition_name, offset, offset + 1, None)
        try:
            return next((batch for batch in self._cluster.reader(self._table, split).read() if batch.num_rows), None)
        except BucketStopped:  # its reader names it as a record that cannot be decoded
            return None
        except TransientTieringError:
            raise
        except Exception as error:  # a record that cannot be decoded fails in any way
            if not isinstance(error, LakewardError) and not may_come_from_a_value(error):
                raise
            return None

    def _newest(
        self, context: WriterInitContext, rows: Mapping[int, pa.RecordBatch], tiered: int, unreadable: Collection[int]
    ) -> dict[int, pa.RecordBatch]:
        """Returns the rows whose key did not change later, up to the tiered end."""
        bucket, keys = context.bucket, {offset: _keys_of(row, self._table)[0] for offset, row in rows.items()}
        split = TieringLogSplit(self._table.path, bucket, context.partition_name, min(rows) + 1, tiered, None)
        newest, begin = self._last_changes(split, set(keys.values()), unreadable)
        late = {offset: newest[key] for offset, key in keys.items() if key in newest and newest[key][0] > offset}
        if late:
            self._supersede(bucket, late)
        unclear = {offset for offset in rows if offset not in late and offset + 1 < begin}
        self.written.refused.update({(bucket, offset): LOG_CUT for offset in unclear})
        return {offset: row for offset, row in rows.items() if offset not in late and offset not in unclear}

    def _last_changes(self, split: TieringLogSplit, keys: Collection[Key], unreadable: Collection[int]) -> tuple[Mapping[Key, Change], int]:
        """Returns the last change of each of `keys` in the records of `split` that the log still has, and the offset where these begin.

        Retention may cut the log during the read. Then the read is repeated from the log's new start.
        """
        while split.starting_offset < split.stopping_offset:
            newest = dict[Key, Change]()
            try:
                for batch in reader_without(lambda part: self._cluster.reader(self._table, part), split, unreadable).read():
                    newest.update(_changes_of(batch, self._table, keys))
                return newest, split.starting_offset
            except LogTruncated:
                log = self._cluster.offsets(self._table).get(split.bucket)
                start = split.stopping_offset if log is None else log.log_start
                if start <= split.starting_offset:  # the cluster does not know yet what it has removed
                    return {}, split.stopping_offset + 1
                split = replace(split, starting_offset=start)
        return {}, split.starting_offset

    def _result(self, context: WriterInitContext, rows: Mapping[int, pa.RecordBatch]) -> WriteResult | None:
        """Writes the rows that the lake can hold; None if there are none."""
        try:
            return self._attempt(context, rows)
        except Exception as error:
            if not may_come_from_a_value(error):
                raise
            if len(rows) == 1:
                self.written.refused[context.bucket, next(iter(rows))] = f"writing it ends with {type(error).__name__}"
                return None
        return self._attempt(context, {offset: row for offset, row in rows.items() if self._is_accepted(context, offset, row)})

    def _is_accepted(self, context: WriterInitContext, offset: int, row: pa.RecordBatch) -> bool:
        """Returns whether the lake can hold the row, which is written alone into a file that is deleted again."""
        result = self._result(context, {offset: row})
        if result is not None:
            self._delete(result)
        return result is not None

    def _attempt(self, context: WriterInitContext, rows: Mapping[int, pa.RecordBatch]) -> WriteResult | None:
        """Writes the rows in one file, without those that the writer refuses by name. Raises the writer's other errors; no file is left."""
        if not rows:
            return None
        writer = self._factory.create_writer(replace(context, attempt_nonce=RandomIds().new_id()))
        accepted: list[int] = []
        try:
            for offset, row in rows.items():
                try:
                    writer.write(row)
                    accepted.append(offset)
                except BucketStopped as error:
                    self.written.refused[context.bucket, offset] = reason_of(error)
            if accepted:
                return writer.complete(accepted[0], accepted[-1] + 1)
        except BaseException:
            writer.abort()
            raise
        writer.abort()
        return None


def present_row(row: pa.RecordBatch, table: TableInfo) -> pa.RecordBatch:
    """Returns the record of a dead letter with the present columns of the table, as `TableInfo.read_schema` has them.

    Columns are matched by their ids, so a renamed one keeps its values. A record from before the first change of columns has no ids.
    """
    own = [field for field in row.schema if field.name not in ADDED_COLUMNS]
    former = pa.schema(own)
    if has_field_ids(table.schema) != has_field_ids(former):
        former = with_field_ids(former) if has_field_ids(table.schema) else pa.schema(map(without_field_ids, former))
    values = converted_rows(row.select(former.names), former, table.schema)
    system = [field for field in table.read_schema() if field.name in ADDED_COLUMNS]
    columns = [*values.columns, *(row.column(field.name) for field in system)]
    return pa.RecordBatch.from_arrays(columns, schema=table.read_schema())


def _offsets_text(offsets: Sequence[int]) -> str:
    runs = merged((offset, offset + 1) for offset in offsets)
    named = ", ".join(str(start) if stop == start + 1 else f"{start} to {stop - 1}" for start, stop in runs)
    return f"{'offset' if len(offsets) == 1 else 'offsets'} {named}"


def _is_update_before(row: pa.RecordBatch) -> bool:
    return CHANGE_TYPE_COLUMN in row.schema.names and row.column(CHANGE_TYPE_COLUMN)[0].as_py() == ChangeType.UPDATE_BEFORE


def _keys_of(batch: pa.RecordBatch, table: TableInfo) -> list[Key]:
    return list(zip(*(_comparable(batch.column(name)).to_pylist() for name in table.primary_key), strict=True))


def _comparable(column: pa.Array[Any]) -> pa.Array[Any]:
    """Returns dates and times as numbers, because Python has none outside the years 1 to 9999."""
    if not pa.types.is_temporal(column.type):
        return column
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())


def _changes_of(batch: pa.RecordBatch, table: TableInfo, keys: Collection[Key]) -> dict[Key, Change]:
    """Returns the last change of each of `keys` in a batch. A `-U` counts no more than its `+U`."""
    first = _comparable(batch.column(table.primary_key[0]))
    rows = batch.filter(pc.is_in(first, value_set=pa.array([key[0] for key in keys], first.type)))
    kinds, offsets = rows.column(CHANGE_TYPE_COLUMN).to_numpy(), rows.column(OFFSET_COLUMN).to_numpy().tolist()
    changes = zip(_keys_of(rows, table), offsets, kinds, strict=True)
    return {key: (offset, ChangeType(kind)) for key, offset, kind in changes if key in keys and kind != ChangeType.UPDATE_BEFORE}
