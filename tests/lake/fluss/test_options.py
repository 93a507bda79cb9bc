"""The lake in Fluss's words: the examples of its documentation, and what cannot be mapped."""

from __future__ import annotations

import pytest

from tiering.errors import InvalidArgument
from tiering.lake.catalog_properties import public_properties
from tiering.lake.fluss.options import lake_of_fluss

QUICKSTART = {
    "zookeeper.address": "zookeeper:2181",
    "remote.data.dir": "s3://fluss/remote-data",
    "s3.access-key": "of-fluss-itself",
    "datalake.format": "iceberg",
    "datalake.iceberg.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
    "datalake.iceberg.name": "fluss_catalog",
    "datalake.iceberg.uri": "jdbc:postgresql://postgres:5432/iceberg",
    "datalake.iceberg.jdbc.user": "iceberg",
    "datalake.iceberg.jdbc.password": "p@ss/word",
    "datalake.iceberg.warehouse": "s3://fluss/iceberg",
    "datalake.iceberg.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    "datalake.iceberg.s3.endpoint": "http://rustfs:9000",
    "datalake.iceberg.s3.access-key-id": "rustfsadmin",
    "datalake.iceberg.s3.secret-access-key": "rustfssecret",
    "datalake.iceberg.s3.path-style-access": "true",
    "datalake.iceberg.client.region": "us-east-1",
}


def options(**iceberg: str) -> dict[str, str]:
    return {"datalake.format": "iceberg", **{f"datalake.iceberg.{name.replace('_', '-')}": value for name, value in iceberg.items()}}


def paimon(**words: str) -> dict[str, str]:
    return {
        "datalake.format": "paimon",
        "datalake.paimon.jdbc.password": "a password",
        **{f"datalake.paimon.{name}": value for name, value in words.items()},
    }


def mapped(words: dict[str, str]) -> dict[str, str]:
    return dict(lake_of_fluss(words).properties)


def test_the_quickstart_is_a_sql_catalog_on_postgresql() -> None:
    lake = lake_of_fluss(QUICKSTART)

    assert lake.properties == {
        "type": "sql",
        "uri": "postgresql+psycopg://iceberg:p%40ss%2Fword@postgres:5432/iceberg",
        "lakeward.catalog-name": "fluss_catalog",
        "warehouse": "s3://fluss/iceberg",
        "s3.endpoint": "http://rustfs:9000",
        "s3.access-key-id": "rustfsadmin",
        "s3.secret-access-key": "rustfssecret",
        "s3.path-style-access": "true",
        "client.region": "us-east-1",
        "s3.region": "us-east-1",
    }
    assert lake.left_out == ("datalake.iceberg.io-impl",)
    shown = str(public_properties(lake.properties))
    assert "p%40ss" not in shown
    assert "rustfssecret" not in shown
    assert "fluss_catalog" in shown


def test_the_first_example_is_a_hadoop_catalog_on_a_local_path() -> None:
    assert mapped(options(type="hadoop", warehouse="/tmp/iceberg")) == {"type": "hadoop", "warehouse": "/tmp/iceberg"}
    assert mapped(options(type="hadoop", warehouse="file:/tmp/iceberg"))["warehouse"] == "file:///tmp/iceberg"
    assert mapped(options(catalog_impl="org.apache.iceberg.hadoop.HadoopCatalog", warehouse="/x"))["type"] == "hadoop"


def test_hive_rest_and_glue_keep_what_they_are_named_by() -> None:
    hive = options(type="hive", uri="thrift://hms:9083", warehouse="hdfs://nn:9000/user/hive/warehouse")
    assert mapped(hive) == {"type": "hive", "uri": "thrift://hms:9083", "warehouse": "hdfs://nn:9000/user/hive/warehouse"}
    glue = options(type="glue", warehouse="s3://bucket/lake", **{"client.region": "eu-1", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"})
    assert mapped(glue) == {"type": "glue", "warehouse": "s3://bucket/lake", "client.region": "eu-1", "s3.region": "eu-1"}
    rest = options(
        type="rest", uri="http://polaris:8181/api/catalog", warehouse="lake", credential="root:secret", scope="PRINCIPAL_ROLE:ALL"
    )
    assert mapped({**rest, "datalake.iceberg.rest.auth.type": "oauth2"}) == {
        "type": "rest",
        "uri": "http://polaris:8181/api/catalog",
        "warehouse": "lake",
        "credential": "root:secret",
        "scope": "PRINCIPAL_ROLE:ALL",
    }


def test_without_a_type_it_is_hive_as_in_iceberg() -> None:
    assert mapped(options(uri="thrift://hms:9083"))["type"] == "hive"


def test_a_catalog_without_a_name_has_the_one_that_fluss_gives_it() -> None:
    properties = mapped(options(type="jdbc", uri="jdbc:postgresql://db/lake", warehouse="s3://b/l"))
    assert properties["lakeward.catalog-name"] == "fluss-iceberg-catalog"
    assert properties["uri"] == "postgresql+psycopg://db/lake"


def test_sqlite_and_its_settings() -> None:
    words = options(
        type="jdbc",
        name="lake",
        uri="jdbc:sqlite:/data/lake-catalog.db",
        warehouse="file:///data/lake",
        **{"jdbc.init-catalog-tables": "false", "jdbc.schema-version": "V1"},
    )
    assert mapped(words) == {
        "type": "sql",
        "uri": "sqlite:////data/lake-catalog.db",
        "warehouse": "file:///data/lake",
        "init_catalog_tables": "false",
        "schema_version": "v1",
        "lakeward.catalog-name": "lake",
    }


def test_what_the_url_says_goes_before_properties_of_the_connection() -> None:
    url = "jdbc:postgresql://a:1,b:2/lake?user=u&password=p%20w&sslmode=require&currentSchema=ice&socketTimeout=9"
    words = options(type="jdbc", uri=url, warehouse="/w", **{"jdbc.user": "other", "jdbc.ApplicationName": "fluss"})
    assert mapped(words)["uri"] == (
        "postgresql+psycopg://u:p%20w@a:1,b:2/lake?application_name=fluss&sslmode=require&options=-csearch_path%3Dice"
    )


def test_what_hadoop_calls_credentials_counts_where_iceberg_has_none_of_its_own() -> None:
    words = options(
        type="hive",
        uri="thrift://h:9083",
        **{"iceberg.hadoop.fs.s3a.access.key": "ak", "hadoop.fs.s3a.secret.key": "sk", "hadoop.fs.defaultFS": "s3a://b"},
    )
    lake = lake_of_fluss(words)
    assert lake.properties["s3.access-key-id"] == "ak"
    assert lake.properties["s3.secret-access-key"] == "sk"
    assert lake.left_out == ("datalake.iceberg.hadoop.fs.defaultFS",)


@pytest.mark.parametrize(("warehouse", "folder"), [("/data/paimon", "/data/paimon"), ("file:/a", "/a"), ("file:///a%20b", "/a b")])
def test_a_paimon_warehouse_is_a_folder(warehouse: str, folder: str) -> None:
    more = {"cache-enabled": "false", "table-default.bucket": "2"}
    lake = lake_of_fluss(
        {"datalake.format": "PAIMON", **{f"datalake.paimon.{name}": value for name, value in more.items()}, **paimon(warehouse=warehouse)}
    )
    assert (lake.format, lake.properties) == ("paimon", {"type": "filesystem", "warehouse": folder})
    assert lake.left_out == ("datalake.paimon.cache-enabled", "datalake.paimon.jdbc.password")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"datalake.format": "lance", "datalake.lance.warehouse": "/x"}, "'lance'"),
        ({"datalake.format": "paimon", "datalake.iceberg.type": "rest"}, "datalake.paimon."),
        ({"datalake.paimon.warehouse": "/x", "datalake.iceberg.type": "rest"}, "others with datalake.paimon."),
        (paimon(), "datalake.paimon.warehouse"),
        (paimon(metastore="hive", warehouse="/x"), "'hive'"),
        (paimon(metastore="rest", warehouse="x"), "datalake.paimon.metastore"),
        (paimon(warehouse="relative"), "'relative'"),
        (paimon(warehouse="s3://bucket/lake"), "not a folder of this machine"),
        (paimon(warehouse="hdfs://nn/lake"), "'hdfs://nn/lake'"),
        (paimon(warehouse="file://host/lake"), "'file://host/lake'"),
        ({"datalake.format": "iceberg"}, "datalake.iceberg."),
        (options(type="nessie", uri="http://n"), "'nessie'"),
        (options(catalog_impl="org.apache.iceberg.snowflake.SnowflakeCatalog"), "SnowflakeCatalog"),
        (options(type="jdbc", catalog_impl="org.apache.iceberg.jdbc.JdbcCatalog"), "both set"),
        (options(type="hadoop", warehouse="s3://bucket/lake"), "object store"),
        (options(type="hadoop", warehouse="s3a://bucket/lake"), "object store"),
        (options(type="hadoop", warehouse="viewfs://nn/lake"), "viewfs"),
        (options(type="hadoop", warehouse="relative/lake"), "absolute local path"),
        (options(type="hadoop"), "absolute local path"),
        (options(type="jdbc", warehouse="/x"), "datalake.iceberg.uri"),
        (options(type="jdbc", uri="jdbc:sqlite:/x.db"), "datalake.iceberg.warehouse"),
        (options(type="jdbc", uri="jdbc:mysql://db/lake", warehouse="/x"), "'mysql'"),
        (options(type="jdbc", uri="jdbc:sqlite::resource:http://evil/x.db", warehouse="/x"), "'sqlite'"),
        (options(type="jdbc", uri="jdbc:postgresql://db/lake?socketFactory=evil.Class", warehouse="/x"), "'socketFactory'"),
        (options(type="jdbc", uri="jdbc:postgresql://db/lake", warehouse="/x", name="a.b c"), "lakeward.catalog-name"),
        (options(type="rest", uri="http://c", **{"io-impl": "evil.FileIO"}), "evil.FileIO"),
        (options(type="rest", uri="http://c", **{"rest.auth.type": "sigv4"}), "'sigv4'"),
        (options(type="rest", uri="file:///c"), "begins with"),
    ],
)
def test_what_cannot_be_mapped_is_refused_by_name(words: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named.replace(".", r"\.")) as caught:
        lake_of_fluss(words)
    assert "password" not in caught.value.message
