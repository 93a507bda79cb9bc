"""Divides a primary-key table into scopes that are compared at once: one bucket, or all buckets of a partition if rows do not show theirs.

Rows do not show their bucket in a clean table with several bucket keys after another program rewrote files: rows of all buckets may be in
one file. A key is in one bucket only, so the rows of all buckets are compared with the newest changes of all their keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tiering.model.tables import BUCKET_COLUMN
from tiering.validate.engine import IN_BUCKET, Engine, place_parameters
from tiering.validate.lake_view import PLACE_COLUMN
from tiering.validate.subject import Stretch


@dataclass(frozen=True)
class KeyScope:
    """The buckets `members` of the partition `place` ("" without partitions). `bucket` None = all its buckets."""

    place: str
    bucket: int | None
    members: tuple[Stretch, ...]

    @property
    def name(self) -> str:
        """Name in texts: `3`, `partition/3`, `partition` or `table`."""
        return self.members[0].name if self.bucket is not None else self.place or "table"

    @property
    def condition(self) -> str:
        """SQL condition for the scope's rows in the view `lake`."""
        return f"{PLACE_COLUMN} = $place" if self.bucket is None else IN_BUCKET

    @property
    def parameters(self) -> Mapping[str, object]:
        """Parameters of `condition`."""
        return {"place": self.place} if self.bucket is None else place_parameters(self.members[0])

    @property
    def log_start(self) -> int:
        """Offset from which on the logs of all members have every change."""
        return max(member.held[0] for member in self.members)

    def has(self, place: str, bucket: int | None) -> bool:
        """Returns whether rows of that place belong to the scope."""
        return self.place == place and self.bucket in (None, bucket)


def key_scopes(engine: Engine, stretches: Iterable[Stretch]) -> tuple[KeyScope, ...]:
    """Returns the scopes of these buckets, and of dropped partitions whose rows do not show their bucket."""
    stretches = tuple(stretches)
    mixed: Sequence[str] = ()
    if not engine.layout.has_row_offsets:
        mixed = [place for (place,) in engine.rows(f"SELECT DISTINCT {PLACE_COLUMN} FROM lake WHERE {BUCKET_COLUMN} IS NULL ORDER BY 1")]
    single = [KeyScope(stretch.place[0], stretch.place[1], (stretch,)) for stretch in stretches if stretch.place[0] not in mixed]
    whole = [KeyScope(place, None, tuple(stretch for stretch in stretches if stretch.place[0] == place)) for place in mixed]
    return (*single, *whole)
