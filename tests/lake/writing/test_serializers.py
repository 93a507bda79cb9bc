"""Bytes from executors to the driver come back complete, stay small, and an unknown version is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.errors import Fenced, LakeTableReplaced, RoundFailed
from tiering.lake.base import Committable, LakeView, WriteResult
from tiering.lake.dead_letters.letter import DeadLetter
from tiering.lake.iceberg.writing.data_files import FilesPayload, decode_files, encode_files
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.rules.commit_check import check_committable
from tiering.lake.writing.packed import Packed
from tiering.lake.writing.sent_rounds import REMEMBERED, SentRounds
from tiering.lake.writing.serializers import deserialize_write_result, serialize_write_result
from tiering.model.tables import BucketKey, TablePath
from tiering.model.upkeep import UpkeepOrder

NUMBERS = st.integers(min_value=0, max_value=2**62)
RESULTS = st.builds(
    WriteResult,
    bucket=st.builds(BucketKey, st.none() | NUMBERS, st.integers(0, 10_000)),
    starting_offset=NUMBERS,
    reached_offset=NUMBERS,
    records=NUMBERS,
    files=NUMBERS,
    size_bytes=NUMBERS,
    payload=st.binary(max_size=200),
)


LETTERS = st.builds(
    DeadLetter,
    bucket=st.just(BucketKey(None, 0)),
    partition_name=st.none() | st.text(max_size=9),
    offset=NUMBERS,
    change_type=st.sampled_from(["+A", "-U"]),
    record_time_us=st.none() | NUMBERS,
    column=st.none() | st.text(max_size=9),
    reason=st.text(max_size=9),
    record_json=st.text(max_size=9),
    raw=st.binary(max_size=9),
    trace=st.none() | st.text(max_size=9),
)


@given(RESULTS, st.lists(LETTERS, max_size=3))
def test_dead_letters_come_back_with_their_write_result(result: WriteResult, letters: list[DeadLetter]) -> None:
    result = replace(result, dead_letters=tuple(replace(letter, bucket=result.bucket) for letter in letters))
    assert deserialize_write_result(serialize_write_result(result)) == result


@given(RESULTS)
def test_a_write_result_comes_back(result: WriteResult) -> None:
    assert deserialize_write_result(serialize_write_result(result)) == result


@given(RESULTS, st.data())
def test_cut_bytes_are_refused(result: WriteResult, data: st.DataObject) -> None:
    """Only the lake format checks the length of the payload."""
    whole = serialize_write_result(result)
    before_payload = len(whole) - len(result.payload)
    with pytest.raises(ValueError, match="write result"):
        deserialize_write_result(whole[: data.draw(st.integers(0, before_payload - 1))])


def test_an_unknown_version_is_named() -> None:
    with pytest.raises(ValueError, match="version 9"):
        deserialize_write_result(b"\x09whatever")


def test_an_unknown_version_of_the_files_is_named() -> None:
    newer = Packed(FilesPayload, "a write result's files", version=9).encode(FilesPayload("u", 0, 0, ()))
    with pytest.raises(ValueError, match="version 9"):
        decode_files(newer)


def test_bytes_that_are_no_files_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be decompressed"):
        decode_files(b"nonsense")


def test_a_file_travels_whole_and_in_some_600_bytes(kit: Any) -> None:
    table = kit.table()
    prepared = kit.prepare(table, "0b6b7f4e-7a5c-4f36-9a55-6a2d5b7f2a11", {BucketKey(None, 0): 5_000})
    (result,) = prepared.committable.results
    payload = decode_files(result.payload)
    again = decode_files(encode_files(payload))
    assert again == payload
    for sent_file, read_file in zip(payload.files, again.files, strict=True):
        assert repr(sent_file) == repr(read_file)
        assert sent_file.spec_id == read_file.spec_id
    assert len(serialize_write_result(result)) < 700


# --- the last gate before a commit

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
BASE_MARKER = Marker("c", 7, "u", "r1", 1, None, {B0: TieredRange(0, 10)})
BASE = LakeView(TablePath("d", "t"), "u", 1, 1, BASE_MARKER, {})


def result(bucket: BucketKey, start: int, stop: int) -> WriteResult:
    return WriteResult(bucket, start, stop, stop - start, 1, 100, b"")


def marker(b0: int = 20, **more: Any) -> Marker:
    fields = {"cluster_id": "c", "table_id": 7, "lake_table_uuid": "u", "round_id": "r2", "tiering_epoch": 2, "base_round_id": "r1"}
    return Marker(**{**fields, "buckets": {B0: TieredRange(0, b0), B1: TieredRange(3, 8)}, **more})


WHOLE = (result(B1, 3, 8), result(B0, 15, 20), result(B0, 10, 15))


def test_files_that_fit_the_marker_pass() -> None:
    check_committable(Committable("r2", WHOLE), BASE, marker())
    check_committable(Committable("r2", ()), BASE, marker())


@pytest.mark.parametrize(
    ("results", "complaint"),
    [
        (WHOLE[:2], "continues at offset 15, not at 10"),
        ((*WHOLE, result(B0, 20, 25)), "reach offset 25, the marker says 20"),
        ((*WHOLE, result(B0, 10, 15)), "continues at offset 10, not at 15"),
        ((result(B0, 9, 20), WHOLE[0]), "continues at offset 9, not at 10"),
        ((WHOLE[2], WHOLE[0]), "reach offset 15, the marker says 20"),
        ((result(BucketKey(None, 9), 0, 1),), "does not have bucket 9"),
        ((result(B1, 0, 8),), "continues at offset 0, not at 3"),
    ],
    ids=["a gap", "beyond the marker", "twice", "before the base", "short of the marker", "no such bucket", "before the first"],
)
def test_files_that_do_not_fit_the_marker_are_refused(results: tuple[WriteResult, ...], complaint: str) -> None:
    with pytest.raises(RoundFailed, match=complaint) as caught:
        check_committable(Committable("r2", results), BASE, marker())
    assert caught.value.error_class == "InconsistentRound"


def test_an_upkeep_round_moves_no_offset() -> None:
    upkeep = Committable("r2", (), order=UpkeepOrder())
    check_committable(upkeep, BASE, marker(b0=10, buckets=BASE.ranges))
    for ranges in (marker().buckets, {}, {**BASE.ranges, BucketKey(None, 9): TieredRange(0, 0)}):
        with pytest.raises(RoundFailed, match="other offsets than its base"):
            check_committable(upkeep, BASE, marker(buckets=ranges))


def test_the_chain_of_markers_is_never_broken() -> None:
    with pytest.raises(Fenced):
        check_committable(Committable("r2", WHOLE), BASE, marker(base_round_id=None))
    with pytest.raises(Fenced):
        check_committable(Committable("r2", WHOLE), BASE, marker(base_round_id="r0"))
    with pytest.raises(LakeTableReplaced):
        check_committable(Committable("r2", WHOLE), BASE, marker(lake_table_uuid="another"))
    with pytest.raises(RoundFailed, match="those of round r9"):
        check_committable(Committable("r9", WHOLE), BASE, marker())


def test_sent_rounds_are_remembered_but_not_for_ever() -> None:
    sent = SentRounds()
    for number in range(REMEMBERED + 1):
        sent.add(f"r{number}")
        sent.add(f"r{number}")
    assert not sent.has("r0")
    assert sent.has("r1")
    assert sent.has(f"r{REMEMBERED}")
