"""A metadata file is parsed once, and again when another file has its name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from tiering.lake.iceberg.catalogs.file_io import LakeFileIO
from tiering.lake.iceberg.catalogs.opening import MetadataFiles


class Files:
    """Metadata files in a folder, and how often one was parsed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.parsed = folder, 0
        self._io = LakeFileIO({"warehouse": str(folder)})
        parse = FromInputFile.table_metadata

        def counting(file: PyArrowFile) -> object:
            self.parsed += 1
            return parse(file)

        monkeypatch.setattr(FromInputFile, "table_metadata", counting)

    def write(self, name: str, location: str) -> PyArrowFile:
        metadata = new_table_metadata(Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, location)
        (self.folder / name).write_text(metadata.model_dump_json())
        return self.file(name)

    def file(self, name: str) -> PyArrowFile:
        return self._io.new_input(str(self.folder / name))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files(tmp_path, monkeypatch)


def test_a_file_is_parsed_once(files: Files) -> None:
    known, file = MetadataFiles(), files.write("a.metadata.json", "/lake/a")
    assert known.read(file) is known.read(files.file("a.metadata.json"))
    assert files.parsed == 1


def test_another_file_of_the_same_name_and_size_is_read(files: Files) -> None:
    known = MetadataFiles()
    known.read(files.write("a.metadata.json", "/lake/a"))
    again = files.write("a.metadata.json", "/lake/b")
    os.utime(files.folder / "a.metadata.json", (1, 1))
    assert known.read(again).location == "/lake/b"


def test_a_file_that_is_gone_is_not_there(files: Files) -> None:
    known = MetadataFiles()
    file = files.write("a.metadata.json", "/lake/a")
    known.read(file)
    os.unlink(files.folder / "a.metadata.json")
    with pytest.raises(FileNotFoundError):
        known.read(file)


def test_the_files_that_were_read_last_are_remembered(files: Files) -> None:
    size = len(files.write("a.metadata.json", "/lake/a"))
    known = MetadataFiles(2 * size)
    a, b, c = (files.write(f"{name}.metadata.json", f"/lake/{name}") for name in "abc")
    for file in (a, b, a, c):
        known.read(file)
    assert files.parsed == 3
    known.read(a)
    assert files.parsed == 3
    known.read(b)
    assert files.parsed == 4


def test_a_file_beyond_the_bound_is_parsed_each_time(files: Files) -> None:
    known, file = MetadataFiles(10), files.write("a.metadata.json", "/lake/a")
    assert json.loads((files.folder / "a.metadata.json").read_text())["location"] == known.read(file).location == known.read(file).location
    assert files.parsed == 2
