"""Options of tables in the embedded cluster: what is refused when one is made or altered, and what older versions let in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from support.clusters.embedded import served
from support.worlds.lake_world import LakeWorld
from tiering.cluster.writable import TableSpec
from tiering.errors import InvalidArgument
from tiering.model.schema.changes import AddColumn, DropColumn, RenameColumn
from tiering.model.tables import TablePath

PATH = TablePath("sales", "orders")
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
EVIL = {
    "iceberg.py-io-impl": "os.system",
    "iceberg.write.py-location-provider.impl": "os.system",
    "iceberg.write.data.path": "file:///tmp/x",
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    opened = LakeWorld(tmp_path)
    opened.storage.create_database(PATH.database_name)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", EVIL)
def test_an_option_that_would_reach_further_is_refused(world: LakeWorld, name: str) -> None:
    with pytest.raises(InvalidArgument, match="is not one that a table may have"):
        world.storage.create_table(PATH, TableSpec(SCHEMA, 2, properties={name: EVIL[name]}))
    world.storage.create_table(PATH, TableSpec(SCHEMA, 2, properties={"table.datalake.enabled": "true"}))
    with pytest.raises(InvalidArgument, match="is not one that a table may have"):
        world.storage.alter_table(PATH, set_properties={name: EVIL[name]})
    assert name not in world.storage.table(PATH).properties


def test_a_table_of_an_older_version_goes_on_without_such_options(tmp_path: Path) -> None:
    """The options are listed, may stay while others are set, and have no effect."""
    world = LakeWorld(tmp_path)
    table = world.table("orders")
    world.close()
    with sa.create_engine(f"sqlite:///{tmp_path / 'cluster' / 'meta.db'}").begin() as connection:
        text = json.dumps({**table.properties, **EVIL, "password": "topsecret"})
        connection.execute(sa.text("UPDATE tables SET properties = :text"), {"text": text})
    world = LakeWorld(tmp_path)
    old = world.storage.table(table.path)
    assert EVIL.items() <= old.properties.items()
    world.storage.alter_table(table.path, set_properties={"table.datalake.freshness": "3 s"})
    world.append(old, 0, 10)
    world.tier(old)
    properties = world.iceberg(old).metadata.properties
    assert not [name for name in properties if "impl" in name or "path" in name or "password" in name]
    assert "topsecret" not in str(properties)
    assert world.iceberg(old).scan().to_arrow().num_rows == 10
    world.close()


def test_values_that_may_be_secrets_are_told_to_no_caller(world: LakeWorld) -> None:
    options = {"table.datalake.enabled": "true", "iceberg.gc.enabled": "false", "comment": "Orders", "s3.secret-key": "topsecret"}
    hidden = {"table.datalake.layout": "clean", **options, "s3.secret-key": "***"}
    with served(world.storage) as remote:
        answers = [remote.create_table(PATH, TableSpec(SCHEMA, 2, properties=options)), remote.table(PATH), *remote.tables()]
        answers.append(remote.alter_table(PATH, set_properties={"table.datalake.freshness": "3 s"}))
    assert [dict(info.properties) for info in answers] == [hidden, hidden, hidden, {**hidden, "table.datalake.freshness": "3 s"}]
    assert world.storage.table(PATH).properties["s3.secret-key"] == "topsecret"


FILE_ORDER = {"table.datalake.partition": "bucket(4, id)", "table.datalake.sort": "id"}


@pytest.mark.parametrize("name", FILE_ORDER)
@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (TableSpec(SCHEMA, 1, primary_key=("id",)), "sales.orders is a primary-key table"),
        (
            TableSpec(SCHEMA, 1, properties={"table.datalake.format": "paimon"}),
            "sales.orders has the lake format paimon; only iceberg has it",
        ),
        (
            TableSpec(SCHEMA, 1, properties={"table.datalake.layout": "system-columns"}),
            "sales.orders has the layout system-columns, in which Fluss fixes",
        ),
    ],
)
def test_a_partition_or_a_sort_is_refused_where_the_files_of_the_lake_table_are_fixed(
    world: LakeWorld, name: str, spec: TableSpec, reason: str
) -> None:
    option = {name: FILE_ORDER[name]}
    with pytest.raises(InvalidArgument, match=f"the option {name} is not possible: {reason}"):
        world.storage.create_table(PATH, replace(spec, properties={**spec.properties, **option}))
    world.storage.create_table(PATH, spec)
    with pytest.raises(InvalidArgument, match=f"the option {name} is not possible: {reason}"):
        world.storage.set_table_option(PATH, name, FILE_ORDER[name])
    assert name not in world.storage.table(PATH).properties


def test_a_partition_that_the_columns_do_not_allow_is_refused_when_it_is_set(world: LakeWorld) -> None:
    with pytest.raises(InvalidArgument, match="'id' of type int64 does not have that transform"):
        world.storage.create_table(PATH, TableSpec(SCHEMA, 1, properties={"table.datalake.partition": "days(id)"}))
    with pytest.raises(InvalidArgument, match="'id' is a bucket key with that number of buckets"):
        world.storage.create_table(PATH, TableSpec(SCHEMA, 4, bucket_keys=("id",), properties=dict([*FILE_ORDER.items()][:1])))
    world.storage.create_table(PATH, TableSpec(SCHEMA, 1))
    with pytest.raises(InvalidArgument, match=r"'x', which sales\.orders does not have"):
        world.storage.set_table_option(PATH, "table.datalake.partition", "bucket(4, x)")


def test_the_option_follows_a_renamed_column_and_protects_it_from_being_dropped(world: LakeWorld) -> None:
    world.storage.create_table(
        PATH,
        TableSpec(
            SCHEMA, 1, properties={"table.datalake.partition": "bucket(4, id), truncate(2, text)", "table.datalake.sort": "text DESC"}
        ),
    )
    world.storage.alter_table(PATH, {}, [RenameColumn(("text",), "none")])
    assert world.storage.table(PATH).properties["table.datalake.partition"] == "bucket(4, id), truncate(2, `none`)"
    assert world.storage.table(PATH).properties["table.datalake.sort"] == "`none` DESC"
    with pytest.raises(InvalidArgument, match=r"'id' of sales\.orders cannot be dropped: the option table\.datalake\.partition"):
        world.storage.alter_table(PATH, {}, [DropColumn(("id",))])
    with pytest.raises(InvalidArgument, match="'id_bucket_4' has the name of a column"):
        world.storage.alter_table(PATH, {}, [AddColumn(pa.field("id_bucket_4", pa.string()))])
    world.storage.alter_table(PATH, {"table.datalake.partition": None}, [DropColumn(("id",))])
    assert world.storage.table(PATH).schema.names == ["none"]
