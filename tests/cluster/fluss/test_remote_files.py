"""Files of Fluss's remote storage, wherever they lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import fsspec
import pytest
from pyarrow import fs

from tiering.cli.terminal.cluster_options import read_storage
from tiering.cluster.fluss.remote_files import open_remote
from tiering.cluster.fluss.remote_storage import remote_storage
from tiering.cluster.fluss.settings import read_settings
from tiering.errors import InvalidArgument, SetupError
from tiering.lake.catalog_timeouts import S3_CONNECT, S3_REQUEST
from tiering.redaction.redact import redact


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_local_path_is_read_as_it_is_written(tmp_path: Path, form: str) -> None:
    file = tmp_path / "dt=2026-01-01%2F a" / "x.log"
    file.parent.mkdir()
    file.write_bytes(b"abc")
    system, path = open_remote(form.format(file), {})
    assert system.open_input_file(path).read() == b"abc"


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_s3_takes_its_place_from_properties_and_no_secret(scheme: str) -> None:
    system, path = open_remote(f"{scheme}://bucket/log/a b/1.log", {"s3.endpoint": "http://127.0.0.1:9000", "s3.region": "eu-west-1"})
    assert isinstance(system, fs.S3FileSystem)
    assert system.region == "eu-west-1"
    assert path == "bucket/log/a b/1.log"


def test_s3_is_waited_for_as_long_as_for_a_lake_on_it_unless_a_server_yaml_says_otherwise() -> None:
    assert timeouts_of({}) == {"connect_timeout": S3_CONNECT.default, "request_timeout": S3_REQUEST.default}
    own = remote_storage({"fs.s3a.connection.establish.timeout": "2000", "s3.connection.timeout": "5 s"}).properties
    assert timeouts_of(own) == {"connect_timeout": 2, "request_timeout": 5}
    text = {"bootstrap.servers": "host:9123", "cluster-id": "x", "mode": "exclusive", **own}
    assert read_settings(text).as_text() == text


@pytest.mark.parametrize("value", ["0", "soon", "-1"])
def test_a_time_out_that_never_ends_is_refused(value: str) -> None:
    with pytest.raises(InvalidArgument, match=r"s3\.connection\.timeout"):
        remote_storage({"s3a.connection.timeout": value})


def timeouts_of(properties: Mapping[str, str]) -> dict[str, float]:
    """Seconds, as the file system hands them to a task."""
    system, _ = open_remote("s3://bucket/1.log", properties)
    (options,) = system.__reduce__()[1]
    return {name: options[name] for name in ("connect_timeout", "request_timeout")}


def test_any_file_system_of_fsspec_is_read() -> None:
    fsspec.filesystem("memory").pipe("/remote/1.log", b"abc")
    system, path = open_remote("memory://remote/1.log", {})
    assert system.open_input_file(path).read_buffer(2).to_pybytes() == b"ab"


def test_a_scheme_without_a_reader_is_named() -> None:
    with pytest.raises(SetupError, match="files of nowhere:// cannot be read on this machine") as caught:
        open_remote("nowhere://host/1.log", {})
    assert "'nowhere'" in caught.value.hint


def test_a_server_yaml_names_the_storage_and_its_keys_go_another_way() -> None:
    storage = remote_storage(
        {
            "remote.data.dir": "s3://bucket/data",
            "s3.endpoint": "http://127.0.0.1:9000",
            "s3a.path.style.access": "true",
            "fs.s3a.endpoint.region": "eu-west-1",
            "s3.access-key": "fluss",
            "s3.secret.key": "of-tests",
            "s3.assumed.role.arn": "arn:of:a:role",
            "zookeeper.address": "127.0.0.1:2181",
        }
    )
    assert storage.data_dirs == ("s3://bucket/data",)
    assert storage.properties == {"s3.endpoint": "http://127.0.0.1:9000", "s3.path-style-access": "true", "s3.region": "eu-west-1"}
    assert storage.environment == {"FLUSS_S3_ACCESS_KEY": "fluss", "FLUSS_S3_SECRET_KEY": "of-tests"}


def test_several_directories_of_a_server_yaml_take_precedence_over_one() -> None:
    options = {"remote.data.dir": "s3://bucket/old", "remote.data.dirs": "s3://bucket/old, s3://bucket/new"}
    assert remote_storage(options).data_dirs == ("s3://bucket/old", "s3://bucket/new")


@pytest.mark.parametrize("endpoint", ["http://me:secret@host:9000", "ftp://host", "http://host/path?x=y"])
def test_an_endpoint_that_is_none_is_refused_without_being_shown(endpoint: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^s3\.endpoint is not the address of a server$"):
        remote_storage({"s3.endpoint": endpoint})


def test_the_storage_is_told_to_tierers() -> None:
    shown = {"s3.endpoint": "http://127.0.0.1:9000", "s3.region": "eu-west-1"}
    text = {"bootstrap.servers": "host:9123", "cluster-id": "x", "mode": "exclusive", **shown}
    assert read_settings({**text, "s3.secret-key": "never"}).as_text() == text


def test_options_of_a_storage_that_cannot_be_read_end_the_command_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "server.yaml"
    for name in ("FLUSS_S3_ACCESS_KEY", "FLUSS_S3_SECRET_KEY"):
        monkeypatch.setenv(name, "")  # so that it is restored
    file.write_text("remote.data.dir: s3://bucket/data\ns3.region: eu-west-1\ns3.access-key: fluss\ns3.secret-key: of-tests\n")
    assert read_storage(file) == {"s3.region": "eu-west-1"}
    assert os.environ["FLUSS_S3_SECRET_KEY"] == "of-tests"
    assert redact("it says of-tests") == "it says ***"
    file.write_text("remote.data.dir: nowhere://bucket/data\n")
    with pytest.raises(SetupError, match="files of nowhere:// cannot be read on this machine"):
        read_storage(file)
