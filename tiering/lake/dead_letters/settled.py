"""The marker of a commit that settles dead letters: replays them as rows, or gives up waiting for them. Pure (see the package)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tiering.lake.base import WriteResult
from tiering.lake.marker import DeadLetters, Marker, Superseded, next_superseded
from tiering.lake.proof.bucket_proof import advanced
from tiering.model.tables import BucketKey

Letters = Mapping[BucketKey, Collection[int]]
"""Offsets of dead letters by bucket."""


@dataclass(frozen=True)
class SettledLetters:
    """Dead letters that one commit settles. None of them waits afterwards.

    `replayed`: their records are rows from now on. `left_out`: their records stay out of the lake. `superseded`: the later changes of the
    keys of those in `left_out` that no user discarded.
    """

    replayed: Letters = field(default_factory=dict)
    left_out: Letters = field(default_factory=dict)
    superseded: Superseded = field(default_factory=dict)


def settled_marker(base: Marker, settled: SettledLetters, results: Sequence[WriteResult], round_id: str) -> Marker:
    """Returns `base` after a commit that settles dead letters and adds the files `results`: the ends stay.

    The caller sets the identity of the commit.
    """
    skipped = {
        bucket: {offset: trace for offset, trace in records.items() if offset not in settled.replayed.get(bucket, ())}
        for bucket, records in base.skipped.items()
    }
    waiting = _waiting_after(base.dead_letters, settled)
    return replace(
        base,
        skipped={bucket: records for bucket, records in skipped.items() if records},
        dead_letters=waiting,
        superseded=next_superseded((base.superseded, settled.superseded), skipped, waiting),
        proofs=advanced(base.proofs, base.buckets, base.buckets, results, round_id),
    )


def _waiting_after(waiting: DeadLetters, settled: SettledLetters) -> dict[BucketKey, tuple[int, ...]]:
    """Returns the dead letters that still wait."""
    remaining = {
        bucket: {*offsets}.difference(settled.replayed.get(bucket, ()), settled.left_out.get(bucket, ()))
        for bucket, offsets in waiting.items()
    }
    return {bucket: tuple(sorted(offsets)) for bucket, offsets in remaining.items() if offsets}


def settled_between(before: Marker, after: Marker) -> SettledLetters:
    """Returns the dead letters of `before` that the marker `after` of the next commit does not name any more."""
    gone = {bucket: {*offsets}.difference(after.dead_letters.get(bucket, ())) for bucket, offsets in before.dead_letters.items()}
    replayed = {bucket: offsets.difference(after.skipped.get(bucket, {})) for bucket, offsets in gone.items()}
    return SettledLetters(replayed, {bucket: offsets - replayed[bucket] for bucket, offsets in gone.items()})
