"""Lake tables are published in a second catalog: a REST catalog with Iceberg's own handlers, a SQL catalog, and moto's Glue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from support.running.rest_catalog import rest_catalog
from support.running.s3_server import ACCESS_KEY, REGION, SECRET_KEY, s3_server
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.errors import AlreadyExists, Fenced, InvalidArgument
from tiering.lake.health.table_health import Publication
from tiering.lake.iceberg.catalogs.second import PUBLISH_BY_DROP, IcebergSecondCatalog
from tiering.model.tables import TableInfo
from tiering.redaction.redact import redact

NAME = "unity"
KEYS = {"region": REGION, "access-key-id": ACCESS_KEY, "secret-access-key": SECRET_KEY}
"""How moto's Glue is opened."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    overwriting, plain = tmp_path_factory.mktemp("overwriting"), tmp_path_factory.mktemp("plain")
    aws = s3_server(tmp_path_factory.mktemp("aws") / "log", "any")  # moto's server answers for Glue as well
    with rest_catalog(overwriting, overwrites=True) as first, rest_catalog(plain) as second, aws as glue:
        yield {"overwrite": first, "plain": second, "glue": glue}


@pytest.fixture(params=["rest", "rest_by_drop", "sql", "glue"])
def properties(request: pytest.FixtureRequest, servers: Mapping[str, str], tmp_path: Path) -> dict[str, str]:
    return {
        "glue": {"type": "glue", "glue.endpoint": servers["glue"], **{f"glue.{name}": value for name, value in KEYS.items()}},
        "rest": {"type": "rest", "uri": servers["overwrite"]},
        "rest_by_drop": {"type": "rest", "uri": servers["plain"], PUBLISH_BY_DROP: "true"},
        "sql": {"type": "sql", "uri": f"sqlite:///{tmp_path}/second.db"},
    }[request.param]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    opened = LakeWorld(tmp_path)
    yield opened
    opened.close()


def publish_in(world: LakeWorld, properties: Mapping[str, str]) -> Catalog:
    """Restarts the coordinator with the second catalog, and returns that catalog as its readers open it."""
    world.second_catalog = IcebergSecondCatalog(NAME, properties, world.lake_properties)
    world.restart()
    return load_catalog(NAME, **{name: value for name, value in properties.items() if name != PUBLISH_BY_DROP})


def new_table(world: LakeWorld, tmp_path: Path, **options: str) -> TableInfo:
    """A table whose name no other test has, because the servers are shared."""
    return world.table("t_" + "".join(letter if letter.isalnum() else "_" for letter in tmp_path.name), **options)


def tier(world: LakeWorld, table: TableInfo, count: int = 10) -> None:
    world.append(table, sum(world.ends(table).values()), count)
    assert world.tier(table).error is None


def publication(world: LakeWorld, table: TableInfo) -> Publication:
    state = world.coordinator.publisher.publication(world.record(table), world.clock.now())
    assert state is not None
    return state


def location(catalog: Catalog, table: TableInfo) -> str:
    return str(catalog.load_table(str(table.path)).metadata_location)


def test_the_second_catalog_follows_each_commit(world: LakeWorld, properties: dict[str, str], tmp_path: Path) -> None:
    second = publish_in(world, properties)
    table = new_table(world, tmp_path)
    for rows in (10, 20, 30):
        tier(world, table)
        world.coordinator.publisher.publish()
        published = second.load_table(str(table.path))
        assert published.metadata_location == world.iceberg(table).metadata_location
        assert sorted(published.scan().to_arrow()["id"].to_pylist()) == list(range(rows))
        assert publication(world, table) == Publication(world.record(table).lake.snapshot_id, world.clock.now(), 0)


def test_the_row_of_sys_has_the_lag(world: LakeWorld, properties: dict[str, str], tmp_path: Path) -> None:
    publish_in(world, properties)
    table = new_table(world, tmp_path)
    tier(world, table)
    world.coordinator.publisher.publish()
    first = world.record(table).lake.snapshot_id
    tier(world, table)
    committed = world.clock.now()
    world.clock.advance(7)
    [row] = world.coordinator.view().lake_health()
    assert (row.published_snapshot_id, row.publish_lag_ms, row.publish_error) == (first, 7_000, None)
    world.coordinator.publisher.publish()
    [row] = world.coordinator.view().lake_health()
    assert (row.published_snapshot_id, row.publish_lag_ms) == (world.record(table).lake.snapshot_id, 0)
    assert row.published_time is not None
    assert row.published_time > committed


def test_after_a_restart_only_the_newest_version_is_published(world: LakeWorld, properties: dict[str, str], tmp_path: Path) -> None:
    second = publish_in(world, properties)
    table = new_table(world, tmp_path)
    tier(world, table)
    world.coordinator.publisher.publish()
    for _ in range(3):
        tier(world, table)
    world.restart()
    assert publication(world, table) == Publication()
    world.coordinator.publisher.publish()
    assert location(second, table) == world.iceberg(table).metadata_location
    assert publication(world, table).lag_ms == 0


def test_a_change_beside_rounds_is_published_within_a_minute(world: LakeWorld, properties: dict[str, str], tmp_path: Path) -> None:
    second = publish_in(world, properties)
    table = new_table(world, tmp_path)
    tier(world, table)
    world.coordinator.publisher.publish()
    with world.iceberg(table).transaction() as change:
        change.set_properties({"comment": "by hand"})
    world.coordinator.publisher.publish()
    assert location(second, table) != world.iceberg(table).metadata_location
    world.clock.advance(60)
    world.coordinator.publisher.publish()
    assert location(second, table) == world.iceberg(table).metadata_location


@pytest.mark.parametrize("folder", ["lake/other", "elsewhere"])
def test_a_table_of_another_origin_is_not_replaced(world: LakeWorld, properties: dict[str, str], folder: str, tmp_path: Path) -> None:
    second = publish_in(world, properties)
    table = new_table(world, tmp_path)
    second.create_namespace_if_not_exists("sales")
    other = second.create_table(str(table.path), SCHEMA, location=str(tmp_path / folder))
    tier(world, table)
    world.coordinator.publisher.publish()
    assert location(second, table) == other.metadata_location
    assert f"AlreadyExists: the catalog 'unity' has another table {table.path}" in str(publication(world, table).error)


def test_a_stale_coordinator_moves_no_table_back(world: LakeWorld, properties: dict[str, str], tmp_path: Path) -> None:
    second = publish_in(world, properties)
    table = new_table(world, tmp_path)
    tier(world, table)
    earlier = world.view(table)
    tier(world, table)
    stale = world.coordinator
    stale.publisher.publish()
    assert world.second_catalog is not None
    with pytest.raises(AlreadyExists, match=r"a version of .* that the lake table never had"):
        world.second_catalog.publish(earlier, lambda: None)
    assert location(second, table) == world.iceberg(table).metadata_location
    world.coordinator = world._start()  # another coordinator takes the store over
    tier(world, table)
    before = location(second, table)
    world.clock.advance(60)
    with pytest.raises(Fenced):
        stale.publisher.publish()
    assert location(second, table) == before
    world.coordinator.publisher.publish()
    assert location(second, table) == world.iceberg(table).metadata_location


def test_a_commit_through_the_second_catalog_is_not_overwritten(world: LakeWorld, properties: dict[str, str], tmp_path: Path) -> None:
    second = publish_in(world, properties)
    table = new_table(world, tmp_path)
    tier(world, table)
    world.coordinator.publisher.publish()
    with second.load_table(str(table.path)).transaction() as change:
        change.set_properties({"comment": "through the second catalog"})
    foreign = location(second, table)
    tier(world, table)
    world.coordinator.publisher.publish()
    assert location(second, table) == foreign
    assert "a version of" in str(publication(world, table).error)
    second.drop_table(str(table.path))  # what the hint says
    world.clock.advance(60)
    world.coordinator.publisher.publish()
    assert location(second, table) == world.iceberg(table).metadata_location
    assert publication(world, table).error is None


def test_a_table_comes_back_although_its_published_metadata_file_is_deleted(
    world: LakeWorld, properties: dict[str, str], tmp_path: Path
) -> None:
    second = publish_in(world, properties)
    table = new_table(world, tmp_path)
    tier(world, table)
    world.coordinator.publisher.publish()
    first = location(second, table)
    tier(world, table)
    Path(first.removeprefix("file://")).unlink()
    world.coordinator.publisher.publish()
    assert location(second, table) == world.iceberg(table).metadata_location


def test_a_server_that_cannot_overwrite_is_named_with_the_way_out(world: LakeWorld, servers: Mapping[str, str], tmp_path: Path) -> None:
    second = publish_in(world, {"type": "rest", "uri": servers["plain"]})
    table = new_table(world, tmp_path)
    tier(world, table)
    world.coordinator.publisher.publish()
    first = location(second, table)
    tier(world, table)
    world.coordinator.publisher.publish()
    assert location(second, table) == first
    error = str(publication(world, table).error)
    assert "did not overwrite its table" in error
    assert f"--publish-property {PUBLISH_BY_DROP}=true" in error


def test_rounds_continue_while_the_second_catalog_is_down(world: LakeWorld, tmp_path: Path) -> None:
    world.second_catalog = IcebergSecondCatalog(NAME, {"type": "rest", "uri": "http://127.0.0.1:1"}, world.lake_properties)
    world.restart()
    table = new_table(world, tmp_path)
    tier(world, table)
    world.coordinator.publisher.publish()
    tier(world, table)
    world.clock.advance(5)
    state = publication(world, table)
    assert state.snapshot_id is None
    assert state.lag_ms == 5_000
    assert str(state.error).startswith(f"LakeUnavailable: cannot publish {table.path} in the catalog 'unity': ")
    world.assert_exact(table)


def test_other_programs_read_the_published_primary_key_table(world: LakeWorld, properties: dict[str, str], tmp_path: Path) -> None:
    second = publish_in(world, properties)
    table = world.primary_key_table("k_" + "".join(letter if letter.isalnum() else "_" for letter in tmp_path.name))
    for text in ("first", "second"):
        rows: list[dict[str, Any]] = [{"id": key, "text": f"{text} {key}"} for key in range(10)]
        world.storage.upsert(table.path, pa.Table.from_pylist(rows, schema=table.schema), "w", int(text == "second"))
        assert world.tier(table).error is None
        world.coordinator.publisher.publish()
    published = second.load_table(str(table.path)).scan().to_arrow().select(["id", "text"]).sort_by("id")
    assert published.to_pylist() == rows


def test_a_secret_of_the_second_catalog_is_masked(world: LakeWorld, tmp_path: Path) -> None:
    IcebergSecondCatalog(NAME, {"type": "rest", "uri": "http://127.0.0.1:1", "token": "sec-ond-12345"}, world.lake_properties)
    assert "sec-ond-12345" not in redact("the token sec-ond-12345 was refused")


@pytest.mark.parametrize(
    ("name", "properties", "message"),
    [
        ("lake", {"type": "rest"}, "the lake's own catalog"),
        ("unity", {"type": "hadoop"}, "cannot be published in a catalog of type 'hadoop'"),
        ("a b", {"type": "rest"}, "a b"),
        ("unity", {"type": "rest", "py-io-impl": "x.Y"}, "names code"),
    ],
)
def test_a_catalog_that_cannot_be_one_is_refused(name: str, properties: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        IcebergSecondCatalog(name, properties, {})
