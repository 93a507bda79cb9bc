"""What a check of a primary-key table compares at a time: one bucket, or all buckets of a partition where rows do not tell theirs.

That is so in a clean table with several bucket keys, where somebody wrote files anew: rows of all buckets may lie in one file. A key is
in one bucket only, so the rows of all of them together are compared with the newest changes of all their keys.
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
    """`members` of the partition `place` ("" without partitions). `bucket` None = all its buckets."""

    place: str
    bucket: int | None
    members: tuple[Stretch, ...]

    @property
    def name(self) -> str:
        """For people: `3`, `partition/3`, `partition` or `table`."""
        return self.members[0].name if self.bucket is not None else self.place or "table"

    @property
    def condition(self) -> str:
        """SQL that is true for its rows in the view `lake`."""
        return f"{PLACE_COLUMN} = $place" if self.bucket is None else IN_BUCKET

    @property
    def parameters(self) -> Mapping[str, object]:
        """Of `condition`."""
        return {"place": self.place} if self.bucket is None else place_parameters(self.members[0])

    @property
    def log_start(self) -> int:
        """From which offset on the logs of all members hold every change."""
        return max(member.held[0] for member in self.members)

    def has(self, place: str, bucket: int | None) -> bool:
        """Whether rows of that place belong to it."""
        return self.place == place and self.bucket in (None, bucket)


def key_scopes(engine: Engine, stretches: Iterable[Stretch]) -> tuple[KeyScope, ...]:
    """The scopes of these buckets, and of partitions that were dropped where rows do not tell their bucket."""
    stretches = tuple(stretches)
    mixed: Sequence[str] = ()
    if not engine.layout.has_row_offsets:
        mixed = [place for (place,) in engine.rows(f"SELECT DISTINCT {PLACE_COLUMN} FROM lake WHERE {BUCKET_COLUMN} IS NULL ORDER BY 1")]
    single = [KeyScope(stretch.place[0], stretch.place[1], (stretch,)) for stretch in stretches if stretch.place[0] not in mixed]
    whole = [KeyScope(place, None, tuple(stretch for stretch in stretches if stretch.place[0] == place)) for place in mixed]
    return (*single, *whole)
