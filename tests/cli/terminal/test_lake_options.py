"""How commands name the lake: Fluss's server.yaml, the arguments of Flink's tiering job, properties."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from support.repository import ROOT
from tiering.cli.main import app
from tiering.cli.terminal.lake_options import OTHER_OPTIONS, FlussConfOption, read_lake
from tiering.cli.terminal.options import LakePropertyOption
from tiering.errors import InvalidArgument
from tiering.lake.catalog_properties import lake_environment, public_properties
from tiering.lake.iceberg.catalogs.opening import own_settings


def properties_of(*words: str) -> dict[str, str] | None:
    read: list[dict[str, str] | None] = []
    program = typer.Typer()

    @program.command(context_settings=OTHER_OPTIONS)
    def command(
        context: typer.Context, lake_property: LakePropertyOption = None, fluss_conf: FlussConfOption = None, port: int = 1
    ) -> None:
        read.append(read_lake(context, lake_property, fluss_conf))

    ended = CliRunner().invoke(program, list(words), catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return read[0]


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
    with pytest.raises(InvalidArgument, match=r"--datalake\.paimon\.warehouse is of another lake format than Iceberg"):
        properties_of("--datalake.paimon.warehouse", "/x")


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


def test_a_tierer_gets_from_its_environment_what_nobody_is_told() -> None:
    environment = lake_environment(SECRETS)
    assert environment == {
        "PYICEBERG_CATALOG__LAKE__URI": "postgresql+psycopg://iceberg:p%40ss@db/lake",
        "PYICEBERG_CATALOG__LAKE__S3__SECRET_ACCESS_KEY": "of the store",
    }
    code = (
        "from tiering.lake.iceberg.catalogs.opening import own_settings, _settings\n"
        "print(sorted(own_settings()), _settings()['uri'], _settings()['s3.secret-access-key'])"
    )
    settings = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": str(ROOT), **environment}
    ended = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=True)
    assert ended.stdout.split("\n")[0] == f"['s3.secret-access-key', 'uri'] {SECRETS['uri']} of the store"
    assert not own_settings()
    assert "of the store" not in str(public_properties(SECRETS))
