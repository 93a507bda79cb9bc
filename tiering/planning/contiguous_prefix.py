"""The contiguous prefix: which write results of a round may be committed. Pure (DESIGN 6 step 5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tiering.lake.base import WriteResult
from tiering.model.tables import BucketKey, Offsets


@dataclass(frozen=True)
class Prefix:
    """Results without a gap from each bucket's base, the offsets that they reach, and the results behind a gap."""

    kept: tuple[WriteResult, ...]
    reached: Offsets
    left_out: tuple[WriteResult, ...]


def contiguous_prefix(results: Iterable[WriteResult], bases: Offsets) -> Prefix:
    """Returns, per bucket, the results that follow each other from `bases` on. The order of `results` does not matter."""
    by_bucket: dict[BucketKey, list[WriteResult]] = defaultdict(list)
    for result in results:
        by_bucket[result.bucket].append(result)
    kept: list[WriteResult] = []
    left_out: list[WriteResult] = []
    reached: dict[BucketKey, int] = dict(bases)
    for bucket in sorted(by_bucket, key=BucketKey.sort_key):
        for result in sorted(by_bucket[bucket], key=lambda result: (result.starting_offset, result.reached_offset)):
            if result.starting_offset == reached.get(bucket):
                kept.append(result)
                reached[bucket] = result.reached_offset
            else:
                left_out.append(result)
    return Prefix(tuple(kept), reached, tuple(left_out))
