"""Rows of the matrix about records that rounds put aside: tables without them, their dead-letter tables, replays and discards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.embedded import scan_all
from support.lake_kinds.dead_letters import PUT_ASIDE
from support.lake_kinds.poisoned import POISON
from support.readers.cases import LETTERS, TEXTS, Case, Story, case_of, offsets_case, texts
from support.readers.changed_cases import EVERYTHING
from support.readers.questions import Question
from support.readers.source_tables import Row, SourceTable, Tables
from tiering.lake.dead_letters.letter import row_of
from tiering.lake.dead_letters.table import SCHEMA, dead_letter_path, read_letters
from tiering.lake.file_lists import ReadableLake
from tiering.lake.rules.upkeep.small_files import SMALL_FILES
from tiering.lake.writing import fitting
from tiering.model.schema.changes import AddColumn, ChangeType, RenameColumn
from tiering.model.tables import BUCKET_COLUMN, CHANGE_TYPE_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN
from tiering.model.tables import ChangeType as ChangeOfRow
from tiering.procedures.base import CallRequest
from tiering.procedures.discard_dead_letters import DiscardDeadLetters
from tiering.procedures.replay_dead_letters import ReplayDeadLetters

MEASURED = pa.schema([*TEXTS, pa.field("pieces", pa.int32())])
OLDER_HALVES = (ChangeOfRow.UPDATE_BEFORE, ChangeOfRow.DELETE)
"""Records that remove a row. No round puts them aside."""
_WITHOUT_REFUSALS = fitting._fitted
"""The conversion of rows before `refuse_poison`: an update of Lakeward that can write the records."""


def put_aside(tables: Tables, *, has_key: bool) -> Story:
    table = _table(tables, "aside", TEXTS, has_key=has_key)
    _write(table, texts(*range(20)))
    yield
    _write(table, [*_poisoned(3 if has_key else 23, 40), *texts(*range(50, 60))])
    yield
    _write(table, [*_poisoned(41), *texts(*range(60, 70))])
    yield
    letters = _letters(table, 3)
    title = "primary-key table, whose keys keep their older rows" if has_key else "log table, without the records that were put aside"
    return [case_of(LETTERS, title, table), _case_of_letters(table, letters, f"dead-letter table of a {_kind(has_key)} table")]


def put_aside_often(tables: Tables) -> Story:
    """A round that puts records aside merges the small files of the dead-letter table, once there are more than SMALL_FILES."""
    table = _table(tables, "aside_often", TEXTS, has_key=False)
    rounds = SMALL_FILES + 3
    for number in range(rounds):
        _write(table, [*texts(number), *_poisoned(100 + number)])
        yield
    lake = table.world.lake
    view = lake.view(dead_letter_path(table.info.path))
    assert isinstance(lake, ReadableLake)
    assert view is not None
    assert len(lake.file_lists(view, None).data) < SMALL_FILES
    return [_case_of_letters(table, _letters(table, rounds), "dead-letter table of a log table, whose small files were merged")]


def replayed(tables: Tables, *, has_key: bool) -> Story:
    table = _table(tables, "replayed", TEXTS, has_key=has_key)
    _write(table, texts(*range(20)))
    yield
    first, second = (3, 4) if has_key else (23, 24)
    _write(table, [*_poisoned(first, second, 40), *texts(*range(50, 60))])
    yield
    letters = _letters(table, 3)
    if has_key:
        _write(table, texts(second, word="later"))
        yield
    with pytest.MonkeyPatch.context() as accepting:
        accepting.setattr(fitting, "_fitted", _WITHOUT_REFUSALS)
        answer = _perform(table, ReplayDeadLetters(table.info.path, caller="ann"))
    assert (answer.rows_replayed, answer.rows_superseded) == ((2, 1) if has_key else (3, 0)), answer
    _become_rows(table, _poisoned(first, 40) if has_key else _poisoned(first, second, 40))
    _write(table, texts(*range(60, 70)))
    yield
    title = "primary-key table, after a replay: later changes win" if has_key else "log table, after a replay, with rows after it"
    cases = [
        case_of(LETTERS, title, table),
        _case_of_letters(table, letters, f"dead-letter table of a {_kind(has_key)} table, after a replay"),
    ]
    return cases if has_key else [*cases, *offsets_case(table, LETTERS, "`__bucket`, `__offset`, `__timestamp` after a replay")]


def replayed_after_change(tables: Tables, *, has_key: bool) -> Story:
    """The record lands in the columns of today: one has another name, one another type, and one was added."""
    table = _table(tables, "replayed_later", MEASURED, has_key=has_key)
    _write(table, [{**row, "pieces": row["id"]} for row in texts(*range(20))])
    yield
    bad = [{**row, "pieces": 7} for row in _poisoned(3 if has_key else 23, 40)]
    _write(table, bad)
    yield
    letters = _letters(table, 2)
    table.change(RenameColumn(("text",), "title"), ChangeType(("pieces",), pa.int64()), AddColumn(pa.field("note", pa.string())))
    answer = _perform(table, ReplayDeadLetters(table.info.path, caller="ann"))
    assert answer.rows_replayed == 2, answer
    _become_rows(table, [{"id": row["id"], "title": POISON, "pieces": 7, "note": None} for row in bad])
    _write(table, [{"id": number, "title": "new", "pieces": 1 << 40, "note": "n"} for number in range(50, 60)])
    yield
    title = f"{_kind(has_key)} table, after a replay into renamed, widened and added columns"
    return [
        case_of(LETTERS, title, table),
        _case_of_letters(table, letters, f"dead-letter table of a {_kind(has_key)} table, after a replay into changed columns"),
    ]


def discarded(tables: Tables, *, has_key: bool) -> Story:
    table = _table(tables, "discarded", TEXTS, has_key=has_key)
    _write(table, texts(*range(20)))
    yield
    _write(table, [*_poisoned(3 if has_key else 23, 40), *texts(*range(50, 60))])
    yield
    letters = _letters(table, 2)
    answer = _perform(table, DiscardDeadLetters(table.info.path, reason="test rows", caller="ann"))
    assert answer.records_discarded == 2, answer
    _write(table, texts(*range(60, 70)))
    yield
    table.order(EVERYTHING)
    yield
    return [
        case_of(LETTERS, f"{_kind(has_key)} table, after a discard and its upkeep", table),
        _case_of_letters(table, letters, f"dead-letter table of a {_kind(has_key)} table, after a discard"),
    ]


def _table(tables: Tables, name: str, schema: pa.Schema, *, has_key: bool) -> SourceTable:
    table = tables.make(f"{name}_keys" if has_key else name, schema, 1, **({"primary_key": ("id",)} if has_key else {}))
    table.info = table.world.storage.alter_table(table.info.path, PUT_ASIDE, ())
    return table


def _kind(has_key: bool) -> str:
    return "primary-key" if has_key else "log"


def _poisoned(*numbers: int) -> list[Row]:
    return [{"id": number, "text": POISON} for number in numbers]


def _write(table: SourceTable, rows: Sequence[Row]) -> None:
    """Writes rows. The poisoned ones do not count as rows of the table: of their keys the older rows do."""
    older = {row["id"]: row for row in table.rows}
    bad = {row["id"] for row in rows if row.get("text") == POISON}
    write = table.upsert if table.info.primary_key else table.append
    write(rows)
    table.rows = [row for row in table.rows if row["id"] not in bad] + [older[number] for number in bad if number in older]


def _become_rows(table: SourceTable, rows: Sequence[Row]) -> None:
    table.rows = list({row["id"]: row for row in (*table.rows, *rows)}.values())


def _perform(table: SourceTable, call: CallRequest[Any]) -> Any:
    return asyncio.run(table.world.coordinator.control.perform(call))


def _letters(table: SourceTable, count: int) -> pa.Table:
    """The right rows of the dead-letter table, of so many records, as the log has the records.

    Times, rounds and bytes of the records are as Lakeward reads them; the bytes must have the log's values.
    """
    log = [row for row in scan_all(table.world.storage, table.info).to_pylist() if row["text"] == POISON]
    bad = [row for row in log if row.get(CHANGE_TYPE_COLUMN) not in OLDER_HALVES]
    batches = read_letters(table.world.lake, table.info.path, table.world.lake_format)
    letters = sorted(chain.from_iterable(batch.to_pylist() for batch in batches), key=lambda letter: letter["offset"])
    assert len(bad) == len(letters) == count
    names = [field.name for field in table.info.schema]
    for letter, row in zip(letters, bad, strict=True):
        [raw] = row_of(letter["raw_record"]).to_pylist()
        assert {name: raw[name] for name in names} == {name: row[name] for name in names}
        letter |= {
            "table_id": table.info.table_id,
            "bucket_id": row[BUCKET_COLUMN],
            "offset": row[OFFSET_COLUMN],
            "change_type": ChangeOfRow(row.get(CHANGE_TYPE_COLUMN, ChangeOfRow.APPEND)).symbol,
            "record_time": row[TIMESTAMP_COLUMN],
            "column_name": "text",
            "reason": "its column 'text' is poison",
            "record": json.dumps({name: row[name] for name in names}, separators=(",", ":")),
        }
    return pa.Table.from_pylist(letters, schema=SCHEMA)


def _case_of_letters(table: SourceTable, letters: pa.Table, title: str) -> Case:
    """About the dead-letter table, which no later round, replay or discard may change."""
    return Case(table.layout, LETTERS, title, Question(str(dead_letter_path(table.info.path)), tuple(SCHEMA.names)), letters)
