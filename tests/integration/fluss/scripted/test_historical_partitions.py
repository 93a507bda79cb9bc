"""Tables with the partition `__historical__` of Fluss 1.0 (FIP-28), whose rows belong to partitions that the log does not name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.background import tick
from support.scripted.cluster import HISTORICAL
from support.scripted.world import ScriptedFlussWorld
from tiering.cluster.fluss.table_json import HISTORICAL_OPTION
from tiering.errors import UnsupportedType
from tiering.model.tables import BucketKey

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string())])

pytestmark = pytest.mark.parametrize("release", ["1.0"])


def _rows(day: str, *ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": ids, "day": [day] * len(ids)}, schema=SCHEMA)


@pytest.mark.parametrize("is_on", [True, False])
def test_a_table_with_rows_of_expired_partitions_waits_alone_and_loses_nothing(world: ScriptedFlussWorld, is_on: bool) -> None:
    days, info = world.create("days", SCHEMA, partition_keys=["day"], properties={HISTORICAL_OPTION: "true"})
    others, other_info = world.create("others", SCHEMA)
    for name in ("2026-11-30", HISTORICAL):
        partition = world.fluss.add_partition(days, name)
        world.fluss.append(days, _rows(name, 1, 2), BucketKey(partition.partition_id, 0))
    world.fluss.append(others, _rows("2026-11-30", 3))
    days.properties[HISTORICAL_OPTION] = str(is_on).lower()
    tick(world.coordinator)
    outcomes = world.outcomes()
    assert outcomes[other_info.table_id] is None
    error = outcomes[info.table_id]
    assert isinstance(error, UnsupportedType)
    assert HISTORICAL in error.message
    assert HISTORICAL_OPTION in error.message
    assert world.fluss.recorded(days) == {}
    assert world.lake.view(info.path) is None


def test_a_table_is_tiered_again_once_the_option_is_off_and_no_row_was_written(world: ScriptedFlussWorld) -> None:
    days, info = world.create("days", SCHEMA, partition_keys=["day"], properties={HISTORICAL_OPTION: "true"})
    partition = world.fluss.add_partition(days, "2026-11-30")
    world.fluss.append(days, _rows("2026-11-30", 1, 2), BucketKey(partition.partition_id, 0))
    assert isinstance(world.outcomes()[info.table_id], UnsupportedType)
    days.properties[HISTORICAL_OPTION] = "false"
    tick(world.coordinator)
    assert world.outcomes() == {info.table_id: None}
    assert world.lake_ids(info) == [1, 2]
