"""The score of a lake table's health: bounds, what lowers it, and the words for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.lake.health.measure import FilePlace, FileTotals, LakeMeasure, file_totals
from tiering.lake.health.score import score_of
from tiering.lake.rules.upkeep import small_files as small_files_rule

TARGET = 1_000
KNOWN_GROWING = ("surplus_files", "delete_files", "dead_rows")
"""Measures of files that lower the score while they grow."""
GROWING = ("snapshots", "manifests", "metadata_files", "metadata_bytes")

counts = st.integers(0, 2_000_000)


@st.composite
def measures(draw: st.DrawFn) -> LakeMeasure:
    rows = draw(counts)
    files = FileTotals(
        target_bytes=TARGET,
        data_files=draw(counts),
        buckets=draw(counts),
        ideal_files=draw(counts),
        surplus_files=draw(counts),
        crowded_files=draw(counts),
        crowded_buckets=draw(counts),
        delete_files=draw(counts),
        rows=rows,
        dead_rows=draw(st.none() | st.integers(0, rows)),
    )
    return LakeMeasure(files, draw(counts), None, draw(counts), draw(counts), draw(st.integers(0, 1 << 40)))


def grown(measure: LakeMeasure, name: str, by: int) -> LakeMeasure:
    if name in GROWING:
        return replace(measure, **{name: getattr(measure, name) + by})
    files = measure.files
    return replace(measure, files=replace(files, **{name: (getattr(files, name) or 0) + by}))


def compacted(sizes: Sequence[int]) -> list[FilePlace]:
    """Places of these bytes in as few files of equal size as the target allows."""
    places = []
    for size in sizes:
        place, files = FilePlace(TARGET), max(1, -(-size // TARGET))
        for number in range(files):
            place.add_data_file(size // files + (number < size % files), 10)
        places.append(place)
    return places


def table(places: Sequence[FilePlace], **changes: Any) -> LakeMeasure:
    return replace(LakeMeasure(file_totals(places, TARGET), 1, None, 1, 4, 10_000), **changes)


def small_files(buckets: int, files: int) -> list[FilePlace]:
    places = [FilePlace(TARGET) for _ in range(buckets)]
    for place in places:
        for _ in range(files):
            place.add_data_file(1, 1)
    return places


def test_health_counts_as_small_what_rounds_and_upkeep_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of the target size is declared once, with the rules of upkeep."""
    monkeypatch.setattr(small_files_rule, "SMALL_SHARE", 0.5)
    place = FilePlace(TARGET)
    for size in (499, 500, 749):
        place.add_data_file(size, 1)
    assert (place.small_files, small_files_rule.is_small(500, TARGET)) == (1, False)


@given(measures())
def test_a_score_is_between_0_and_100_and_has_a_reason_below_100(measure: LakeMeasure) -> None:
    health = score_of(measure)
    assert 0 <= health.score <= 100
    assert (health.reason is None) == (health.score == 100)


@given(measures(), st.sampled_from((*GROWING, *KNOWN_GROWING)), counts)
def test_a_score_never_rises_while_a_measure_grows(measure: LakeMeasure, name: str, by: int) -> None:
    if name == "dead_rows":
        measure = replace(measure, files=replace(measure.files, dead_rows=measure.files.dead_rows or 0))
    assert score_of(grown(measure, name, by)).score <= score_of(measure).score


@given(st.lists(st.integers(1, 200 * TARGET), max_size=20))
def test_a_freshly_compacted_table_has_100_and_nothing_to_rewrite(sizes: list[int]) -> None:
    measure = table(compacted(sizes))
    assert score_of(measure).score == 100
    assert measure.files.rewrite_bytes == 0
    assert measure.files.data_files == measure.files.ideal_files


@given(st.lists(st.integers(1, 200 * TARGET), min_size=1, max_size=10), st.integers(1, 8))
def test_eight_small_files_beside_compacted_ones_are_healthy(sizes: list[int], added: int) -> None:
    places = compacted(sizes)
    for place in places:
        for _ in range(min(added, 8 - place.small_files)):
            place.add_data_file(1, 1)
    assert score_of(table(places)).score == 100


def test_the_table_of_the_issue_is_ill_and_says_why() -> None:
    """750 rounds of an older version: 404 MB of metadata for 75,000 rows."""
    places = small_files(3, 188) + small_files(1, 186)
    health = score_of(table(places, snapshots=750, manifests=7, metadata_files=2_257, metadata_bytes=404_000_000))
    assert health.score < 30
    assert health.reason == (
        "750 small files in 4 buckets: a scan opens 188 times as many files as needed; 404 MB in 2,257 metadata files, 20 MB are healthy"
    )


def test_the_reason_counts_crowded_buckets_alone() -> None:
    health = score_of(table(small_files(1, 18) + small_files(3, 8)))
    assert health.reason == "18 small files in 1 bucket: a scan opens 10 times as many files as needed"


def test_a_file_beyond_the_healthy_ones_is_no_illness() -> None:
    assert score_of(table(small_files(1, 9))).score == 100, "eight, and the one that a compaction leaves"
    assert 90 < score_of(table(small_files(1, 10))).score < 100


@pytest.mark.parametrize(
    ("dead", "score", "reason"),
    [
        (100, 100, None),
        (350, 87, "35 % of the rows are deleted: a scan reads and drops them"),
        (600, 75, "60 % of the rows are deleted: a scan reads and drops them"),
        (1_000, 75, "100 % of the rows are deleted: a scan reads and drops them"),
        (None, 100, None),
    ],
)
def test_deleted_rows_lower_the_score_beyond_a_tenth(dead: int | None, score: int, reason: str | None) -> None:
    place = FilePlace(TARGET)
    place.add_data_file(TARGET, 1_000)
    place.add_delete_file(dead)
    health = score_of(table([place]))
    assert (health.score, health.reason) == (score, reason)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"manifests": 101}, "101 manifests: the plan of a scan reads all of them"),
        ({"snapshots": 50_000}, "50,000 snapshots: old ones keep files that no scan of the newest reads"),
        ({"metadata_bytes": 30_000_000, "metadata_files": 1}, "30 MB in 1 metadata file, 20 MB are healthy"),
    ],
)
def test_metadata_beyond_its_bounds_lowers_the_score(changes: dict[str, int], words: str) -> None:
    health = score_of(table(compacted([500]), **changes))
    assert health.score < 100
    assert health.reason == words


def test_delete_files_beyond_one_a_bucket_lower_the_score() -> None:
    places = compacted([TARGET, TARGET])
    for _ in range(5):
        places[0].add_delete_file(0)
    assert score_of(table(places)).reason == "5 delete files for 2 buckets: a scan reads them beside the data files"
    places[0].delete_files = 2
    assert score_of(table(places)).score == 100


def test_the_worst_finding_comes_first() -> None:
    reason = score_of(table(small_files(1, 10), manifests=100_000)).reason or ""
    assert reason.startswith("100,000 manifests")
    assert "; 10 small files in 1 bucket" in reason


def test_bytes_to_rewrite_are_those_of_crowded_and_of_dead_buckets() -> None:
    crowded, full, dead = FilePlace(TARGET), FilePlace(TARGET), FilePlace(TARGET)
    crowded.add_data_file(TARGET, 10)
    for _ in range(10):
        crowded.add_data_file(3, 1)
    for place in (full, dead):
        place.add_data_file(TARGET, 10)
    full.add_delete_file(3)
    dead.add_delete_file(4)
    assert [place.rewrite_bytes for place in (crowded, full, dead)] == [30, 0, TARGET]
    assert file_totals([crowded, full, dead], TARGET).rewrite_bytes == 30 + TARGET


def test_buckets_that_share_files_may_have_nine_small_ones_for_each() -> None:
    shared = FilePlace(TARGET, buckets=4)
    for _ in range(36):
        shared.add_data_file(1, 1)
    assert shared.surplus_files == 0
    shared.add_data_file(1, 1)
    assert (shared.surplus_files, file_totals([shared], TARGET).crowded_buckets) == (1, 4)
