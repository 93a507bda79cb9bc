"""Files of Fluss's remote storage, wherever they lie."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from pyarrow import fs

from tiering.cluster.fluss.remote_files import open_remote
from tiering.errors import SetupError


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


def test_any_file_system_of_fsspec_is_read() -> None:
    fsspec.filesystem("memory").pipe("/remote/1.log", b"abc")
    system, path = open_remote("memory://remote/1.log", {})
    assert system.open_input_file(path).read_buffer(2).to_pybytes() == b"ab"


def test_a_scheme_that_nobody_reads_is_named() -> None:
    with pytest.raises(SetupError, match="files of nowhere:// cannot be read here") as caught:
        open_remote("nowhere://host/1.log", {})
    assert "'nowhere'" in caught.value.hint
