"""How commands name the lake: Fluss's server.yaml, the arguments of Flink's tiering job, properties."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from support.repository import ROOT
from tiering.cli.main import app
from tiering.cli.terminal.lake_options import OTHER_OPTIONS, FlussConfOption, NamedLake, read_lake
from tiering.cli.terminal.options import LakePropertyOption
from tiering.errors import InvalidArgument
from tiering.lake.catalog_properties import lake_environment, public_properties
from tiering.lake.user_settings import own_settings


def lake_of(*words: str) -> NamedLake | None:
    read: list[NamedLake | None] = []
    program = typer.Typer()

    @program.command(context_settings=OTHER_OPTIONS)
    def command(
        context: typer.Context, lake_property: LakePropertyOption = None, fluss_conf: FlussConfOption = None, port: int = 1
    ) -> None:
        read.append(read_lake(context, lake_property, fluss_conf))

    ended = CliRunner().invoke(program, list(words), catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return read[0]


def properties_of(*words: str) -> Mapping[str, str] | None:
    lake = lake_of(*words)
    return None if lake is None else lake.properties


def test_arguments_of_flinks_tiering_job_are_taken_as_they_are() -> None:
    words = ["--datalake.format", "iceberg", "--datalake.iceberg.type", "hadoop", "--port", "7"]
    assert properties_of(*words, "--datalake.iceberg.warehouse=/tmp/iceberg") == {"type": "hadoop", "warehouse": "/tmp/iceberg"}


def test_arguments_go_before_the_file_and_properties_before_both(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("datalake.format: iceberg\ndatalake.iceberg.type: rest\ndatalake.iceberg.uri: http://a\ndatalake.iceberg.scope: x\n")
    assert properties_of("--fluss-conf", str(file)) == {"type": "rest", "uri": "http://a", "scope": "x"}
    words = ["--fluss-conf", str(file), "--datalake.iceberg.uri", "http://b", "--lake-property", "scope=y"]
    assert properties_of(*words) == {"type": "rest", "uri": "http://b", "scope": "y"}


def test_without_any_the_lake_is_the_data_folders_own() -> None:
    assert properties_of() is None
    assert properties_of("--lake-property", "type=rest") == {"type": "rest"}


def test_an_option_without_a_value_is_an_error() -> None:
    for words in (["--datalake.iceberg.type"], ["--datalake.iceberg.type", "--port", "7"]):
        with pytest.raises(InvalidArgument, match=r"--datalake\.iceberg\.type has no value"):
            properties_of(*words)


def test_an_option_of_another_format_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"--datalake\.lance\.warehouse belongs to a lake format that Lakeward does not write"):
        properties_of("--datalake.lance.warehouse", "/x")


def test_the_format_is_that_of_the_options(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("datalake.format: paimon\ndatalake.paimon.metastore: filesystem\ndatalake.paimon.warehouse: /a\n")
    of_paimon = {"type": "filesystem", "warehouse": "/a"}
    assert lake_of("--fluss-conf", str(file)) == NamedLake(of_paimon, "paimon")
    assert lake_of("--datalake.paimon.warehouse=file:/a") == NamedLake(of_paimon, "paimon")
    assert lake_of("--datalake.iceberg.type=rest", "--datalake.iceberg.uri=http://a") == NamedLake(
        {"type": "rest", "uri": "http://a"}, "iceberg"
    )
    assert lake_of("--lake-property", "type=rest") == NamedLake({"type": "rest"}, None)


@pytest.mark.parametrize("command", ["up", "coordinator", "tierer"])
def test_options_that_a_command_does_not_have_are_still_refused(command: str) -> None:
    ended = CliRunner().invoke(app, [command, "--slotz", "3"])
    assert ended.exit_code == 2
    assert "No such option" in ended.output
    ended = CliRunner().invoke(app, [command, "surprise"])
    assert ended.exit_code == 2
    assert "unexpected extra argument" in ended.output
    ended = CliRunner().invoke(app, [command, "--log-levle", "info"])
    assert "--log-level" in ended.output


SECRETS = {
    "type": "sql",
    "uri": "postgresql+psycopg://iceberg:p%40ss@db/lake",
    "s3.secret-access-key": "of the store",
    "s3.endpoint": "http://store",
    "warehouse": "s3://b/lake",
}


def test_a_tierer_gets_the_secrets_of_the_lake_from_its_environment() -> None:
    environment = lake_environment(SECRETS)
    assert environment == {
        "PYICEBERG_CATALOG__LAKE__URI": "postgresql+psycopg://iceberg:p%40ss@db/lake",
        "PYICEBERG_CATALOG__LAKE__S3__SECRET_ACCESS_KEY": "of the store",
    }
    code = (
        "from tiering.lake.user_settings import own_settings, user_settings\n"
        "print(sorted(own_settings()), user_settings()['uri'], user_settings()['s3.secret-access-key'])"
    )
    settings = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": str(ROOT), **environment}
    ended = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=True)
    assert ended.stdout.split("\n")[0] == f"['s3.secret-access-key', 'uri'] {SECRETS['uri']} of the store"
    assert not own_settings()
    assert "of the store" not in str(public_properties(SECRETS))
