"""The chain of digests in the marker of a clean lake table. It covers what all rounds wrote to each bucket. Pure.

A bucket's proof counts the rows that rounds wrote for the offsets from `since` on, sums their checksums (`row_checksum`), names the ranges
of offsets without a row, and links each round to the one before. `chain` is the first 32 hexadecimal digits of the SHA-256 of
`chain before|round id|tiered offset|rows|checksum|ranges without rows`, with the values after the round; "" before the first round.
In a primary-key table, rows and checksum are those of the last changes of keys that rounds wrote, even if these rows were replaced since.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiering.lake.proof.file_footer import Run, merged, parse_runs, runs_text, sum_of, without
from tiering.model.tables import BucketKey

if TYPE_CHECKING:  # both modules import this one
    from tiering.lake.base import WriteResult
    from tiering.lake.marker import TieredRange


@dataclass(frozen=True)
class BucketProof:
    """The proof of one bucket, as the module describes it."""

    since: int
    rows: int = 0
    checksum: int = 0
    chain: str = ""
    empty: tuple[Run, ...] = ()

    def linked(self, round_id: str, tiered: int, parts: Sequence[WriteResult]) -> BucketProof:
        """Returns the proof after a round that wrote `parts` and reached `tiered`."""
        rows = self.rows + sum(part.records for part in parts)
        checksum = sum_of([self.checksum, *(part.checksum or 0 for part in parts)])
        replayed = [run for part in parts for run in part.replayed]
        former = (run for start, stop in self.empty for run in without(start, stop, replayed))
        empty = merged([*former, *(run for part in parts for run in part.empty)])
        return BucketProof(self.since, rows, checksum, chain_link(self.chain, round_id, tiered, rows, checksum, empty), empty)

    @property
    def values(self) -> tuple[int, int, str, str, str]:
        """The values of the proof as they are stored. `of` reads them."""
        return self.since, self.rows, f"{self.checksum:016x}", self.chain, runs_text(self.empty)

    @staticmethod
    def of(since: int, rows: int, checksum: str, chain: str, empty: str) -> BucketProof:
        """Returns the proof of these `values`. Raises ValueError."""
        return BucketProof(since, rows, int(checksum, 16), chain, parse_runs(empty))

    @property
    def text(self) -> str:
        """The values as one ASCII text: `0/17/00000000000000a5/<chain>/4-7,9-10`. `parse` reads it."""
        return "/".join(map(str, self.values))

    @staticmethod
    def parse(text: str) -> BucketProof:
        """Returns the proof of this `text`. Raises ValueError."""
        since, rows, checksum, chain, empty = text.split("/")
        return BucketProof.of(int(since), int(rows), checksum, chain, empty)


def chain_link(before: str, round_id: str, tiered: int, rows: int, checksum: int, empty: Iterable[Run]) -> str:
    """Returns the chain after a round."""
    ranges = ",".join(f"{start}-{stop}" for start, stop in empty)
    return hashlib.sha256(f"{before}|{round_id}|{tiered}|{rows}|{checksum:016x}|{ranges}".encode("ascii")).hexdigest()[:32]


Proofs = Mapping[BucketKey, BucketProof]


def continued(
    proofs: Proofs, marked: Mapping[BucketKey, TieredRange], ranges: Mapping[BucketKey, TieredRange]
) -> dict[BucketKey, BucketProof]:
    """Returns the proofs of the buckets whose end in `ranges` is still the end in `marked`, the ranges of the marker with `proofs`.

    If another service moved an end, the next round begins a new proof. The chain links only Lakeward's rounds, and rows of the other
    service were proved against the log when they were adopted."""
    return {
        bucket: proof
        for bucket, proof in proofs.items()
        if bucket in marked and bucket in ranges and marked[bucket].tiered == ranges[bucket].tiered
    }


def advanced(
    proofs: Proofs,
    before: Mapping[BucketKey, TieredRange],
    after: Mapping[BucketKey, TieredRange],
    results: Iterable[WriteResult],
    round_id: str,
) -> dict[BucketKey, BucketProof]:
    """Returns the proofs of a marker with the ranges `after`, for a round that builds on `proofs` and `before` with these `results`.

    A bucket whose end moves without a checksum loses its proof. The next round that writes to it begins a new one there.
    """
    by_bucket: dict[BucketKey, list[WriteResult]] = defaultdict(list)
    for result in results:
        if result.reached_offset > result.starting_offset or result.records:
            by_bucket[result.bucket].append(result)
    proved: dict[BucketKey, BucketProof] = {}
    for bucket, reached in after.items():
        parts, base = by_bucket.get(bucket, []), before.get(bucket)
        if not parts:
            if bucket in proofs and base is not None and (base.start, base.tiered) == (reached.start, reached.tiered):
                proved[bucket] = proofs[bucket]
        elif bucket not in proofs and any(part.replayed for part in parts):
            continue  # a proof begins at the end of the bucket, and these records are below it
        elif all(part.checksum is not None for part in parts):
            began = proofs.get(bucket) or BucketProof(reached.start if base is None else base.tiered)
            proved[bucket] = began.linked(round_id, reached.tiered, parts)
    return proved
