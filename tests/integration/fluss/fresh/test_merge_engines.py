"""Primary-key tables of Fluss with other merge engines and changelogs: a fresh read has the rows that Fluss's own servers have."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.fluss_snapshots import snapshots_up_to
from support.clusters.fluss_tables import FlussTables
from support.fresh.served_read import served_read
from support.running.fluss_deployment import BY_HAND, FlussDeployment
from tiering.model.tables import TableInfo

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("version", pa.int64()), pa.field("text", pa.string())])
KEYS = 40


@dataclass(frozen=True)
class Kind:
    """A way to merge or to log changes."""

    properties: Mapping[str, str]
    has_deletes: bool


KINDS = {
    "default": Kind({}, has_deletes=True),
    "without before-images": Kind({"table.changelog.image": "WAL"}, has_deletes=True),
    "first row": Kind({"table.merge-engine": "first_row"}, has_deletes=False),
    "versioned": Kind({"table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "version"}, has_deletes=False),
    "aggregation": Kind({"table.merge-engine": "aggregation"}, has_deletes=False),
}


class Changes:
    """Writes changes of keys, and notes the keys."""

    def __init__(self, tables: FlussTables, table: TableInfo, kind: Kind) -> None:
        self._rng = random.Random(40)
        self._tables, self._table, self._kind = tables, table, kind
        self.written = 0

    def write(self, keys: Sequence[int]) -> None:
        """Upserts the keys, some of them twice, with versions in no order, and deletes some keys if the table allows it."""
        for _ in range(2):
            chosen = self._rng.sample(keys, len(keys) * 2 // 3)
            self._tables.upsert(self._table, [self._row(key) for key in chosen])
            self.written += len(chosen)
            if self._kind.has_deletes:
                self._tables.delete(self._table, [{"id": key} for key in self._rng.sample(keys, len(keys) // 5)])

    def _row(self, key: int) -> dict[str, Any]:
        text = self._rng.choice((None, f"text {self._rng.randrange(1_000)}"))
        return {
            "id": key,
            "version": self._rng.choice((None, *range(100))) if self._kind.has_deletes else self._rng.randrange(100),
            "text": text,
        }


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_read_has_the_rows_that_look_ups_have(service: FlussDeployment, tables: FlussTables, kind: str) -> None:
    table = tables.create(
        kind.replace(" ", "_").replace("-", "_"), SCHEMA, ["id"], buckets=2, properties={**BY_HAND, **KINDS[kind].properties}
    )
    changes = Changes(tables, table, KINDS[kind])
    changes.write(range(KEYS))
    assert_same_rows(service, tables, table)  # from the log alone
    snapshots_up_to(tables, table, KEYS // 2)
    changes.write(range(KEYS))
    assert_same_rows(service, tables, table)  # from a KV snapshot and the log
    service.lakeward("tier", str(table.path))
    assert_same_rows(service, tables, table)  # from the lake
    for _ in range(2):
        changes.write(range(KEYS // 2, KEYS + 20))
        assert_same_rows(service, tables, table)  # from the lake and the log
    service.lakeward("tier", str(table.path))
    changes.write(range(KEYS))
    assert_same_rows(service, tables, table)


def assert_same_rows(service: FlussDeployment, tables: FlussTables, table: TableInfo) -> None:
    looked_up = tables.lookup(table, [{"id": key} for key in range(KEYS + 20)])
    expected = Counter(tuple(row[name] for name in SCHEMA.names) for row in looked_up)
    assert expected
    with served_read(service.uri, table.path) as read:
        assert Counter(tuple(row[name] for name in SCHEMA.names) for row in read.rows()) == expected
