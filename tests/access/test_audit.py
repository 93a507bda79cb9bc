"""The audit's file: what a full disk, a torn line and a failed change of files leave of it, and how much of it a reader reads."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tiering.access.audit import ANSWERED, KEPT_FILES, KEPT_REFUSED_FILES, REFUSALS, REFUSED, AuditEntry, AuditTrail
from tiering.access.line_limit import WINDOW_SECONDS
from tiering.errors import StoreError

ONE_LINE = 400
"""Bytes that hold a line of these tests, and not two."""


def entry(call_id: str, message: str | None = None) -> AuditEntry:
    return AuditEntry(
        call_id, "2026-11-26T00:00:00+00:00", "ann", "token", None, "", "sys.pause_table", None, True, ANSWERED, None, message, None
    )


def refusal(call_id: str, principal: str = "eve") -> AuditEntry:
    return replace(entry(call_id), principal=principal, allowed=False, outcome=REFUSED)


def ids(trail: AuditTrail) -> list[str]:
    return [known.call_id for known in trail.entries()]


@contextmanager
def room_for(bytes_of_a_file: int) -> Iterator[None]:
    """No file of this process grows beyond that: a write is cut there, and the next fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_a_file, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_files_are_kept_under_numbers_and_read_newest_first(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl", file_bytes=ONE_LINE)
    for number in range(KEPT_FILES + 3):
        trail.add(entry(str(number)))
    assert ids(trail) == [str(number) for number in range(KEPT_FILES + 2, 1, -1)]
    assert len(list(tmp_path.glob("audit.jsonl*"))) == KEPT_FILES + 1


def test_refused_calls_push_out_no_line_of_what_was_done(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl", file_bytes=ONE_LINE)
    trail.add(entry("done"))
    for number in range(20 * KEPT_FILES):
        trail.add(refusal(f"refused-{number}", principal=f"eve-{number}"))
    assert [call_id for call_id in ids(trail) if not call_id.startswith("refused")] == ["done"]
    assert len(ids(trail)) == 1 + 1 + KEPT_REFUSED_FILES


def test_refused_calls_of_one_principal_are_counted_beyond_a_number_of_lines(tmp_path: Path) -> None:
    seconds = [0.0]
    trail = AuditTrail(tmp_path / "audit.jsonl", clock=lambda: seconds[0])
    for number in range(REFUSALS + 40):
        trail.add(refusal(f"eve-{number}"))
    trail.add(refusal("bob", principal="bob"))
    trail.add(entry("done"))
    assert len(ids(trail)) == REFUSALS + 2
    seconds[0] = WINDOW_SECONDS
    trail.add(refusal("later"))
    texts = [known.message for known in trail.entries() if known.message]
    assert texts == ["40 more calls of the 60 s before were refused, and have no line of their own"]


def test_lines_of_both_files_are_read_by_time(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl")
    for number in range(6):
        line = entry(str(number)) if number % 2 else refusal(str(number))
        trail.add(replace(line, occurred_at=f"2026-11-26T00:00:0{number}+00:00"))
    assert ids(trail) == ["5", "4", "3", "2", "1", "0"]


def test_a_file_that_cannot_be_begun_leaves_the_one_before_in_use(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl", file_bytes=ONE_LINE)
    trail.add(entry("first"))
    hindrance = tmp_path / "audit.jsonl.next"
    hindrance.mkdir()
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be written"):
            trail.add(entry("lost"))
    bystander = tmp_path / "bystander"
    with bystander.open("w"):  # its descriptor is the lowest free number
        with pytest.raises(StoreError):
            trail.add(entry("lost"))
        assert ids(trail) == ["first"]
        hindrance.rmdir()
        trail.add(entry("second"))
    assert bystander.read_text() == ""
    assert ids(trail) == ["second", "first"]


def test_a_change_of_files_that_failed_half_way_loses_none_of_those_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl", file_bytes=ONE_LINE)
    for number in range(KEPT_FILES + 1):
        trail.add(entry(str(number)))
    replace = Path.replace

    def fails_for(name: str) -> None:
        def failing(source: Path, target: Path) -> Path:
            if source.name == name:
                raise OSError("the disk is away")
            return replace(source, target)

        monkeypatch.setattr(Path, "replace", failing)

    for name in ("audit.jsonl.4", "audit.jsonl.1", "audit.jsonl", "audit.jsonl.next"):
        fails_for(name)
        for _ in range(3):
            with pytest.raises(StoreError):
                trail.add(entry("lost"))
    monkeypatch.undo()
    trail.add(entry("newest"))
    assert ids(trail) == ["newest", *(str(number) for number in range(KEPT_FILES, 0, -1))]


def test_a_line_for_which_there_is_no_room_leaves_nothing_of_itself(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    trail = AuditTrail(file)
    trail.add(entry("first"))
    before = file.read_bytes()
    with room_for(len(before) + 20), pytest.raises(StoreError):
        trail.add(entry("lost"))
    assert file.read_bytes() == before
    trail.add(entry("second"))
    assert ids(trail) == ["second", "first"]


def test_a_half_line_does_not_take_the_next_with_it(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    trail = AuditTrail(file)
    trail.add(entry("first"))
    trail.close()
    whole = file.stat().st_size
    with file.open("ab") as torn:
        torn.write(b'{"call_id": "torn", "occ')
    trail = AuditTrail(file)
    trail.add(entry("second"))
    trail.add(entry("third"))
    assert ids(trail) == ["third", "second", "first"]
    assert file.read_bytes()[whole:].startswith(b'{"call_id": "torn", "occ\n{')


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c"])
def test_a_separator_in_a_text_hides_no_entry(tmp_path: Path, separator: str) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl")
    trail.add(entry("first", f"two{separator}parts"))
    assert [known.message for known in trail.entries()] == [f"two{separator}parts"]


def test_lines_longer_than_a_block_and_damaged_ones_are_read_too(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    trail = AuditTrail(file)
    trail.add(entry("long", "x" * 200_000))
    with file.open("ab") as damaged:
        damaged.write(b"\xff\xfe\n\n[]\n")
    for number in range(500):
        trail.add(entry(str(number), "y" * number))
    assert ids(trail) == [*(str(number) for number in range(499, -1, -1)), "long"]


def test_the_newest_entry_is_read_without_the_rest_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    with file.open("wb") as large:
        large.truncate(1 << 36)  # a hole: no process can read all of it
    trail = AuditTrail(file, file_bytes=1 << 37)
    trail.add(entry("newest"))
    assert [known.call_id for known in islice(trail.entries(), 1)] == ["newest"]


def test_files_that_fill_up_while_they_are_read_are_read_once(tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl", file_bytes=ONE_LINE)
    for number in range(4):
        trail.add(entry(str(number)))
    reading = trail.entries()
    assert next(reading).call_id == "3"
    trail.add(entry("4"))
    assert [known.call_id for known in reading] == ["2", "1", "0"]
    assert not os.path.exists(tmp_path / "audit.jsonl.next")
