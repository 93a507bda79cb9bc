"""The output of `lakeward spark-conf` and `lake-conf`, without a service."""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from typer.testing import CliRunner

from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.cli.commands.spark_views import view_statements
from tiering.cli.main import app
from tiering.cli.spark.conf_files import as_properties_file, as_pyiceberg_yaml
from tiering.cli.spark.jars import ICEBERG_AWS_BUNDLE, ICEBERG_RUNTIME, ICEBERG_RUNTIMES, SQLITE_JDBC, SparkVersion
from tiering.cli.spark.properties import (
    LakeJars,
    catalog_lake_properties,
    catalog_properties,
    driver_class_path,
    lake_properties_for_spark,
    with_call,
)
from tiering.errors import InvalidArgument, InvalidName, ServiceUnreachable
from tiering.lake.registry import local_lake_properties

JAR = Path("/opt/lakeward/plugin.jar")
UNREACHABLE = "127.0.0.1:1"


def printed(*words: str) -> dict[str, str]:
    ended = CliRunner().invoke(app, ["spark-conf", *words], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return dict(line.split(maxsplit=1) for line in ended.output.splitlines())


def test_the_jar_is_on_the_drivers_class_path_and_nowhere_else() -> None:
    properties = printed("--uri", UNREACHABLE, "--jar", str(JAR), "--default-catalog")

    assert properties == {
        "spark.driver.extraClassPath": str(JAR),
        "spark.sql.catalog.fluss": "io.lakeward.spark.LakewardCatalog",
        "spark.sql.catalog.fluss.uri": UNREACHABLE,
        "spark.sql.cli.print.header": "true",
        "spark.sql.defaultCatalog": "fluss",
    }


def test_executors_read_the_log_with_the_python_of_this_environment_or_with_the_one_that_is_named() -> None:
    name = "spark.sql.catalog.fluss.python"

    assert printed("--uri", UNREACHABLE)[name] == sys.executable
    assert printed("--uri", UNREACHABLE, "--jar", str(JAR), "--python", "/opt/venv/bin/python")[name] == "/opt/venv/bin/python"
    assert name not in printed("--uri", UNREACHABLE, "--jar", str(JAR)), "a driver on another machine has other paths"


def test_the_default_catalog_stays_what_it_is_unless_asked_for() -> None:
    assert "spark.sql.defaultCatalog" not in printed("--uri", UNREACHABLE)


def test_sys_can_be_in_sparks_own_catalog_too() -> None:
    properties = printed("--uri", UNREACHABLE, "--jar", str(JAR), "--session-catalog")

    assert {name: value for name, value in properties.items() if "spark_catalog" in name} == {
        "spark.sql.catalog.spark_catalog": "io.lakeward.spark.LakewardSessionCatalog",
        "spark.sql.catalog.spark_catalog.uri": UNREACHABLE,
    }
    assert "spark.sql.defaultCatalog" not in properties


def test_a_jar_is_there_to_be_named() -> None:
    assert Path(printed("--uri", UNREACHABLE)["spark.driver.extraClassPath"]).is_file()


def test_spark_3_5_gets_its_own_jar_and_call_but_no_python_for_the_log() -> None:
    properties = printed("--uri", UNREACHABLE, "--spark", "3.5")

    assert Path(properties["spark.driver.extraClassPath"]).name == "lakeward-spark-plugin-3.5.jar"
    assert Path(properties["spark.driver.extraClassPath"]).is_file()
    assert properties["spark.sql.extensions"] == "io.lakeward.spark.LakewardExtensions"
    assert "spark.sql.catalog.fluss.python" not in properties


@pytest.mark.parametrize("spark", ["4.0", "4.2", "4.3"])
def test_any_spark_4_gets_the_properties_of_the_installed_one(spark: str) -> None:
    assert printed("--uri", UNREACHABLE, "--spark", spark) == printed("--uri", UNREACHABLE)


def test_sys_in_sparks_own_catalog_is_refused_for_spark_3_5() -> None:
    with pytest.raises(InvalidArgument, match=r"--session-catalog does not work with Spark 3\.5"):
        printed("--uri", UNREACHABLE, "--session-catalog", "--spark", "3.5")


@pytest.mark.parametrize("spark", ICEBERG_RUNTIMES)
def test_a_lake_has_icebergs_runtime_for_the_spark_and_amazons_client_of_the_same_version(spark: SparkVersion) -> None:
    lake = {"type": "rest", "uri": "http://catalog:8181", "warehouse": "s3://lake"}
    runtime, client = catalog_lake_properties(lake, LakeJars.PACKAGES, spark)["spark.jars.packages"].split(",")

    assert runtime.startswith(f"org.apache.iceberg:iceberg-spark-runtime-{spark}_")
    assert client == f"org.apache.iceberg:iceberg-aws-bundle:{runtime.rpartition(':')[2]}"


@pytest.mark.parametrize("spark", [spark for spark in SparkVersion if spark not in ICEBERG_RUNTIMES])
def test_a_lake_for_a_spark_without_a_runtime_of_iceberg_is_refused(spark: SparkVersion) -> None:
    with pytest.raises(InvalidArgument, match=f"no runtime for Spark {spark}") as raised:
        lake_properties_for_spark({"type": "sql", "uri": "sqlite:////srv/lake.db"}, LakeJars.PACKAGES, spark)
    assert "without --lake" in str(raised.value.hint)


def test_call_comes_behind_the_extension_of_iceberg() -> None:
    lake = lake_properties_for_spark({"type": "sql", "uri": "sqlite:////srv/lake.db"}, LakeJars.PACKAGES, SparkVersion.V3_5)

    assert with_call(lake, SparkVersion.V3_5)["spark.sql.extensions"].split(",") == [
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "io.lakeward.spark.LakewardExtensions",
    ]
    assert with_call(lake, SparkVersion.V4_1) == lake


@pytest.mark.parametrize(
    ("words", "error"), [(["--uri", "http://a:1/"], InvalidArgument), (["--uri", UNREACHABLE, "--lake"], ServiceUnreachable)]
)
def test_a_wrong_uri_and_a_service_that_is_not_there_are_said(words: list[str], error: type[Exception]) -> None:
    with pytest.raises(error):
        CliRunner().invoke(app, ["spark-conf", *words], catch_exceptions=False)


@pytest.mark.parametrize("options", [[], ["--session-catalog"]])
def test_both_addresses_of_a_service_with_a_standby_are_printed_also_where_their_names_are_unknown(options: list[str]) -> None:
    both = "first-host.invalid:7707,second-host.invalid:7707"
    properties = printed("--uri", both, "--jar", str(JAR), *options)
    assert {value for name, value in properties.items() if name.endswith(".uri")} == {both}


def test_the_lake_of_a_service_is_named_to_the_catalog() -> None:
    properties = catalog_lake_properties({"type": "sql", "uri": "sqlite:////srv/lake.db", "warehouse": "file:///srv/lake"})

    assert properties["spark.sql.catalog.fluss.lake"] == "lake"
    assert properties["spark.sql.catalog.lake.uri"] == "jdbc:sqlite:/srv/lake.db"
    assert properties["spark.sql.catalog.lake.jdbc.init-catalog-tables"] == "false"
    jars = [Path(path).name.rpartition("-")[0] for path in properties["spark.jars"].split(",")]
    assert jars == ["iceberg-spark-runtime-4.1_2.13", "sqlite-jdbc"]
    assert "spark.jars.packages" not in properties


@pytest.mark.parametrize("name", [{}, {"lakeward.catalog-name": "fluss_catalog"}], ids=["lake", "named by others"])
def test_spark_is_never_told_to_alter_the_tables_of_a_sql_catalog(name: dict[str, str]) -> None:
    """With `jdbc.schema-version=V1` Spark would add a column to the `iceberg_tables` of a V0 catalog."""
    properties = lake_properties_for_spark({"type": "sql", "uri": "postgresql://db:5432/lake", "warehouse": "s3://b/lake", **name})

    assert not [key for key in properties if "schema-version" in key]


def test_the_tables_that_lakeward_makes_have_the_column_by_which_iceberg_finds_their_version(tmp_path: Path) -> None:
    lake = local_lake_properties(tmp_path)
    load_catalog("lake", **lake).create_namespace("sales")

    with closing(sqlite3.connect(lake["uri"].removeprefix("sqlite:///"))) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(iceberg_tables)")]
    assert "iceberg_type" in columns


def test_spark_may_fetch_the_jars_itself_if_it_is_told_to() -> None:
    properties = lake_properties_for_spark({"type": "sql", "uri": "sqlite:////srv/lake.db"}, LakeJars.PACKAGES)

    assert properties["spark.jars.packages"] == f"{ICEBERG_RUNTIME.coordinates},{SQLITE_JDBC.coordinates}"
    assert "spark.jars" not in properties


def test_the_driver_has_the_jars_of_the_lake_on_the_class_path_that_no_session_closes() -> None:
    lake = {"type": "sql", "uri": "sqlite:////srv/lake.db"}
    files = lake_properties_for_spark(lake)

    assert driver_class_path(JAR, files) == {"spark.driver.extraClassPath": f"{JAR}:{files['spark.jars'].replace(',', ':')}"}
    packages = lake_properties_for_spark(lake, LakeJars.PACKAGES)
    assert driver_class_path(JAR, packages) == {"spark.driver.extraClassPath": str(JAR)}


def test_a_database_of_the_lake_is_named_without_its_user() -> None:
    properties = lake_properties_for_spark({"type": "sql", "uri": "postgresql+psycopg://me:secret@db:5432/lake"})

    assert properties["spark.sql.catalog.lake.uri"] == "jdbc:postgresql://db:5432/lake"
    assert "secret" not in as_properties_file(properties)


def test_a_catalog_that_others_named_has_that_name_in_spark_too() -> None:
    lake = {"type": "sql", "uri": "postgresql://db:5432/lake", "warehouse": "s3://b/lake", "lakeward.catalog-name": "fluss_catalog"}
    properties = catalog_lake_properties(lake)

    assert properties["spark.sql.catalog.fluss.lake"] == "fluss_catalog"
    assert properties["spark.sql.catalog.fluss_catalog.uri"] == "jdbc:postgresql://db:5432/lake"
    assert properties["spark.sql.catalog.fluss_catalog.io-impl"] == "org.apache.iceberg.io.ResolvingFileIO"
    assert not [name for name in properties if "lakeward" in name]
    assert "postgresql-" in properties["spark.jars"]
    assert as_pyiceberg_yaml(lake).splitlines()[1] == "  fluss_catalog:"


def test_a_hadoop_catalog_is_one_to_spark_as_well() -> None:
    properties = lake_properties_for_spark({"type": "hadoop", "warehouse": "/srv/lake"})

    assert properties["spark.sql.catalog.lake.type"] == "hadoop"
    assert properties["spark.sql.catalog.lake.warehouse"] == "/srv/lake"


def test_a_rest_catalog_keeps_its_properties() -> None:
    properties = lake_properties_for_spark({"type": "rest", "uri": "http://catalog:8181", "warehouse": "s3://lake"}, LakeJars.PACKAGES)

    assert {name: properties[f"spark.sql.catalog.lake.{name}"] for name in ("type", "uri", "warehouse")} == {
        "type": "rest",
        "uri": "http://catalog:8181",
        "warehouse": "s3://lake",
    }
    assert not [name for name in properties if ".jdbc." in name]
    assert properties["spark.sql.catalog.lake.header.X-Iceberg-Access-Delegation"] == "vended-credentials"


def test_a_lake_in_s3_brings_amazons_client_and_the_region_under_javas_name() -> None:
    lake = {"type": "rest", "uri": "http://catalog:8181", "warehouse": "s3://lake", "s3.region": "eu-west-1"}
    properties = lake_properties_for_spark(lake, LakeJars.PACKAGES)

    assert properties["spark.jars.packages"].split(",") == [ICEBERG_RUNTIME.coordinates, ICEBERG_AWS_BUNDLE.coordinates]
    assert properties["spark.sql.catalog.lake.client.region"] == "eu-west-1"


def test_a_properties_file_has_a_name_and_its_value_a_line() -> None:
    text = as_properties_file(catalog_properties("a:1", Path("/with space/plugin.jar")))

    assert dict(line.split(maxsplit=1) for line in text.splitlines())["spark.driver.extraClassPath"] == "/with space/plugin.jar"


@pytest.mark.parametrize("name", ["x\n!sh id", "x`; DROP TABLE t; --", "x; y", "", "x\u2028y"])
@pytest.mark.parametrize("field", ["namespace", "name"])
def test_a_name_that_a_hostile_service_made_up_ends_the_command(field: str, name: str) -> None:
    """beeline runs a line that begins with `!` itself."""
    table = pb.SystemTable(**{"namespace": "sys", "name": "tables", "comment": "", field: name})
    with pytest.raises(InvalidName):
        view_statements([table], "lakeward")


@pytest.mark.parametrize("comment", ["a\n!sh id\n", "a'; DROP TABLE t; --", "a\r\n--b", "a\u2028\u0085!sh id", "\\'; !sh id", "\U0001f600"])
def test_a_comment_that_a_hostile_service_made_up_stays_inside_of_its_quotes(comment: str) -> None:
    text = view_statements([pb.SystemTable(namespace="sys", name="tables", comment=comment)], "lakeward")
    _, second = text.splitlines()
    assert second.count(";") == 1
    assert second.endswith("' AS SELECT * FROM fluss.sys.tables;")
    inside = second.split("COMMENT '")[1].removesuffix("' AS SELECT * FROM fluss.sys.tables;")
    assert not re.search(r"(?<!\\)(\\\\)*'", inside), "a quote that is not escaped"


def test_a_view_keeps_the_comment_and_no_semicolon_ends_its_statement_early() -> None:
    tables = [pb.SystemTable(namespace="sys", name="tables", comment="It's all; or not.")]

    assert view_statements(tables, "my-views").splitlines() == [
        "CREATE DATABASE IF NOT EXISTS spark_catalog.`my-views` COMMENT 'System tables of Lakeward.';",
        "CREATE OR REPLACE VIEW spark_catalog.`my-views`.tables COMMENT 'It\\'s all\\u003B or not.' AS SELECT * FROM fluss.sys.tables;",
    ]
