"""Where files of a lake may lie, by its catalog's properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiering.errors import ForbiddenLocation
from tiering.lake.iceberg.catalogs.locations import AllowedLocations

S3 = {"warehouse": "s3://bucket/lake"}


def allowed(places: AllowedLocations, location: str) -> bool:
    try:
        places.check(location)
    except ForbiddenLocation:
        return False
    return True


@pytest.mark.parametrize("location", ["s3://bucket/lake", "s3://bucket/lake/db/t/x", "s3a://bucket/lake/x", "s3n://bucket/lake/x"])
def test_what_lies_in_the_warehouse_is_allowed(location: str) -> None:
    assert allowed(AllowedLocations.of(S3), location)


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket/lakes/x",
        "s3://bucket/x",
        "s3://other/lake/x",
        "s3://bucket/lake/../x",
        "s3://bucket/lake/%2E%2e/x",
        "s3://bucket/lake/./x",
        "gs://bucket/lake/x",
        "hdfs://bucket/lake/x",
        "http://bucket/lake/x",
        "/bucket/lake/x",
        "file:///bucket/lake/x",
        "bucket/lake/x",
        "s3://user:secret@bucket/lake/x",
        "s3://[bucket/lake/x",
        "",
    ],
)
def test_everything_else_is_not(location: str) -> None:
    assert not allowed(AllowedLocations.of(S3), location)


def test_the_operator_may_allow_more() -> None:
    places = AllowedLocations.of({**S3, "lakeward.allowed-locations": "gs://imported/a, file:///data/b/"})
    assert allowed(places, "gs://imported/a/x")
    assert allowed(places, "/data/b/x")
    assert not allowed(places, "gs://imported/b")


def test_of_a_warehouse_that_is_a_name_the_tables_own_location_counts() -> None:
    places = AllowedLocations.of({"warehouse": "production"})
    assert allowed(places, "s3://any/table/metadata/1.json")
    assert not allowed(places, "/etc/passwd")
    assert not allowed(places, "hdfs://host:8020/x")
    own = places.of_table("s3://any/table", "s3://any/.lakeward/uuid")
    assert allowed(own, "s3://any/table/data/x")
    assert allowed(own, "s3://any/.lakeward/uuid/x.marker")
    assert not allowed(own, "s3://any/other/data/x")


def test_links_are_looked_up_on_both_sides(tmp_path: Path) -> None:
    real, link, outside = tmp_path / "real", tmp_path / "link", tmp_path / "outside"
    real.mkdir()
    outside.mkdir()
    link.symlink_to(real)
    (real / "out").symlink_to(outside)
    places = AllowedLocations.of({"warehouse": f"file://{link}"})
    assert allowed(places, f"file://{real}/x")
    assert allowed(places, f"{link}/x")
    assert not allowed(places, f"{link}/out/x")


def test_an_error_shows_no_secret() -> None:
    with pytest.raises(ForbiddenLocation) as caught:
        AllowedLocations.of(S3).check("s3://user:topsecret@other/x")
    assert "topsecret" not in caught.value.message
