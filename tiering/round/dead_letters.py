"""The driver's part in putting records aside: the limit of the whole round, and the cluster's traces of the records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiering.cluster.base import SplitSource
from tiering.cluster.log_state import traces_at
from tiering.errors import LakewardError
from tiering.lake.base import LakeView
from tiering.lake.dead_letters.letter import DeadLetter
from tiering.model.rounds import Assignment
from tiering.model.tables import BucketKey, Offsets, TableInfo
from tiering.planning.check_log import Traces, check_unchanged
from tiering.round.ports import CombinedOutcome, SplitTask, TaskOutcome


def remaining(assignment: Assignment, base: LakeView) -> int | None:
    """Returns how many records the round may put aside; None if its buckets stop before such records.

    The coordinator counted the dead letters that it knew. A commit whose ack was lost has put others aside, which only the lake names.
    """
    if assignment.dead_letters is None:
        return None
    marked = {} if base.marker is None else base.marker.dead_letters
    unknown = sum(len(set(offsets).difference(assignment.skipped.get(bucket, ()))) for bucket, offsets in marked.items())
    return max(0, assignment.dead_letters - unknown)


def over_limit(tasks: Sequence[SplitTask], outcomes: Sequence[TaskOutcome], limit: int | None) -> Mapping[int, SplitTask]:
    """Returns, by the index of an outcome, the tasks that have to run again with fewer dead letters; none if `limit` holds.

    The first splits of the first buckets keep their dead letters, so that each hour's limit moves the same buckets forward.
    """
    remaining, again = limit or 0, dict[int, SplitTask]()
    by_place = {(task.split.bucket, task.split.starting_offset): task for task in tasks}
    results = [(index, outcome.result) for index, outcome in enumerate(outcomes) if outcome.result and outcome.result.dead_letters]
    for index, result in sorted(results, key=lambda entry: (entry[1].bucket.sort_key(), entry[1].starting_offset)):
        count = len(result.dead_letters)
        if count > remaining:
            again[index] = replace(by_place[result.bucket, result.starting_offset], dead_letters=remaining)
        remaining -= min(count, remaining)
    return again


def with_traces(cluster: SplitSource, table: TableInfo, done: CombinedOutcome, traces: Traces) -> CombinedOutcome:
    """Returns the work with the cluster's trace of each dead letter, by which the record is recognized later.

    `traces` has the traces from the round's read of the log. The work fails with SourceChanged if the log was cut since then, because the
    trace would be of another record; and with the cluster's error if it does not answer, because a record without a trace would be skipped
    for ever, even after its log was cut and another record came to its offset.
    """
    letters = [letter for result in done.results for letter in result.dead_letters]
    if not letters:
        return done
    try:
        now = traces_at(cluster, table, *_offset_sets(letters))
        if not now:
            return done  # the log cannot be rewritten
        first = {letter.bucket: letter.offset for letter in sorted(letters, key=lambda letter: -letter.offset)}
        behind = {place: trace for place, trace in traces.items() if place[1] > first.get(place[0], place[1])}
        check_unchanged(table, behind, traces_at(cluster, table, *({bucket: offset} for bucket, offset in behind)))
    except LakewardError as error:
        return replace(done, error=done.error or error)
    results = [
        replace(
            result,
            dead_letters=tuple(replace(letter, trace=now.get((letter.bucket, letter.offset + 1))) for letter in result.dead_letters),
        )
        for result in done.results
    ]
    return replace(done, results=tuple(results))


def _offset_sets(letters: Sequence[DeadLetter]) -> list[Offsets]:
    """Returns sets with at most one offset of each bucket, because the cluster reads one record of a bucket at a time."""
    sets: defaultdict[int, dict[BucketKey, int]] = defaultdict(dict)
    counts = Counter[BucketKey]()
    for letter in letters:
        sets[counts[letter.bucket]][letter.bucket] = letter.offset + 1
        counts[letter.bucket] += 1
    return list(sets.values())
