"""A lake-enabled table has only columns that its lake can hold: said when it is made, altered or enabled, not round after round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.embedded import PATH, SCHEMA, EmbeddedCluster, ManualClock, make_table, served
from tiering.clock import RandomIds
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import BadRequest, InvalidName, UnknownTable
from tiering.lake import table_options
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.registry import local_lake_properties
from tiering.model.schema.changes import additions
from tiering.model.tables import TableInfo, TablePath

ENABLED = {"table.datalake.enabled": "true"}
TAKEN = pa.schema([*SCHEMA, ("id_bucket", pa.int32())])
OTHER = TablePath("sales", "other")


@pytest.fixture(params=["in process", "remote"])
def checked(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedCluster]:
    lake = IcebergLake(local_lake_properties(tmp_path))
    with EmbeddedStorage(tmp_path / "cluster", clock, RandomIds(), lake.check_schema) as storage:
        if request.param == "in process":
            yield storage
        else:
            with served(storage) as remote:
                yield remote


@pytest.mark.parametrize(
    ("column", "primary_key"),
    [("id_bucket", ()), ("ID_Bucket", ()), ("Id_bucket", ("id",)), ("_pos", ()), ("_FILE", ("id",)), ("_partition", ())],
)
def test_a_column_that_the_lake_cannot_hold_is_refused_at_each_entry(
    checked: EmbeddedCluster, column: str, primary_key: tuple[str, ...]
) -> None:
    keys = {"primary_key": primary_key, "bucket_keys": ("id",)}
    taken = pa.schema([*SCHEMA, (column, pa.int32())])
    with pytest.raises(InvalidName, match=column):
        make_table(checked, schema=taken, properties=ENABLED, **keys)
    with pytest.raises(UnknownTable):
        checked.table(PATH)

    table = make_table(checked, properties=ENABLED, **keys)
    with pytest.raises(InvalidName, match=column):
        checked.alter_table(PATH, {"table.datalake.freshness": "10 s"}, additions([pa.field(column, pa.int32())]))
    assert checked.table(PATH) == table

    apart = make_table(checked, schema=taken, path=OTHER, **keys)
    with pytest.raises(InvalidName, match=column):
        checked.alter_table(OTHER, ENABLED)
    assert checked.table(OTHER) == apart


def test_what_an_older_version_let_in_can_be_altered_in_other_ways(checked: EmbeddedCluster, tmp_path: Path) -> None:
    cluster = tmp_path / "older" / "cluster"
    with EmbeddedStorage(cluster) as older:
        make_table(older, schema=TAKEN, properties=ENABLED, bucket_keys=("id",))
    lake = IcebergLake(local_lake_properties(tmp_path / "older"))
    with EmbeddedStorage(cluster, check_lake=lake.check_schema) as storage:
        storage.alter_table(PATH, {"table.datalake.freshness": "10 s"})
        assert not storage.alter_table(PATH, {"table.datalake.enabled": "false"}).lake_enabled
        with pytest.raises(InvalidName, match="id_bucket"):
            storage.alter_table(PATH, ENABLED)


def test_a_table_that_moves_to_another_lake_format_is_checked_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_options, "has_format", lambda name: name in ("iceberg", "narrow"))

    def check(table: TableInfo) -> None:
        if table.lake_format == "narrow":
            raise BadRequest("the format holds no such table")

    with EmbeddedStorage(tmp_path / "moving", check_lake=check) as storage:
        table = make_table(storage, properties=ENABLED)
        with pytest.raises(BadRequest, match="holds no such table"):
            storage.set_table_option(PATH, "table.datalake.format", "narrow")
        assert storage.table(PATH) == table
