"""Whether what another service added to a clean table is adopted: by sums made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from support.lakes.lake_views import PATH, view
from tiering.errors import ForeignTieringUnproved
from tiering.lake.foreign import CleanRows, ForeignSnapshot
from tiering.lake.log_starts import LogStart
from tiering.lake.marker import TieredRange
from tiering.lake.proof.change_sums import ChangeSums, RowSum
from tiering.lake.rules.clean_comparison import ForeignHistory, check_former, compared_ends, highest
from tiering.lake.rules.former_rows import Partitions
from tiering.model.tables import BucketKey, Offsets, TableType

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
IN_P7 = BucketKey(7, 0)


def rows(count: int, checksum: int = 0) -> ChangeSums:
    return ChangeSums(RowSum(count, checksum), living=RowSum(count, checksum))


def in_log(bucket: BucketKey, start: int, stop: int) -> ChangeSums | None:
    """A log with a row at each offset from 10 to 99, whose hash is its offset."""
    return None if start < 10 or stop > 100 else rows(stop - start, sum(range(start, stop)))


def at(ranges: Mapping[BucketKey, TieredRange], stated: Offsets, kind: TableType = TableType.LOG) -> ForeignHistory:
    return ForeignHistory(view(head=2), kind, 2, ranges, stated)


def refusal(stretch: ForeignHistory, *scopes: CleanRows) -> ForeignTieringUnproved:
    with pytest.raises(ForeignTieringUnproved) as refused:
        compared_ends(stretch, scopes, in_log)
    return refused.value


def test_a_bucket_moves_to_the_end_that_is_stated_if_the_rows_are_those_of_the_log() -> None:
    scope = CleanRows(None, 0, in_log(B0, 50, 60) or rows(0))
    assert compared_ends(at({B0: TieredRange(5, 50)}, {B0: 60}), [scope], in_log).ranges == {B0: TieredRange(5, 60)}


def test_buckets_that_share_files_are_compared_together() -> None:
    sums = (in_log(B0, 50, 60) or rows(0)) + (in_log(B1, 20, 25) or rows(0))
    ranges = {B0: TieredRange(0, 50), B1: TieredRange(0, 20), IN_P7: TieredRange(0, 30)}
    moved = compared_ends(at(ranges, {B0: 60, B1: 25, IN_P7: 40}), [CleanRows(None, None, sums)], in_log).ranges
    assert moved == {B0: TieredRange(0, 60), B1: TieredRange(0, 25)}


@pytest.mark.parametrize(
    ("sums", "text"),
    [
        (rows(9), "bucket 0 was given rows that are not those of the log: 9 with the checksum 0000000000000000; the log has 10 with"),
        (rows(10, 1), "was given rows that are not those of the log: 10 with the checksum 0000000000000001; the log has 10 with"),
        (replace(rows(10, 545), deleted=RowSum(1, 0)), "was given deletes that are not those of the log: 1 with"),
    ],
)
def test_what_differs_is_refused_and_the_offsets_are_named(sums: ChangeSums, text: str) -> None:
    error = refusal(at({B0: TieredRange(0, 50)}, {B0: 60}), CleanRows(None, 0, sums))
    assert text in error.message
    assert "those of the offsets [50, 60) of bucket 0" in error.message
    assert error.hint.startswith("Set the main branch on snapshot 2")
    assert error.ids["lake_snapshot_id"] == "2"


def test_living_rows_count_for_keys() -> None:
    ranges = {B0: TieredRange(0, 50)}
    sums = in_log(B0, 50, 60) or rows(0)
    error = refusal(at(ranges, {B0: 60}, TableType.PRIMARY_KEY), CleanRows(None, 0, replace(sums, living=RowSum(9, 1))))
    assert "was given living rows that are not those of the log: 9 with" in error.message
    assert error.hint.startswith(f"CALL sys.reconcile_lake('{PATH}', 'retier')")


def of_keys(**changes: RowSum | None) -> ChangeSums:
    """Ten changes of keys, one of which is gone at the end."""
    return replace(ChangeSums(RowSum(7, 1), RowSum(3, 2), RowSum(5, 3), RowSum(1, 4)), **changes)


@pytest.mark.parametrize("untold", [{"gone": None}, {"written": None, "deleted": None}], ids=["in Iceberg", "in Paimon without changelog"])
def test_sums_that_files_do_not_tell_are_not_compared(untold: dict[str, None]) -> None:
    stretch, log = at({B0: TieredRange(0, 50)}, {B0: 60}, TableType.PRIMARY_KEY), lambda *_: of_keys()
    assert compared_ends(stretch, [CleanRows(None, 0, of_keys(**untold))], log).ranges == {B0: TieredRange(0, 60)}
    others = {name: RowSum(9, 9) for name in ("written", "deleted", "living", "gone") if name not in untold}
    for name, other in others.items():
        with pytest.raises(ForeignTieringUnproved):
            compared_ends(stretch, [CleanRows(None, 0, of_keys(**{**untold, name: other}))], log)


def test_keys_that_should_be_gone_are_named() -> None:
    stretch = at({B0: TieredRange(0, 50)}, {B0: 60}, TableType.PRIMARY_KEY)
    with pytest.raises(ForeignTieringUnproved, match=r"given deleted keys that are not those of the log: 2 with .*; the log has 1 with"):
        compared_ends(stretch, [CleanRows(None, 0, of_keys(gone=RowSum(2, 4)))], lambda *_: of_keys())


def test_a_first_round_of_keys_is_judged_by_what_lives() -> None:
    """The round may have begun with a KV snapshot, which has no older rows."""
    snapshot = ChangeSums(RowSum(3, 1), RowSum(), RowSum(90, sum(range(10, 100))))
    stretch = at({}, {B0: 100}, TableType.PRIMARY_KEY)

    def folded(bucket: BucketKey, start: int, stop: int) -> ChangeSums | None:
        return in_log(bucket, max(start, 10), stop)

    assert compared_ends(stretch, [CleanRows(None, 0, snapshot)], folded).ranges == {B0: TieredRange(0, 100)}


def test_rows_without_any_end_behind_ours_are_refused() -> None:
    error = refusal(at({B0: TieredRange(0, 50)}, {B0: 50}), CleanRows(None, 0, rows(1, 1)))
    assert "those of no offset, because it states none behind ours" in error.message


def test_ends_that_no_snapshot_states_are_refused() -> None:
    error = refusal(at({B0: TieredRange(0, 50)}, {}), CleanRows(None, 0, rows(1, 1)))
    assert "the present end of bucket 0 is unknown" in error.message
    [*_, text] = refusal(at({}, {}), CleanRows(7, None, rows(1, 1))).message.split(": ", 1)
    assert text.startswith("the present end of the partition 7 is unknown")


def test_a_log_that_does_not_hold_the_range_is_refused_and_a_word_may_adopt_it() -> None:
    error = refusal(at({B0: TieredRange(0, 5)}, {B0: 60}), CleanRows(None, 0, rows(55)))
    assert "which does not hold all of the offsets [5, 60) of bucket 0" in error.message
    assert error.ids["log_lacks"] == "[5, 60) of bucket 0"
    assert "'adopt')" in error.hint


def test_what_no_round_does_is_refused() -> None:
    error = refusal(at({B0: TieredRange(0, 50)}, {B0: 60}), CleanRows(None, 0, rows(10, 545), "it removed data files"))
    assert error.message.endswith("it removed data files, which no healthy round of that service does")


def test_without_a_former_snapshot_a_new_table_is_advised() -> None:
    stretch = replace(at({}, {B0: 60}), begins_at=None)
    assert refusal(stretch, CleanRows(None, 0, rows(1))).hint.startswith("Are its rows right all the same?")
    stretch = replace(stretch, ranges={B0: TieredRange(0, 50)})
    assert refusal(stretch, CleanRows(None, 0, rows(1))).hint.startswith("Rename or drop the lake table")


def test_the_highest_of_what_is_stated_counts() -> None:
    assert highest([{B0: 5, B1: 9}, {B0: 7}, {}]) == {B0: 7, B1: 9}


@pytest.mark.parametrize(
    ("deleted", "written", "replays"),
    [
        (RowSum(5, 7), RowSum(7, 1), False),
        (RowSum(3, 2), RowSum(7, 1), True),
        (RowSum(4, 3), RowSum(7, 1), True),
        (RowSum(2, 1), RowSum(7, 1), None),
        (RowSum(3, 2), RowSum(8, 1), None),
    ],
    ids=["all are deleted", "none", "some", "too few deletes", "other rows"],
)
def test_updates_without_a_before_image_need_a_delete_of_their_key(deleted: RowSum, written: RowSum, replays: bool | None) -> None:
    stretch = at({B0: TieredRange(5, 50)}, {B0: 60}, TableType.PRIMARY_KEY)
    scope, log = CleanRows(None, 0, of_keys(gone=None, deleted=deleted, written=written)), of_keys(replaced=RowSum(2, 5))
    if replays is None:
        with pytest.raises(ForeignTieringUnproved):
            compared_ends(stretch, [scope], lambda *_: log)
        return
    ends = compared_ends(stretch, [scope], lambda *_: log)
    assert (ends.ranges, ends.moved_back) == (({B0: TieredRange(5, 50)}, {B0}) if replays else ({B0: TieredRange(5, 60)}, set()))


def test_a_first_round_without_before_images_is_judged_by_what_lives() -> None:
    stretch, log = at({}, {B0: 60}, TableType.PRIMARY_KEY), of_keys(replaced=RowSum(2, 5))
    whole = compared_ends(stretch, [CleanRows(None, 0, of_keys(gone=None))], lambda *_: log)
    assert (whole.ranges, whole.moved_back) == ({B0: TieredRange(0, 60)}, set())
    doubled = compared_ends(stretch, [CleanRows(None, 0, of_keys(gone=None, living=RowSum(6, 9)))], lambda *_: log)
    assert (doubled.ranges, doubled.moved_back) == ({B0: TieredRange(0, 0)}, {B0})


def check_round(kind: TableType, tiered: TieredRange | None, *stated: BucketKey, adds_to: int = 7) -> None:
    """Checks a round that adds rows under the name of the living partition 7 or 8, and states the ends of some buckets."""
    stretch = at({} if tiered is None else {IN_P7: tiered}, {IN_P7: 60}, kind)
    partitions = Partitions({7, 8}, stretch.ranges, lambda _: LogStart(0, 0))
    offsets = dict.fromkeys(stated, 60)
    check_former(stretch, partitions, [ForeignSnapshot(5, {}, offsets, has_clean_rows=True, clean_partitions=frozenset({adds_to}))])


def test_rows_of_a_former_partition_that_may_have_set_keys_back_are_refused() -> None:
    former, tiered = BucketKey(3, 0), TieredRange(0, 50)
    with pytest.raises(
        ForeignTieringUnproved, match="snapshot 5 has rows under the name of the partition 7, and states nothing of it"
    ) as no:
        check_round(TableType.PRIMARY_KEY, tiered, former)
    assert "Rename the lake table" in no.value.hint
    assert "begins again" not in no.value.hint
    check_round(TableType.LOG, tiered, former)
    check_round(TableType.PRIMARY_KEY, None, former)
    check_round(TableType.PRIMARY_KEY, tiered, former, adds_to=8)
    check_round(TableType.PRIMARY_KEY, tiered, former, IN_P7)
    check_round(TableType.PRIMARY_KEY, tiered)
