"""One task's work: the snapshot before the log, and no stop inside an update."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tiering.errors import KvSnapshotGone, LakeUnavailable
from tiering.lake.base import WriteResult, WriterInitContext
from tiering.model.refused_records import RECORD_ID, bucket_stopped
from tiering.model.rounds import Phase
from tiering.model.splits import TieringLogSplit, TieringSnapshotSplit, TieringSplit
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TablePath, TableType
from tiering.round.ports import SplitTask, TaskOutcome, WorkLimits, working_order
from tiering.round.progress import RoundMeter
from tiering.round.tasks.executor import _encoded
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.round.tasks.spark_runner import _decoded
from tiering.round.tasks.split_work import as_lakeward_error, run_split
from tiering.round.tasks.stopped_records import HINT, settled, unverified_tasks
from tiering.wire.errors import error_to_pb

BUCKET = BucketKey(None, 0)
PATH = TablePath("sales", "planes")
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
TABLE = TableInfo(7, PATH, TableType.PRIMARY_KEY, SCHEMA, 1, WHEN, primary_key=("id",))
SNAPSHOT = TieringSnapshotSplit(PATH, BUCKET, None, 3, 10, 20)
INSERT, BEFORE, AFTER = ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER


def batch(*changes: tuple[int, ChangeType]) -> pa.RecordBatch:
    rows = [{"id": 1, "__bucket": 0, "__offset": at, "__timestamp": WHEN, "__change_type": int(kind)} for at, kind in changes]
    return pa.RecordBatch.from_pylist(rows, schema=TABLE.read_schema())


@dataclass
class Reader:
    split: TieringSplit
    batches: Sequence[pa.RecordBatch]
    fails_after: int | None = None

    def read(self) -> Iterator[pa.RecordBatch]:
        for number, rows in enumerate(self.batches):
            if number == self.fails_after:
                raise KvSnapshotGone("it is gone")
            yield rows


@dataclass
class Lake:
    """Factory and writer in one: remembers what was written."""

    offsets: list[int] = field(default_factory=list)
    aborted: bool = False

    def create_writer(self, context: WriterInitContext) -> Lake:
        return self

    def write(self, rows: pa.RecordBatch) -> None:
        self.offsets += rows.column("__offset").to_pylist()

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        return WriteResult(BUCKET, starting_offset, reached_offset, len(self.offsets), 1, 1, b"")

    def abort(self) -> None:
        self.aborted = True


def task(lake: Any, start: int, batches: Sequence[pa.RecordBatch], snapshot: Reader | None = None, stop: int | None = None) -> SplitTask:
    stop = start + sum(rows.num_rows for rows in batches) if stop is None else stop
    split = TieringLogSplit(PATH, BUCKET, None, start, stop, stop)
    context = WriterInitContext(TABLE, "uuid", BUCKET, None, "round", "")
    return SplitTask(Reader(split, batches), split, lake, context, 0, snapshot)


def test_the_snapshot_comes_before_the_log_into_one_writer() -> None:
    lake = Lake()
    snapshot = Reader(SNAPSHOT, [batch((-1, INSERT)), batch((-1, INSERT))])
    outcome = run_split(task(lake, 10, [batch((10, INSERT), (11, INSERT))], snapshot), lambda: False)
    assert lake.offsets == [-1, -1, 10, 11]
    assert outcome.result is not None
    assert (outcome.result.starting_offset, outcome.result.reached_offset) == (10, 12)


def test_a_snapshot_with_no_record_behind_it_is_a_result_of_its_own() -> None:
    outcome = run_split(task(Lake(), 10, [], Reader(SNAPSHOT, [batch((-1, INSERT))])), lambda: False)
    assert outcome.result is not None
    assert (outcome.result.reached_offset, outcome.result.records) == (10, 1)


def test_a_snapshot_is_not_begun_once_the_time_is_over_and_read_whole_once_begun() -> None:
    lake = Lake()
    assert run_split(task(lake, 10, [], Reader(SNAPSHOT, [batch((-1, INSERT))])), lambda: True).result is None
    assert lake.offsets == []
    answers = iter([False])
    snapshot = Reader(SNAPSHOT, [batch((-1, INSERT)), batch((-1, INSERT))])
    outcome = run_split(task(lake, 10, [batch((10, INSERT))], snapshot), lambda: next(answers, True))
    assert outcome.result is not None
    assert (lake.offsets, outcome.result.reached_offset) == ([-1, -1], 10)


def test_a_stop_between_before_and_after_waits_for_the_after() -> None:
    lake = Lake()
    log = [batch((0, INSERT), (1, BEFORE)), batch((2, AFTER)), batch((3, INSERT))]
    outcome = run_split(task(lake, 0, log), lambda: True)
    assert outcome.result is not None
    assert outcome.result.reached_offset == 3


def test_offsets_without_records_are_passed_whether_they_are_in_the_middle_or_at_the_end() -> None:
    """Fluss's log has record batches without records, which use offsets all the same."""
    lake = Lake()
    log = [batch((1, INSERT)), batch(), batch((4, INSERT))]
    outcome = run_split(task(lake, 0, log, stop=7), lambda: False)
    assert outcome.result is not None
    assert (lake.offsets, outcome.result.reached_offset) == ([1, 4], 7)
    only_empty = run_split(task(lake, 7, [], stop=9), lambda: False)
    assert only_empty.result is not None
    assert only_empty.result.reached_offset == 9


def test_an_early_stop_reaches_the_last_record_that_was_written() -> None:
    outcome = run_split(task(Lake(), 0, [batch((1, INSERT)), batch((4, INSERT))], stop=7), lambda: True)
    assert outcome.result is not None
    assert outcome.result.reached_offset == 2


def test_a_snapshot_that_vanishes_fails_the_task_in_its_own_class_and_deletes_its_files() -> None:
    lake = Lake()
    snapshot = Reader(SNAPSHOT, [batch((-1, INSERT)), batch((-1, INSERT))], fails_after=1)
    outcome = run_split(task(lake, 10, [], snapshot), lambda: False)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.phase, lake.aborted) == ("KvSnapshotGone", Phase.READ, True)


class Panic(BaseException):
    """A panic like those of libraries in Rust: no `Exception`."""


@pytest.mark.parametrize("end", [Panic("not aligned"), MemoryError(), KeyboardInterrupt(), SystemExit(1), RecursionError()])
def test_whatever_ends_a_split_is_its_outcome(monkeypatch: pytest.MonkeyPatch, end: BaseException) -> None:
    def failing(*_: object) -> None:
        raise end

    lake = Lake()
    monkeypatch.setattr(lake, "write", failing)
    outcome = run_split(task(lake, 0, [batch((0, INSERT))]), lambda: False)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable, lake.aborted) == (type(end).__name__, True, True)
    assert ("memory" in outcome.error.hint) == isinstance(end, MemoryError)


@pytest.mark.parametrize("rows", [[(0, INSERT)], [(0, INSERT), (1, INSERT)]])
def test_what_arrow_says_of_a_value_is_no_part_of_a_message(rows: list[tuple[int, ChangeType]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller with DESCRIBE reads the message; the text of the bucket's record is for callers with SELECT."""

    def failing(*_: object) -> None:
        raise pa.ArrowInvalid("Integer value 4711 not in range: -128 to 127")

    lake = Lake()
    monkeypatch.setattr(lake, "write", failing)
    outcome = run_split(task(lake, 0, [batch(*rows)]), lambda: False)
    assert outcome.suspected_error is not None
    assert outcome.suspected_error.error_class == "ArrowInvalid"
    assert "4711" not in outcome.suspected_error.message + outcome.suspected_error.hint
    assert "4711" in outcome.suspected_error.ids[RECORD_ID]
    assert outcome.suspected_error.ids["bucket"] == str(BUCKET)


def test_an_error_whose_text_is_no_unicode_travels_all_the_same() -> None:
    error = as_lakeward_error(OSError("no such file: " + os.fsdecode(b"caf\xe9")))
    assert "caf\\udce9" in error_to_pb(error).message


def test_the_rounds_first_task_reads_its_snapshot_however_late_it_is() -> None:
    lake = Lake()
    first = replace(task(lake, 10, [batch((10, INSERT))], Reader(SNAPSHOT, [batch((-1, INSERT))])), is_first=True)
    outcome = run_split(first, lambda: True)
    assert outcome.result is not None
    assert (lake.offsets, outcome.result.reached_offset) == ([-1], 10)


def test_snapshots_are_begun_before_logs_and_second_splits_last() -> None:
    snapshot = Reader(SNAPSHOT, [])
    long_log, short_log = task(Lake(), 0, [batch((0, INSERT), (1, INSERT))]), task(Lake(), 0, [batch((0, INSERT))])
    tasks = [replace(long_log, rank=1), short_log, long_log, task(Lake(), 10, [], snapshot)]
    assert working_order(tasks) == [3, 2, 1, 0]


def test_a_cancelled_round_begins_no_task_inline() -> None:
    lake = Lake()
    first = replace(task(lake, 10, [batch((10, INSERT))], Reader(SNAPSHOT, [batch((-1, INSERT))])), is_first=True)
    assert (
        list(InlineTaskRunner().run("r", [first], WorkLimits(60_000, lambda: True), RoundMeter([1], lambda: 0, lambda progress: None)))
        == []
    )
    assert lake.offsets == []


class PickyLake(Lake):
    """Refuses the records at some offsets, and says which record it refuses only if `names_it`."""

    def __init__(self, refused: Collection[int], *, names_it: bool) -> None:
        super().__init__()
        self.refused = refused
        self.names_it = names_it

    def create_writer(self, context: WriterInitContext) -> Lake:
        return PickyLake(self.refused, names_it=self.names_it)

    def write(self, rows: pa.RecordBatch) -> None:
        super().write(rows)
        for offset in self.offsets:
            if offset in self.refused:
                raise bucket_stopped(PATH, BUCKET, None, offset, "no") if self.names_it else OverflowError("date value out of range")


def offsets_of(batches: Sequence[pa.RecordBatch]) -> list[int]:
    return [offset for rows in batches for offset in rows.column("__offset").to_pylist()]


LOG = [batch(*((at, INSERT) for at in range(start, start + 4))) for start in (0, 4, 8)]


@pytest.mark.parametrize("names_it", [True, False], ids=["named", "found"])
@pytest.mark.parametrize("refused", [0, 1, 3, 4, 6, 11])
def test_a_record_that_cannot_be_written_ends_the_work_before_it(refused: int, names_it: bool) -> None:
    outcome = run_split(task(PickyLake({refused}, names_it=names_it), 0, LOG), lambda: False)
    assert outcome.error is None
    assert outcome.stopped is not None
    assert outcome.stopped.ids["offset"] == str(refused)
    assert f"CALL sys.skip_record('sales.planes', 0, {refused}, reason => '...')" in outcome.stopped.hint
    assert "'table.datalake.on-bad-record' = 'dead-letter'" in outcome.stopped.hint
    if not names_it:
        assert "writing it ends with OverflowError" in outcome.stopped.message
        assert "(date value out of range)" in outcome.stopped.ids[RECORD_ID]
    if refused:
        assert outcome.result is not None
        assert (outcome.result.reached_offset, outcome.result.records) == (refused, refused)
    else:
        assert outcome.result is None


def test_of_several_records_that_cannot_be_written_the_first_one_counts() -> None:
    outcome = run_split(task(PickyLake({2, 6, 7}, names_it=False), 0, LOG), lambda: False)
    assert (outcome.result.reached_offset, outcome.stopped.ids["offset"]) == (2, "2")  # type: ignore[union-attr]


def test_work_never_ends_between_the_two_records_of_an_update() -> None:
    changes = [batch((0, INSERT), (1, BEFORE)), batch((2, AFTER), (3, INSERT))]
    outcome = run_split(task(PickyLake({2}, names_it=True), 0, changes), lambda: False)
    assert (outcome.result.reached_offset, outcome.stopped.ids["offset"]) == (1, "2")  # type: ignore[union-attr]


def test_a_reader_that_cannot_decode_a_record_gave_all_records_before_it() -> None:
    class Undecodable(Reader):
        def read(self) -> Iterator[pa.RecordBatch]:
            yield from self.batches
            raise bucket_stopped(PATH, BUCKET, None, 9, "no such time")

    log = task(Lake(), 0, LOG[:2], stop=12)
    outcome = run_split(replace(log, reader=Undecodable(log.split, LOG[:2])), lambda: False)
    assert (outcome.result.reached_offset, outcome.stopped.ids["offset"]) == (8, "9")  # type: ignore[union-attr]


def test_a_kv_snapshot_is_written_without_the_record_behind_it_that_cannot_be() -> None:
    snapshot = Reader(SNAPSHOT, [batch((-1, INSERT))])
    behind = [batch((10, INSERT), (11, INSERT))]
    outcome = run_split(task(PickyLake({10}, names_it=True), 10, behind, snapshot), lambda: False)
    assert (outcome.result.reached_offset, outcome.result.records) == (10, 1)  # type: ignore[union-attr]
    outcome = run_split(task(PickyLake({-1}, names_it=False), 10, behind, snapshot), lambda: False)
    assert (outcome.result, outcome.stopped) == (None, None), "no record of the log is to blame"
    assert outcome.error is not None


class BrokenLake(Lake):
    """A lake whose storage refuses every file with an error that a value could also cause. Deletes of keys need no file."""

    def write(self, rows: pa.RecordBatch) -> None:
        kinds = rows.column("__change_type").to_pylist()
        if any(kind not in (BEFORE, ChangeType.DELETE) for kind in kinds):
            raise ValueError("no such option")


ONE, TWO = batch((4, INSERT)), batch((5, INSERT))


@pytest.mark.parametrize(
    "log",
    [LOG, [ONE], [ONE, TWO], [batch(), ONE], [batch((4, BEFORE)), batch((5, AFTER))], [batch((4, BEFORE), (5, AFTER))]],
    ids=["many", "one", "two batches", "an empty batch", "an update in two batches", "an update"],
)
@pytest.mark.parametrize("records_before", [[], [batch((3, INSERT))], [batch((3, ChangeType.DELETE))]], ids=["none", "a row", "a delete"])
def test_a_failure_that_no_value_causes_fails_the_task(log: Sequence[pa.RecordBatch], records_before: Sequence[pa.RecordBatch]) -> None:
    """Every record fails alone, so none is blamed: the statement that its error would name loses a good record."""
    work = task(BrokenLake(), offsets_of(log)[0], log)
    first = run_split(replace(work, records_before=Reader(work.split, records_before)), lambda: False)
    assert unverified_tasks([work], [first]) == [work]
    (outcome,) = settled([first], [first])
    assert outcome.stopped is None
    assert outcome.error is not None
    assert outcome.error.error_class == "ValueError"


@pytest.mark.parametrize(
    ("refused", "log", "records_before"),
    [
        ({4}, [ONE, TWO], []),
        ({5}, [ONE, TWO], []),
        ({4, 5}, [ONE, TWO, batch((6, INSERT))], [batch((3, INSERT))]),
        ({4, 5}, [batch((4, INSERT), (5, INSERT), (6, INSERT))], []),
        ({4}, [ONE], [batch((3, INSERT))]),
        ({5}, [batch((4, BEFORE)), batch((5, AFTER))], [batch((3, INSERT))]),
    ],
    ids=["first batch", "second batch", "two batches", "two in a batch", "only record", "only update"],
)
def test_a_record_is_found_beside_one_that_can_be_written_alone(
    refused: Collection[int], log: Sequence[pa.RecordBatch], records_before: Sequence[pa.RecordBatch]
) -> None:
    work = task(PickyLake(refused, names_it=False), 4, log)
    outcome = run_split(replace(work, records_before=Reader(work.split, records_before)), lambda: False)
    assert (outcome.error, outcome.suspected_error) == (None, None)
    assert outcome.stopped is not None
    assert outcome.stopped.ids["offset"] == str(min(refused))


def lonely() -> tuple[SplitTask, TaskOutcome]:
    """A task whose only record cannot be written, and its outcome."""
    work = task(PickyLake({4}, names_it=False), 4, [ONE])
    return work, run_split(work, lambda: False)


def test_no_record_is_blamed_where_none_is_left_to_compare_it_with() -> None:
    _, alone = lonely()
    for again in ([], [alone]):
        (outcome,) = settled([alone], again)
        assert outcome.stopped is None
        assert outcome.error is not None
        assert (outcome.error.error_class, outcome.error.hint) == ("OverflowError", HINT)


def test_the_only_record_of_a_bucket_is_blamed_if_it_fails_before_and_after_another_row_is_written() -> None:
    work, alone = lonely()
    compared = run_split(replace(work, records_before=Reader(work.split, [batch((3, INSERT))])), lambda: False)
    written = run_split(task(Lake(), 0, [batch((0, INSERT))]), lambda: False)
    for outcomes, again in (([alone], [compared]), ([written, alone], [alone]), ([compared, alone], [alone])):
        outcome = settled(outcomes, again)[-1]
        assert (outcome.error, outcome.suspected_error) == (None, None)
        assert outcome.stopped is not None
        assert outcome.stopped.ids["offset"] == "4"


def test_no_record_is_blamed_that_can_be_written_after_the_other_splits() -> None:
    """The storage came back meanwhile."""
    work, alone = lonely()
    written = run_split(task(Lake(), 4, [ONE]), lambda: False)
    assert unverified_tasks([work], [written, alone]) == [work]
    outcomes = settled([written, alone], [written])
    assert [outcome.error is None for outcome in outcomes] == [True, False]
    assert [outcome.error.hint for outcome in outcomes if outcome.error is not None] == [""]
    assert all(outcome.stopped is None for outcome in outcomes)


def test_a_doubt_travels_from_an_executor_to_the_round() -> None:
    work, alone = lonely()
    decoded = _decoded(work, _encoded(0, work, replace(alone, has_control=True)))
    assert decoded.has_control
    assert decoded.suspected_error is not None
    assert decoded.suspected_error.error_class == "OverflowError"
    assert unverified_tasks([work], [decoded]) == [work]


def test_no_record_is_tried_again_in_a_round_that_fails_anyway() -> None:
    work, alone = lonely()
    assert unverified_tasks([work], [alone, TaskOutcome(None, LakeUnavailable("no disk left"))]) == []


def test_storage_that_fails_while_the_record_is_looked_for_is_not_blamed_on_it() -> None:
    """The storage works again between two attempts, so the last attempt writes the record."""
    attempts = iter([ValueError("no such option")] * 3)

    class Recovering(Lake):
        def write(self, rows: pa.RecordBatch) -> None:
            if rows.column("__offset").to_pylist() != [3] and (error := next(attempts, None)) is not None:
                raise error

    work = task(Recovering(), 4, [ONE])
    outcome = run_split(replace(work, records_before=Reader(work.split, [batch((3, INSERT))])), lambda: False)
    assert next(attempts, None) is None
    assert outcome.stopped is None
    assert outcome.error is not None


class FullPath(Lake):
    """A lake whose storage takes no file because the path is too long."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def write(self, rows: pa.RecordBatch) -> None:
        try:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), self.path)
        except OSError as error:
            raise LakeUnavailable("cannot write a data file") from error


@pytest.mark.parametrize(
    ("path", "is_of_partition"),
    [
        (f"/lake/sales/t/data/day={'d' * 252}", True),
        (f"/lake/sales/t/day={'d' * 252}/bucket-0/data-1.parquet", True),
        (f"/lake/sales/t/d%C3%A4y={'d' * 252}/bucket-0", True),
        ("/lake" * 900 + "/sales/t/day=d/bucket-0", False),
        ("/lake" * 900 + f"/sales/t/day={'d' * 200}/bucket-0", False),
        (f"/{'lake' * 64}/sales/t/day=d", False),
        (f"/lake/sales/t/day=d/{'data' * 64}.parquet", False),
        ("", False),
    ],
    ids=["folder", "folder above", "quoted", "long path", "long path and folder", "warehouse", "file", "no path"],
)
def test_only_a_partition_with_too_long_a_name_stops_for_the_length_of_a_path(path: str, is_of_partition: bool) -> None:
    schema = pa.schema([*SCHEMA, pa.field("day", pa.string(), nullable=False), pa.field("däy", pa.string(), nullable=False)])
    table = replace(TABLE, schema=schema, partition_keys=("day", "däy"))
    work = task(FullPath(path), 0, LOG)
    split = replace(work.split, bucket=BucketKey(1, 0), partition_name="d$d")
    context = replace(work.context, table=table, bucket=BucketKey(1, 0), partition_name="d$d")
    outcome = run_split(replace(work, split=split, context=context), lambda: False)
    assert (outcome.stopped is not None) == is_of_partition
    assert (outcome.error is None) == is_of_partition
