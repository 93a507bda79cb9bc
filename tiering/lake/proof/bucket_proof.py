"""The chain of digests in the marker of a clean lake table: what rounds wrote to each bucket, one after the other. Pure.

A bucket's proof counts the rows that rounds wrote for the offsets from `since` on, sums their checksums (`row_checksum`), names the
ranges of offsets without any row, and links each round to the one before: `chain` is the first 32 hexadecimal digits of the SHA-256 of
`chain before|round id|tiered offset|rows|checksum|ranges without rows`, all as they are after the round; "" before the first.
Of a primary-key table rows and checksum are those of the last changes of keys that rounds wrote, whatever became of them since.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tiering.lake.proof.file_footer import Run, merged, parse_runs, runs_text, sum_of
from tiering.model.tables import BucketKey


class Range(Protocol):
    """Of one bucket: its records `[start, tiered)` are in the lake."""

    @property
    def start(self) -> int: ...

    @property
    def tiered(self) -> int: ...


class Written(Protocol):
    """What a split wrote. `checksum` None: its rows have none. `empty`: those of its offsets that have no row."""

    @property
    def bucket(self) -> BucketKey: ...

    @property
    def starting_offset(self) -> int: ...

    @property
    def reached_offset(self) -> int: ...

    @property
    def records(self) -> int: ...

    @property
    def checksum(self) -> int | None: ...

    @property
    def empty(self) -> tuple[Run, ...]: ...


@dataclass(frozen=True)
class BucketProof:
    """See the module."""

    since: int
    rows: int = 0
    checksum: int = 0
    chain: str = ""
    empty: tuple[Run, ...] = ()

    def linked(self, round_id: str, tiered: int, parts: Sequence[Written]) -> BucketProof:
        """The proof after a round that wrote `parts` and so reached `tiered`."""
        rows = self.rows + sum(part.records for part in parts)
        checksum = sum_of([self.checksum, *(part.checksum or 0 for part in parts)])
        empty = merged([*self.empty, *(run for part in parts for run in part.empty)])
        return BucketProof(self.since, rows, checksum, chain_link(self.chain, round_id, tiered, rows, checksum, empty), empty)

    @property
    def values(self) -> tuple[int, int, str, str, str]:
        """The proof as it is stored; `of` reads it."""
        return self.since, self.rows, f"{self.checksum:016x}", self.chain, runs_text(self.empty)

    @staticmethod
    def of(since: int, rows: int, checksum: str, chain: str, empty: str) -> BucketProof:
        """The inverse of `values`. Raises ValueError."""
        return BucketProof(since, rows, int(checksum, 16), chain, parse_runs(empty))

    @property
    def text(self) -> str:
        """Its values as one ASCII text, which `parse` reads: `0/17/00000000000000a5/<chain>/4-7,9-10`."""
        return "/".join(map(str, self.values))

    @staticmethod
    def parse(text: str) -> BucketProof:
        """The inverse of `text`. Raises ValueError."""
        since, rows, checksum, chain, empty = text.split("/")
        return BucketProof.of(int(since), int(rows), checksum, chain, empty)


def chain_link(before: str, round_id: str, tiered: int, rows: int, checksum: int, empty: Iterable[Run]) -> str:
    """The chain after a round."""
    ranges = ",".join(f"{start}-{stop}" for start, stop in empty)
    return hashlib.sha256(f"{before}|{round_id}|{tiered}|{rows}|{checksum:016x}|{ranges}".encode("ascii")).hexdigest()[:32]


Proofs = Mapping[BucketKey, BucketProof]


def standing(proofs: Proofs, marked: Mapping[BucketKey, Range], ranges: Mapping[BucketKey, Range]) -> dict[BucketKey, BucketProof]:
    """Those of `proofs`, made with the ranges `marked`, of buckets that go on from there. Where another service moved an end, the next
    round begins a new proof: the chain links rounds of ours alone, and what others wrote was proved against the log when it was adopted."""
    return {
        bucket: proof
        for bucket, proof in proofs.items()
        if bucket in marked and bucket in ranges and marked[bucket].tiered == ranges[bucket].tiered
    }


def advanced(
    proofs: Proofs, before: Mapping[BucketKey, Range], after: Mapping[BucketKey, Range], results: Iterable[Written], round_id: str
) -> dict[BucketKey, BucketProof]:
    """The proofs of a marker with the ranges `after`, of a round that builds on `proofs` and `before` with these `results`.

    A bucket whose end moves without a checksum has none any more; the next round that writes to it begins one there.
    """
    by_bucket: dict[BucketKey, list[Written]] = defaultdict(list)
    for result in results:
        if result.reached_offset > result.starting_offset or result.records:
            by_bucket[result.bucket].append(result)
    proved: dict[BucketKey, BucketProof] = {}
    for bucket, reached in after.items():
        parts, base = by_bucket.get(bucket, []), before.get(bucket)
        if not parts:
            if bucket in proofs and base is not None and (base.start, base.tiered) == (reached.start, reached.tiered):
                proved[bucket] = proofs[bucket]
        elif all(part.checksum is not None for part in parts):
            began = proofs.get(bucket) or BucketProof(reached.start if base is None else base.tiered)
            proved[bucket] = began.linked(round_id, reached.tiered, parts)
    return proved
