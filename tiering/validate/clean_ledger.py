"""Proves totals where another program rewrote files, such as a compaction: against the marker, and against the log if it is complete.

The marker has the totals of the rows that rounds wrote (`tiering.lake.proof.bucket_proof`): their number and checksum per bucket. Files of
other programs do not have the offsets of their rows, and in an unbucketed table not even the bucket. Then all buckets of the partition are
one scope.

Rows that `CALL sys.backfill_table` copied have no offsets either. The marker counts them, and their files have footers of their own.
As long as these files have exactly the rows of the marker's backfills, the rows are left out of all other checks. If another program
rewrote some of the files, the totals include the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tiering.counts import counted
from tiering.lake.base import LakeView
from tiering.lake.file_lists import ReadableLake
from tiering.lake.marker import Marker
from tiering.lake.proof.backfilled_rows import Backfill, backfilled_in
from tiering.lake.proof.bucket_proof import BucketProof, Proofs, chain_link
from tiering.lake.proof.change_sums import RowSum
from tiering.lake.proof.file_footer import sum_of
from tiering.lake.proof.row_checksum import row_checksum
from tiering.lake.rules.history import is_foreign_tiering
from tiering.lake.schema.sql_text import quoted
from tiering.model.schema.field_ids import all_fields, last_field_id
from tiering.model.tables import BUCKET_COLUMN
from tiering.validate.clean_footers import OURS_COLUMN, FileFacts
from tiering.validate.engine import Engine, Scope
from tiering.validate.lake_view import PLACE_COLUMN
from tiering.validate.log_checks import count_details
from tiering.validate.report import Report
from tiering.validate.results import Level
from tiering.validate.subject import BucketRange, Subject

NOTHING = RowSum()
BY_LEDGER = "another program rewrote files of it, whose rows have no offsets: proved by the number of rows and their checksum"
LONGEST_CHAIN = 1_000
"""Most markers that are compared: each is read from its own snapshot."""


def rewritten_scopes(engine: Engine, bucket_ranges: Sequence[BucketRange]) -> list[Scope]:
    """Returns the scopes with rows in files of other programs."""
    places = set(engine.rows(f"SELECT DISTINCT {PLACE_COLUMN}, {BUCKET_COLUMN} FROM lake WHERE NOT {OURS_COLUMN}"))
    whole = {place for place, bucket in places if bucket is None}
    scopes = [Scope(place, bucket, ()) for place, bucket in places if bucket is None or place not in whole]
    return [
        replace(scope, members=tuple(bucket_range for bucket_range in bucket_ranges if scope.has(*bucket_range.place)))
        for scope in sorted(scopes, key=lambda scope: scope.name)
    ]


def check_scope(
    engine: Engine,
    report: Report,
    scope: Scope,
    proofs: Proofs,
    level: Level,
    may_have_former_rows: Callable[[], bool],
    backfilled: RowSum = NOTHING,
) -> None:
    """Compares the scope's rows with the totals in the marker, and at level rows with the log, as far as the log is complete.

    `may_have_former_rows`: whether there may have been another partition under the name of one that is there. `backfilled`: the rows of
    backfills in the scope, which are subtracted from those of the lake.
    """
    members = scope.members
    bucket_proofs = [proofs.get(bucket_range.bucket) for bucket_range in members]
    [(rows,)] = engine.rows(f"SELECT count(*) FROM lake WHERE {scope.condition}", scope.parameters)
    rows -= backfilled.rows
    if not (members or backfilled.rows) or not all(
        _is_counted(bucket_range, proof) for bucket_range, proof in zip(members, bucket_proofs, strict=True)
    ):
        if (
            level.depth >= Level.ROWS.depth
            and members
            and all(bucket_range.readable == (bucket_range.start, bucket_range.tiered) for bucket_range in members)
        ):
            _compare_with_log(engine, report, scope, rows, may_have_former_rows, backfilled)
            return
        report.add("rows", scope.name, None, None, rows, "another program wrote files of it, and the marker does not count all of its rows")
        return
    expected = sum(proof.rows for proof in bucket_proofs if proof is not None)
    difference = count_details(expected, rows)
    if rows > expected and scope.place and may_have_former_rows():
        report.add("rows", scope.name, None, expected, rows, _too_many_or_former(expected, rows))
        return
    details = BY_LEDGER if difference is None else f"{difference}; {BY_LEDGER}"
    if backfilled.rows:
        details = f"{details}; without {counted(backfilled.rows, 'row')} that CALL sys.backfill_table copied"
    report.add("rows", scope.name, rows == expected, expected, rows, details)
    if level.depth >= Level.ROWS.depth:
        in_marker = sum_of(proof.checksum for proof in bucket_proofs if proof is not None)
        if not _has_lost_values(engine, report, scope, backfilled):
            _compare_checksums(engine, report, scope, _checksum_of_lake(engine, scope, backfilled), in_marker)


def _compare_with_log(
    engine: Engine, report: Report, scope: Scope, rows: int, may_have_former_rows: Callable[[], bool], backfilled: RowSum
) -> None:
    """Compares rows with the log if the marker does not count all of them, such as rows of another tiering service, and the log has all of
    them."""
    in_log = sum((_sum_of_log(engine, bucket_range) for bucket_range in scope.members), RowSum())
    if rows > in_log.rows and scope.place and may_have_former_rows():
        report.add("rows", scope.name, None, in_log.rows, rows, _too_many_or_former(in_log.rows, rows))
        return
    text = "by the log alone: another program wrote files of it, and the marker does not count all of its rows"
    report.add("rows", scope.name, rows == in_log.rows, in_log.rows, rows, text)
    if _has_lost_values(engine, report, scope, backfilled):
        return
    in_lake = _checksum_of_lake(engine, scope, backfilled)
    report.add("values", scope.name, in_lake == in_log.checksum, f"{in_log.checksum:016x}", f"{in_lake:016x}", text)


def _too_many_or_former(expected: int, rows: int) -> str:
    """Returns the difference in words."""
    return f"{count_details(expected, rows)}, or of a former partition of that name: files that another program rewrote do not show which"


def _sum_of_log(engine: Engine, bucket_range: BucketRange) -> RowSum:
    names = engine.proof_names
    return sum((RowSum(batch.num_rows, row_checksum(batch, names)) for batch in engine.log_batches(bucket_range)), RowSum())


def _checksum_of_lake(engine: Engine, scope: Scope, backfilled: RowSum) -> int:
    """Returns the checksum of the scope's rows in the lake without the backfilled ones."""
    own, names = ", ".join(quoted(name) for name in engine.own_columns), engine.proof_names
    rows = engine.batches(f"SELECT {own} FROM lake WHERE {scope.condition}", scope.parameters)
    return sum_of([-backfilled.checksum, *(row_checksum(batch, names) for batch in rows)])


def _has_lost_values(engine: Engine, report: Report, scope: Scope, backfilled: RowSum) -> bool:
    """Returns whether the checksums of backfilled rows may include values of columns that were dropped since, and reports that."""
    if not (backfilled.rows and _has_dropped_columns(engine)):
        return False
    text = "columns were dropped, whose values the checksums of backfilled rows may include, and another program rewrote their files"
    report.add("values", scope.name, None, None, None, text)
    return True


def _has_dropped_columns(engine: Engine) -> bool:
    """Returns whether columns were dropped, whose values the marker's checksum may include, and the log no longer has."""
    return last_field_id(engine.table.schema) > len(list(all_fields(engine.table.schema)))


def _is_counted(bucket_range: BucketRange, proof: BucketProof | None) -> bool:
    """Returns whether the marker counts all rows of a bucket. A bucket without rows needs no proof."""
    return bucket_range.start == bucket_range.tiered if proof is None else proof.since == bucket_range.start


def _compare_checksums(engine: Engine, report: Report, scope: Scope, in_lake: int, in_marker: int) -> None:
    has_dropped = _has_dropped_columns(engine)
    if any(
        bucket_range.readable != (bucket_range.start, bucket_range.tiered)
        for bucket_range in scope.members
        if bucket_range.start < bucket_range.tiered
    ):
        if has_dropped:
            text = "columns were dropped, whose values the checksum in the marker includes, and the log does not hold all rows any more"
            report.add("values", scope.name, None, f"{in_marker:016x}", f"{in_lake:016x}", text)
            return
        text = "by the ledger of rounds alone: the log does not hold all of these rows any more"
        report.add("values", scope.name, in_lake == in_marker, f"{in_marker:016x}", f"{in_lake:016x}", text)
        return
    in_log = sum_of(_sum_of_log(engine, bucket_range).checksum for bucket_range in scope.members)
    if has_dropped:
        text = "by the log alone: columns were dropped, whose values the checksum in the marker includes"
        report.add("values", scope.name, in_lake == in_log, f"{in_log:016x}", f"{in_lake:016x}", text)
        return
    if in_log != in_marker:
        text = f"the marker's checksum is {in_marker:016x}: it is not that of the rows in the log"
    else:
        text = "by the ledger of rounds and by the log"
    report.add("values", scope.name, in_lake == in_log == in_marker, f"{in_log:016x}", f"{in_lake:016x}", text)


def chain_problem(lake: ReadableLake, subject: Subject) -> tuple[int, str | None]:
    """Returns how many rounds were compared, and what breaks the chain of their markers. The chain reaches back as far as snapshots
    exist."""
    markers, marker, rounds = markers_of(lake, subject), subject.marker, 0
    while marker is not None:
        rounds += 1
        base = marker.base_round_id
        if base is not None and base not in markers:
            return rounds, None  # its snapshot expired
        others = [other for other in markers.values() if other.round_id != marker.round_id]
        if (problem := _link_problem({} if base is None else markers[base].proofs, marker, others)) is not None:
            return rounds, None if base is not None and _parent_expired(subject.view, marker) else problem
        marker = None if base is None else markers.pop(base)
    return rounds, None


def may_have_former_rows(lake: ReadableLake, subject: Subject) -> bool:
    """Returns whether the lake may have rows of a dropped partition. That is so if a marker names one, if markers do not reach back to the
    first snapshot, or if another tiering service wrote, whose partitions no marker names."""
    snapshots = subject.view.snapshots.values()
    if any(is_foreign_tiering(snapshot) for snapshot in snapshots):
        return True
    living = {bucket_range.bucket.partition_id for bucket_range in subject.bucket_ranges}
    markers, marker = markers_of(lake, subject), subject.marker
    while marker is not None and living.issuperset(bucket.partition_id for bucket in marker.buckets):
        if marker.base_round_id is None:
            firsts = {snapshot.round_id for snapshot in snapshots if snapshot.parent_id is None}
            return marker.round_id not in firsts
        marker = markers.pop(marker.base_round_id, None)
    return True


def markers_of(lake: ReadableLake, subject: Subject) -> dict[str, Marker]:
    """Returns the markers of the newest snapshots, by round."""
    newest_first = sorted(subject.view.snapshots.values(), key=lambda snapshot: -snapshot.sequence_number)
    written = [snapshot.snapshot_id for snapshot in newest_first if snapshot.round_id is not None][:LONGEST_CHAIN]
    return {marker.round_id: marker for number in written if (marker := lake.marker_at(subject.view, number)) is not None}


def _parent_expired(view: LakeView, marker: Marker) -> bool:
    """Returns whether the snapshot expired on which that of the marker builds. After a rollback it is not that of the base round, and a
    reconciliation repeats its proofs. pyiceberg's expiry removes the parent's id."""
    return any(snapshot.round_id == marker.round_id and snapshot.parent_id not in view.snapshots for snapshot in view.snapshots.values())


def _link_problem(before: Proofs, marker: Marker, others: Iterable[Marker]) -> str | None:
    for bucket, proof in marker.proofs.items():
        reached = marker.buckets.get(bucket)
        if reached is None or proof == before.get(bucket):
            continue
        goes_on = bucket in before and before[bucket].since == proof.since  # else it begins behind rows of another service
        former = before[bucket].chain if goes_on else ""
        if proof.chain == chain_link(former, marker.round_id, reached.tiered, proof.rows, proof.checksum, proof.empty):
            continue
        if all(other.proofs.get(bucket) != proof for other in others):  # else a reconciliation went back to the offset of that marker
            return f"the marker of round {marker.round_id} does not go on from that of round {marker.base_round_id} in bucket {bucket}"
    return None


def set_backfilled_apart(
    engine: Engine, backfills: Sequence[Backfill], report: Report, level: Level, checksum: Callable[[Engine, FileFacts], int]
) -> Sequence[Backfill]:
    """Reports the backfilled rows and removes them from the view `lake`.

    Returns the backfills that the totals have to include: none, or all if files of them were rewritten.
    """
    if not backfills:
        return ()
    in_footers: defaultdict[str, RowSum] = defaultdict(RowSum)
    for facts in engine.backfilled:
        assert facts.backfill is not None
        in_footers[facts.file.place or ""] += facts.backfill.sums
    live = dict(engine.rows(f"SELECT {PLACE_COLUMN}, count(*) FROM backfilled_rows GROUP BY ALL"))
    names = sorted({part.partition_name for backfill in backfills for part in backfill.buckets})
    expected = {name: backfilled_in(backfills, name, None) for name in names}
    is_whole = all(expected[name] == in_footers[name] and live.get(name, 0) == expected[name].rows for name in names)
    if not is_whole or in_footers.keys() - expected.keys():
        engine.count_backfilled()
        return backfills
    proved = engine.backfilled if level.depth >= Level.ROWS.depth else ()
    wrong = [facts.file.path for facts in proved if not _has_own_rows(engine, facts, checksum)]
    for name in names:
        texts = [_text(backfill, name) for backfill in backfills if backfilled_in([backfill], name, None).rows]
        report.add("backfilled", name or "table", True, expected[name].rows, live[name], "; ".join(texts))
    if wrong:
        report.add("values", "table", False, details=f"the file {wrong[0]} has other rows than were backfilled into it")
    return ()


def _has_own_rows(engine: Engine, facts: FileFacts, checksum: Callable[[Engine, FileFacts], int]) -> bool:
    assert facts.backfill is not None
    return checksum(engine, facts) == facts.backfill.sums.checksum


def _text(backfill: Backfill, partition_name: str) -> str:
    rows = backfilled_in([backfill], partition_name, None).rows
    verb = "was" if rows == 1 else "were"
    return f"{counted(rows, 'row')} {verb} backfilled from {backfill.source} (snapshot {backfill.source_snapshot_id})"


def report_missing(backfills: Sequence[Backfill], scopes: Sequence[Scope], report: Report) -> None:
    """Reports backfilled rows of buckets that have no row which a round did not write."""
    for place in sorted({(part.partition_name, part.bucket_id) for backfill in backfills for part in backfill.buckets}):
        rows = backfilled_in(backfills, *place).rows
        if rows and not any(scope.has(*place) for scope in scopes):
            text = f"{counted(rows, 'row')} that CALL sys.backfill_table copied {'is' if rows == 1 else 'are'} missing"
            report.add("backfilled", f"{place[0]}/{place[1]}" if place[0] else str(place[1]), False, rows, 0, text)
