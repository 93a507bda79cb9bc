"""Values of rows are for callers with SELECT: a caller who may only know of a table reads which record stops it, without its values."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from support.background import tick
from support.lake_kinds.kinds import LAKE_KINDS
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from sys_tables.declare.scan import ScanRequest
from sys_tables.query.reading import read_table
from sys_tables.registry import default_registry
from tiering.access.grants import Grants
from tiering.access.identity import Authentication, Identity, acting_as
from tiering.coordinator.decisions.records import EventRecord, Level
from tiering.coordinator.memory.history import HistoryRange
from tiering.lake.table_options import ON_BAD_RECORD
from tiering.model.refused_records import RECORD_ID, without_record
from tiering.procedures.prove_table import ReaderRows, TableProof
from tiering.procedures.set_table_option import SetTableOption
from tiering.procedures.skip_record import SkipRecord
from tiering.procedures.validate_table import CheckResult

NOW = datetime(2026, 11, 24, tzinfo=UTC)
VALUE = f"text='{POISON}'"
POLICIES = """
permit (principal == User::"ana", action in [Action::"DESCRIBE", Action::"TIER", Action::"OPERATE"], resource in Database::"sales");
permit (principal == User::"bob", action in Action::"operate", resource in Database::"sales");
"""


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poisoned]:
    """A table of which a round stopped at a record."""
    refuse_poison(monkeypatch)
    poisoned = Poisoned(tmp_path, LAKE_KINDS[0], has_key=False)
    poisoned.write((1, "row 1"), (100, POISON))
    poisoned.world.tier(poisoned.table)
    poisoned.world.tier(poisoned.table)
    (tmp_path / "policies.cedar").write_text(POLICIES)
    grants = Grants(tmp_path / "policies.cedar")
    coordinator = poisoned.world.coordinator
    monkeypatch.setattr(coordinator, "grants", grants)
    monkeypatch.setattr(coordinator.control, "_parts", replace(coordinator.control._parts, grants=grants))
    yield poisoned
    poisoned.world.close()


@contextmanager
def caller(principal: str) -> Iterator[None]:
    with acting_as(Identity(principal, Authentication.TOKEN)):
        yield


def everything_shown(poisoned: Poisoned) -> str:
    """All rows of all system tables that the caller may read."""
    view, texts = poisoned.world.coordinator.view(), []
    for table in default_registry().tables:
        if table.name not in ("audit", "grants", "tierers"):
            pieces = read_table(table, view, ScanRequest(procedures=default_registry().procedures))
            texts += [str(row) for row in pa.ipc.open_stream(b"".join(pieces)).read_all().to_pylist()]
    assert any("BucketStopped" in text for text in texts)
    return "\n".join(texts)


def stop_of(poisoned: Poisoned) -> tuple[int, int]:
    (bucket,) = [row for row in poisoned.world.coordinator.view().buckets() if row.stopped_at_offset is not None]
    assert bucket.stopped_at_offset is not None
    return bucket.bucket_id, bucket.stopped_at_offset


def test_the_record_at_which_a_bucket_stands_is_a_field_for_callers_with_select(stopped: Poisoned) -> None:
    with caller("ana"):
        assert VALUE not in everything_shown(stopped)
    with caller("bob"):
        assert VALUE in everything_shown(stopped)


def test_the_values_of_a_dead_letter_are_for_callers_with_select(stopped: Poisoned) -> None:
    set_option = SetTableOption(stopped.table.path, ON_BAD_RECORD.name, "dead-letter", caller="bob")
    with caller("bob"):
        asyncio.run(stopped.world.coordinator.control.perform(set_option))
    tick(stopped.world.coordinator)
    assert stopped.world.tier(stopped.table).error is None
    for principal, record in (("ana", None), ("bob", '{"id":100,"text":"poison"}')):
        with caller(principal):
            [letter] = stopped.world.coordinator.view().dead_letters()
        assert (letter.record, letter.reason, letter.status) == (record, "its column 'text' is poison", "waiting")


@pytest.mark.parametrize(("principal", "value"), [("ana", ""), ("bob", f"id=100, {VALUE}")])
def test_a_skipped_record_is_answered_to_callers_with_select(stopped: Poisoned, principal: str, value: str) -> None:
    bucket_id, offset = stop_of(stopped)
    call = SkipRecord(stopped.table.path, bucket_id, offset, caller=principal, idempotency_key="k")
    with caller(principal):
        assert asyncio.run(stopped.world.coordinator.control.perform(call)).value == value
        assert asyncio.run(stopped.world.coordinator.control.perform(call)).value == value
    with caller("ana"):
        assert VALUE not in everything_shown(stopped)


def test_what_a_validation_found_of_rows_is_for_callers_with_select(stopped: Poisoned) -> None:
    path = stopped.table.path
    check = CheckResult(NOW, path.database_name, path.table_name, 1, "rows", "keys", "0", None, None, False, "key ('poison') is missing", 1)
    with stopped.world.coordinator.table_records.changing():
        stopped.world.coordinator.table_records.put(validations=[check])
    with caller("ana"):
        assert [result.details for result in stopped.world.coordinator.view().validations()] == [None]
    with caller("bob"):
        assert [result.details for result in stopped.world.coordinator.view().validations()] == [check.details]


def test_what_a_proof_found_of_rows_is_for_callers_with_select(stopped: Poisoned) -> None:
    path = stopped.table.path
    readers = (ReaderRows("DuckDB", "2.0.0", 4, "cannot read 'poison'"),)
    proof = TableProof(
        NOW, path.database_name, path.table_name, "ann", 1, "differs", "key ('poison')", 4, readers, 1, "SHA256:k", "00", 9, 1
    )
    hidden = replace(proof, database_name="hr")
    with stopped.world.coordinator.table_records.changing():
        stopped.world.coordinator.table_records.put(proofs=[proof, hidden])
    with caller("ana"):
        without = replace(proof, details=None, readers=(replace(readers[0], note=None),))
        assert stopped.world.coordinator.view().proofs() == [without]
    with caller("bob"):
        assert stopped.world.coordinator.view().proofs() == [proof]


def test_what_an_older_version_wrote_of_a_record_is_for_callers_with_select(stopped: Poisoned) -> None:
    path, records = stopped.table.path, stopped.world.coordinator.table_records
    details = {"bucket_id": 0, "value": "id=1, text='poison'"}
    event = EventRecord(NOW, Level.WARN, "RECORD_SKIPPED", "left out", "ann", path.database_name, path.table_name, None, details)
    with records.changing():
        records.put(events=[event])
    for principal, names in (("ana", {"bucket_id"}), ("bob", {"bucket_id", "value"})):
        with caller(principal):
            events = stopped.world.coordinator.view().history.read_events(HistoryRange())
            [skipped] = [event for event in events if event.event_type == "RECORD_SKIPPED"]
        assert set(skipped.details) & set(details) == names


@pytest.mark.parametrize(
    ("older", "message"),
    [
        (
            "bucket 0 of a.b stands at offset 4: its rows cannot take the record there, id=0, text='x' (Invalid Input Error)",
            "bucket 0 of a.b stands at offset 4: its rows cannot take the record",
        ),
        (
            "tiering a.b failed in phase WRITE: bucket 0 of a.b stands at offset 4: its column 'c' is NOT NULL, in the row id=1",
            "tiering a.b failed in phase WRITE: bucket 0 of a.b stands at offset 4: its column 'c' is NOT NULL",
        ),
        (
            "bucket 0 of a.b stands at offset 4: it cannot be written (ValueError: year 10000): id=1",
            "bucket 0 of a.b stands at offset 4: it",
        ),
        ("the table a.b is there, and stays", "the table a.b is there, and stays"),
    ],
)
def test_messages_of_older_versions_end_before_the_record(older: str, message: str) -> None:
    assert without_record(older).rstrip() == message


def test_the_error_of_a_bucket_names_no_value(stopped: Poisoned) -> None:
    error = stopped.world.record(stopped.table).error
    assert error is not None
    assert VALUE not in error.message + error.hint
    assert VALUE in error.ids[RECORD_ID]
