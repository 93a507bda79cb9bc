"""The quick proof of a scope (`key_scopes`), mostly a bucket: the lake has as many rows as the log has live keys, with the same checksum.

If the proof holds, the rows are the newest changes of their keys, each once, and no further check is needed. If it does not hold (a
difference, rows from a KV snapshot, a log that was cut), it proves nothing, and the checks compare the rows. It reads streams in any order:
only the keys of a bucket are in memory, or in DuckDB's temporary folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiering.model.tables import BUCKET_COLUMN, CHANGE_TYPE_COLUMN, OFFSET_COLUMN, ChangeType
from tiering.validate.engine import Engine
from tiering.validate.lake_view import PLACE_COLUMN, quoted
from tiering.validate.primary_key.key_scopes import KeyScope
from tiering.validate.results import Level
from tiering.validate.subject import Stretch


@dataclass(frozen=True)
class _Side:
    rows: int = 0
    digest: int = 0


def _total(sides: Sequence[_Side]) -> tuple[int, int]:
    return sum(side.rows for side in sides), sum(side.digest for side in sides)


class QuickProof:
    """Proves `scopes` of one table at one level: by the number of rows, by keys and offsets, or by all columns."""

    def __init__(self, engine: Engine, scopes: Sequence[KeyScope], level: Level) -> None:
        self._engine = engine
        self.scopes = scopes
        self._columns: list[str] = []
        if level.depth >= Level.OFFSETS.depth:
            self._columns = [*engine.table.primary_key, *([OFFSET_COLUMN] if engine.layout.has_row_offsets else [])]
        if level.depth >= Level.ROWS.depth:
            self._columns = engine.columns
        self._lake = self._read_lake()
        self._proved: dict[tuple[str, int | None], bool] = {}

    @property
    def counted(self) -> Mapping[tuple[str, int | None], int]:
        """Number of rows in the lake, by place."""
        return {place: side.rows for place, side in self._lake.items()}

    def holds(self, scope: KeyScope) -> bool:
        """Returns True if the scope is proved right at this level; False = it is not proved."""
        place = (scope.place, scope.bucket)
        if place not in self._proved:
            self._proved[place] = self._compare(scope, [side for place, side in self._lake.items() if scope.has(*place)])
        return self._proved[place]

    def _compare(self, scope: KeyScope, lake: Sequence[_Side]) -> bool:
        if scope.log_start > 0:
            return False  # rows that were last changed before the log begins may be missing, which the log cannot show
        log = [self._read_log(stretch) for stretch in scope.members]
        return _total(lake) == _total(log)

    def _digest(self) -> str:
        return self._engine.hash_of(*self._columns) if self._columns else "0::UBIGINT"

    def _read_lake(self) -> dict[tuple[str, int | None], _Side]:
        places = f"{PLACE_COLUMN}, {BUCKET_COLUMN}"
        sql = f"SELECT {places}, count(*), sum({self._digest()}) FROM lake GROUP BY {places}"
        return {(place, bucket): _Side(rows, int(digest)) for place, bucket, rows, digest in self._engine.rows(sql)}

    def _read_log(self, stretch: Stretch) -> _Side:
        """Returns the number and checksum of the newest changes of the keys that are not deleted."""
        start, stop = stretch.held
        wanted = [OFFSET_COLUMN, CHANGE_TYPE_COLUMN, *self._engine.table.primary_key, *self._columns]
        with self._engine.log(stretch, start, stop, list(dict.fromkeys(wanted))) as log:
            [(rows, digest)] = self._engine.rows(
                f"SELECT count(*), sum((__lakeward_newest & {_DIGEST_MASK})::UBIGINT) FROM ({_newest(self._engine, self._digest(), log)}) "
                f"WHERE __lakeward_newest & {_LIVES} <> 0"
            )
        return _Side(rows, int(digest or 0))


_DIGEST_MASK = f"{(1 << 64) - 1}::UHUGEINT"
_LIVES = f"{1 << 64}::UHUGEINT"


def _newest(engine: Engine, digest: str, log: str) -> str:
    """Returns SQL of the greatest (offset, whether it lives, digest) of each key, in the bits of one number: far cheaper than `arg_max`."""
    keys = ", ".join(quoted(key) for key in engine.table.primary_key)
    lives = f"({CHANGE_TYPE_COLUMN} <> {int(ChangeType.DELETE)})::UBIGINT"
    return (
        f"SELECT max((({OFFSET_COLUMN}::UBIGINT * 2 + {lives})::UHUGEINT << 64) | {digest}::UHUGEINT) AS __lakeward_newest FROM {log} "
        f"WHERE {CHANGE_TYPE_COLUMN} <> {int(ChangeType.UPDATE_BEFORE)} GROUP BY {keys}"
    )
