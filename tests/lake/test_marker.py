"""The marker's text: everything comes back, long ones shrink, anything damaged says so."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tiering.errors import LakeUnavailable, MarkerCorrupt
from tiering.lake import marker as codec
from tiering.lake.marker import (
    LaterChange,
    Marker,
    TieredRange,
    decode,
    encode,
    next_dead_letters,
    next_left_out,
    next_skipped,
    next_superseded,
)
from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.proof.file_footer import merged
from tiering.model.tables import BucketKey

OFFSETS = st.integers(min_value=0, max_value=2**63 - 1)
RANGES = st.tuples(OFFSETS, OFFSETS).map(lambda pair: TieredRange(min(pair), max(pair)))
BUCKETS = st.dictionaries(
    st.builds(BucketKey, st.none() | st.integers(min_value=0, max_value=2**40), st.integers(min_value=0, max_value=5_000)),
    RANGES,
    max_size=300,
)
MARKERS = st.builds(
    Marker,
    cluster_id=st.text(max_size=40),
    table_id=st.integers(min_value=0, max_value=2**62),
    lake_table_uuid=st.uuids().map(str),
    round_id=st.uuids().map(str),
    tiering_epoch=st.integers(min_value=0, max_value=2**62),
    base_round_id=st.none() | st.uuids().map(str),
    buckets=BUCKETS,
    traces=st.dictionaries(
        st.builds(BucketKey, st.none() | st.integers(0, 2**40), st.integers(0, 5_000)), st.text(max_size=20), max_size=9
    ),
    proofs=st.dictionaries(
        st.builds(BucketKey, st.none() | st.integers(0, 2**40), st.integers(0, 5_000)),
        st.builds(
            BucketProof,
            OFFSETS,
            OFFSETS,
            st.integers(0, 2**64 - 1),
            st.text("0123456789abcdef", max_size=32),
            st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 50)), max_size=4).map(
                lambda runs: merged((start * 100, start * 100 + length) for start, length in dict(runs).items())
            ),
        ),
        max_size=9,
    ),
    skipped=st.dictionaries(
        st.builds(BucketKey, st.none() | st.integers(0, 2**40), st.integers(0, 5_000)),
        st.dictionaries(OFFSETS, st.none() | st.text(max_size=20), min_size=1, max_size=4).map(
            lambda records: dict(sorted(records.items()))
        ),
        max_size=4,
    ),
    dead_letters=st.dictionaries(
        st.builds(BucketKey, st.none() | st.integers(0, 2**40), st.integers(0, 5_000)),
        st.lists(OFFSETS, min_size=1, max_size=4, unique=True).map(lambda offsets: tuple(sorted(offsets))),
        max_size=4,
    ),
    superseded=st.dictionaries(
        st.builds(BucketKey, st.none() | st.integers(0, 2**40), st.integers(0, 5_000)),
        st.dictionaries(OFFSETS, st.builds(LaterChange, OFFSETS, st.sampled_from(("+I", "+U", "-D")), OFFSETS), min_size=1, max_size=4),
        max_size=4,
    ),
    left_out=st.dictionaries(
        st.builds(BucketKey, st.none() | st.integers(0, 2**40), st.integers(0, 5_000)),
        st.lists(st.integers(0, 2**40), min_size=1, max_size=4, unique=True).map(
            lambda starts: tuple((start * 100, start * 100 + 7) for start in sorted(starts))
        ),
        max_size=4,
    ),
    archives=st.none() | st.frozensets(st.integers(0, 2**40), max_size=4),
)
SMALL = Marker("c", 7, "u", "r", 3, None, {BucketKey(None, 0): TieredRange(0, 12)})


def no_file(path: str) -> bytes:
    raise AssertionError(f"{path} was read")


def through(marker: Marker) -> Marker | None:
    encoded = encode(marker)
    if encoded.overflow is None:
        return decode(encoded.properties, no_file)
    files = {"somewhere": encoded.overflow}
    return decode({**encoded.properties, codec.PATH_KEY: "somewhere"}, files.__getitem__)


def many(partitions: int, buckets: int, seed: int = 1) -> Marker:
    """Offsets without a pattern, so that compression cannot hide a bad format."""
    numbers = {
        BucketKey(partition * 3 + 17, bucket): TieredRange(0, (partition * 7_919 + bucket * 104_729) * seed % 1_000_003)
        for partition in range(partitions)
        for bucket in range(buckets)
    }
    return replace(SMALL, buckets=numbers)


@given(MARKERS)
def test_every_marker_comes_back(marker: Marker) -> None:
    assert through(marker) == marker


@given(MARKERS)
def test_the_order_of_buckets_does_not_change_the_text(marker: Marker) -> None:
    backwards = replace(marker, buckets=dict(reversed(list(marker.buckets.items()))))
    assert encode(backwards) == encode(marker)


def test_a_short_marker_is_readable_json() -> None:
    encoded = encode(SMALL)
    assert encoded.overflow is None
    assert encoded.properties[codec.ROUND_ID_KEY] == "r"
    document = json.loads(encoded.properties[codec.PLAIN_KEY])
    assert document["version"] == 1
    assert document["buckets"] == [[None, [0, 0, 12]]]


def test_2000_partitions_of_4_buckets_stay_in_the_summary() -> None:
    marker = many(2_000, 4)
    encoded = encode(marker)
    assert encoded.overflow is None
    assert set(encoded.properties) == {codec.ROUND_ID_KEY, codec.ZSTD_KEY}
    assert len(encoded.properties[codec.ZSTD_KEY]) < 64 * 1024
    assert decode(encoded.properties, no_file) == marker


def test_a_marker_beyond_the_summary_limit_goes_into_a_file() -> None:
    marker = many(60_000, 4)
    encoded = encode(marker)
    assert encoded.overflow is not None
    assert set(encoded.properties) == {codec.ROUND_ID_KEY}
    assert through(marker) == marker


def test_a_snapshot_of_another_program_has_no_marker() -> None:
    assert decode({"operation": "append", "commit-user": "spark"}, no_file) is None


def plain(**changes: object) -> dict[str, str]:
    document = {**json.loads(encode(SMALL).properties[codec.PLAIN_KEY]), **changes}
    return {codec.ROUND_ID_KEY: "r", codec.PLAIN_KEY: json.dumps(document)}


def packed(content: bytes) -> dict[str, str]:
    return {codec.ROUND_ID_KEY: "r", codec.ZSTD_KEY: base64.b64encode(content).decode()}


DAMAGED: dict[str, Callable[[], dict[str, str]]] = {
    "round id without marker": lambda: {codec.ROUND_ID_KEY: "r"},
    "marker without round id": lambda: {codec.PLAIN_KEY: "{}"},
    "two markers": lambda: {**encode(SMALL).properties, codec.PATH_KEY: "x"},
    "no json": lambda: {codec.ROUND_ID_KEY: "r", codec.PLAIN_KEY: "not json"},
    "not an object": lambda: {codec.ROUND_ID_KEY: "r", codec.PLAIN_KEY: "[1]"},
    "a key missing": lambda: {codec.ROUND_ID_KEY: "r", codec.PLAIN_KEY: '{"version":1}'},
    "another round's": lambda: plain(round_id="other"),
    "text for a number": lambda: plain(table_id="7"),
    "true for a number": lambda: plain(tiering_epoch=True),
    "two numbers a bucket": lambda: plain(buckets=[[None, [0, 1]]]),
    "tiered before start": lambda: plain(buckets=[[None, [0, 5, 4]]]),
    "a bucket twice": lambda: plain(buckets=[[None, [0, 0, 4, 0, 0, 5]]]),
    "nested without end": lambda: {codec.ROUND_ID_KEY: "r", codec.PLAIN_KEY: "[" * 100_000},
    "no base64": lambda: {codec.ROUND_ID_KEY: "r", codec.ZSTD_KEY: "%%%"},
    "no zstd": lambda: packed(b"not zstd at all"),
    "zstd cut off": lambda: packed(zstandard.ZstdCompressor().compress(b"x" * 10_000)[:-3]),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_marker_is_refused(case: str) -> None:
    with pytest.raises(MarkerCorrupt) as caught:
        decode(DAMAGED[case](), no_file)
    assert caught.value.hint
    assert not caught.value.retryable


def test_a_flipped_byte_in_a_long_marker_is_noticed() -> None:
    encoded = encode(many(60_000, 4))
    assert encoded.overflow is not None
    damaged = bytearray(encoded.overflow)
    damaged[len(damaged) // 2] ^= 0x10
    with pytest.raises(MarkerCorrupt):
        decode({**encoded.properties, codec.PATH_KEY: "somewhere"}, lambda path: bytes(damaged))


@pytest.mark.parametrize("key", [codec.PLAIN_KEY, codec.ZSTD_KEY, codec.PATH_KEY])
def test_a_marker_damaged_at_random_is_corrupt_or_still_a_marker(key: str) -> None:
    seed, big = random.Random(key), many(300, 4)
    whole = encode(SMALL).properties[key] if key == codec.PLAIN_KEY else encode(big).properties[codec.ZSTD_KEY]
    content = base64.b64decode(whole) if key == codec.PATH_KEY else whole.encode()
    refused = 0
    for _ in range(300):
        at = seed.randrange(len(content))
        damaged = [content[:at], content[:at] + seed.randbytes(3) + content[at + 3 :], content[:at] + content[at + 2 :]][seed.randrange(3)]
        text = "somewhere" if key == codec.PATH_KEY else damaged.decode("utf-8", "surrogateescape")
        try:
            decoded = decode({codec.ROUND_ID_KEY: "r", key: text}, {"somewhere": damaged}.__getitem__)
        except MarkerCorrupt:
            refused += 1
        else:
            assert isinstance(decoded, Marker)
            assert key == codec.PLAIN_KEY or decoded == big
    assert refused > 250


def test_an_unknown_version_is_named() -> None:
    with pytest.raises(MarkerCorrupt, match="version is 2; this Lakeward reads version 1"):
        decode(plain(version=2), no_file)


def test_a_missing_file_is_corrupt_but_a_lake_that_is_away_is_not() -> None:
    summary = {codec.ROUND_ID_KEY: "r", codec.PATH_KEY: "wh/.lakeward/u/x.marker"}

    def missing(path: str) -> bytes:
        raise FileNotFoundError(path)

    def away(path: str) -> bytes:
        raise LakeUnavailable("no answer")

    with pytest.raises(MarkerCorrupt, match="is missing"):
        decode(summary, missing)
    with pytest.raises(LakeUnavailable):
        decode(summary, away)


def test_a_round_keeps_what_was_left_out_below_it_and_adds_what_it_did_not_read() -> None:
    first, second, gone = BucketKey(None, 0), BucketKey(None, 1), BucketKey(None, 2)
    before = {first: {3: "a", 12: None}, gone: {1: None}}
    by_round = {first: {3: None, 11: "b", 19: None, 20: None}, second: {0: None, 7: "c"}}
    buckets = {first: TieredRange(0, 20), second: TieredRange(2, 9)}
    assert next_skipped(before, by_round, {first: 10, second: 2}, buckets) == {first: {3: "a", 11: "b", 19: None}, second: {7: "c"}}


def test_ranges_that_were_left_out_stay_as_long_as_their_bucket_has_them() -> None:
    first, second, gone = BucketKey(None, 0), BucketKey(None, 1), BucketKey(7, 0)
    before = {first: ((10, 20), (30, 35)), second: ((0, 5),), gone: ((1, 2),)}
    buckets = {first: TieredRange(12, 60), second: TieredRange(5, 9)}
    assert next_left_out(before, buckets) == {first: ((12, 20), (30, 35))}
    assert next_left_out(before, buckets, {first: ((50, 60),), second: ((7, 9),)}) == {
        first: ((12, 20), (30, 35), (50, 60)),
        second: ((7, 9),),
    }


def test_an_older_version_reads_a_marker_with_ranges_that_were_left_out() -> None:
    document = json.loads(encode(replace(SMALL, left_out={BucketKey(None, 0): ((3, 5),)})).properties[codec.PLAIN_KEY])
    assert document.pop("left_out") == [[None, [0, 3, 5]]], "a key of its own, which older versions do not read"
    assert decode({codec.ROUND_ID_KEY: "r", codec.PLAIN_KEY: json.dumps(document)}, lambda path: b"") == SMALL


@pytest.mark.parametrize("run", [[0, 5, 5], [0, 7, 3], [0, -1, 3]])
def test_a_range_without_records_is_no_left_out_range(run: list[int]) -> None:
    document = {**json.loads(encode(SMALL).properties[codec.PLAIN_KEY]), "left_out": [[None, run]]}
    with pytest.raises(MarkerCorrupt):
        decode({codec.ROUND_ID_KEY: "r", codec.PLAIN_KEY: json.dumps(document)}, lambda path: b"")


def test_a_marker_of_an_older_version_does_not_forget_what_was_left_out() -> None:
    bucket = BucketKey(None, 0)
    after = next_skipped({}, {bucket: dict.fromkeys((1, 3, 11, 20))}, {bucket: 10}, {bucket: TieredRange(2, 20)})
    assert after == {bucket: {3: None, 11: None}}, "the base marker names none, for its version knows of none"


def test_a_marker_of_an_older_version_names_left_out_records_without_traces() -> None:
    bucket = BucketKey(None, 0)
    marker = replace(SMALL, skipped={bucket: {3: "trace", 5: None}})
    document = json.loads(encode(marker).properties[codec.PLAIN_KEY])
    assert document["skipped"] == [[None, [0, 3, 0, 5]]], "as older versions read it"
    assert document.pop("skipped_traces") == [[None, [0, 3, "trace"]]]
    older = decode({codec.ROUND_ID_KEY: "r", codec.PLAIN_KEY: json.dumps(document)}, lambda path: b"")
    assert older == replace(marker, skipped={bucket: {3: None, 5: None}})


def test_a_record_that_is_not_skipped_any_more_is_no_dead_letter() -> None:
    bucket, other = BucketKey(None, 0), BucketKey(None, 1)
    skipped = {bucket: {3: "a", 5: None, 9: None}}
    assert next_dead_letters({bucket: (3, 4), other: (1,)}, {bucket: [5]}, skipped) == {bucket: (3, 5)}
    assert next_dead_letters({}, {}, skipped) == {}


def test_a_superseded_record_that_waits_again_or_is_not_skipped_is_not_superseded() -> None:
    bucket, later = BucketKey(None, 0), LaterChange(12, "+U", 5)
    before = [{bucket: {3: later, 4: later}}, {bucket: {5: later, 9: later}}]
    skipped = {bucket: {3: "a", 4: None, 5: None}}
    assert next_superseded(before, skipped, {bucket: (4,)}) == {bucket: {3: later, 5: later}}
    assert next_superseded(before, {}, {}) == {}
