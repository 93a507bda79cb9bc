"""What calls answer that clients outside of the coordinator's process make too (`tiering.client`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiering.model.rounds import RoundProgress
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class TierTableResult:
    """What `CALL sys.tier_table` answers. `state` is the round's, or EMPTY; the table's state when the call did not wait for the end."""

    path: TablePath
    round_id: str | None
    state: str
    tiering_epoch: int
    lake_snapshot_id: int | None
    splits: int | None
    records: int | None
    files: int | None
    bytes: int | None
    lag_ms_before: int | None
    lag_ms_after: int | None
    duration_ms: int


@dataclass(frozen=True)
class TierDatabaseRow:
    """What became of one table of the database. `error`: why it could not be tiered; `tiered` then says how the table stands."""

    tiered: TierTableResult
    error: str | None = None


@dataclass(frozen=True)
class TierDatabaseResult:
    """What `CALL sys.tier_database` answers: a row a table, by path."""

    rows: tuple[TierDatabaseRow, ...]


@dataclass(frozen=True)
class SweepResult:
    """What a sweep did to one lake table. `removed`: files that were (or would be) deleted; `kept`: how many others stay, by reason."""

    path: TablePath
    files: int
    removed: int
    removed_bytes: int
    kept: Mapping[str, int]
    error: str | None = None


@dataclass(frozen=True)
class SetFreshnessResult:
    """What `CALL sys.set_freshness` answers: the promise before and after, in milliseconds."""

    path: TablePath
    previous_ms: int
    freshness_ms: int


@dataclass(frozen=True)
class FenceTiererResult:
    """What `CALL sys.fence_tierer` answers. `tables_fenced`: tables that the tierer was moving."""

    tierer_id: str
    tables_fenced: int


@dataclass(frozen=True)
class WaitForTieringResult:
    """What `CALL sys.wait_for_tiering` answers. `lake_snapshot_id` is the newest one, whether or not it has the rows."""

    path: TablePath
    reached: bool
    lake_snapshot_id: int | None
    waited_ms: int


@dataclass(frozen=True)
class Progress:
    """Where a waiting call stands: a line for people and, once its round has begun to read, how far that is."""

    message: str
    round: RoundProgress | None = None
