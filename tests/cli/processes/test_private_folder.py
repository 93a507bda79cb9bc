"""The data folder is its owner's alone; what is written elsewhere for one person too."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lakes.lake_kit import LakeKit
from support.running.commands import Lakeward
from tiering.cli.processes.data_folder import open_data_folder
from tiering.errors import SetupError
from tiering.files.private_files import make_folders_like_their_parent, open_like_folder


@pytest.fixture(autouse=True)
def loose_umask() -> Iterator[None]:
    """A shell whose umask lets every user write everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """Returns the rights that other users have on a folder and its contents."""
    return [str(path) for path in [folder, *folder.rglob("*")] if stat.S_IMODE(path.lstat().st_mode) & 0o077 and not path.is_symlink()]


def test_a_new_folder_is_private(tmp_path: Path) -> None:
    folder = open_data_folder(tmp_path / "data")

    assert [path for path in open_to_others(folder.root) if not path.endswith("VERSION")] == []


def test_a_folder_that_was_open_to_others_is_closed_with_all_that_is_in_it(tmp_path: Path) -> None:
    root = open_data_folder(tmp_path / "data").root
    (root / "lake" / "sales").mkdir()
    (root / "lake" / "sales" / "file").touch()
    outside = tmp_path / "outside"
    outside.touch()
    (root / "lake" / "link").symlink_to(outside)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o777)

    open_data_folder(root)

    assert open_to_others(root) == []
    assert (root / "lake" / "sales").is_dir()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o777


def test_a_part_on_another_disk_is_closed_too(tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk" / "lake"
    elsewhere.mkdir(parents=True)
    root = open_data_folder(tmp_path / "data").root
    (root / "lake").rmdir()
    (root / "lake").symlink_to(elsewhere)

    open_data_folder(root)

    assert open_to_others(elsewhere) == []


def test_a_folder_of_another_owner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = open_data_folder(tmp_path / "data").root
    mode = root.stat().st_mode
    monkeypatch.setattr(os, "geteuid", lambda: root.stat().st_uid + 12_345)

    with pytest.raises(SetupError, match=r"data folder .* belongs to the user .*, but this process runs as the user with the id") as raised:
        open_data_folder(root)
    assert "--data" in str(raised.value.hint)
    assert root.stat().st_mode == mode


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o755, 0o644), (0o770, 0o660), (0o2775, 0o664)])
@pytest.mark.parametrize("umask", [0, 0o077])
def test_a_lake_is_as_open_as_the_folder_that_it_lies_in(tmp_path: Path, folder: int, file: int, umask: int) -> None:
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    warehouse.chmod(folder)
    os.umask(umask)

    make_folders_like_their_parent(warehouse / "sales" / "orders" / "data")
    os.close(open_like_folder(warehouse / "sales" / "orders" / "data" / "f.parquet", overwrite=False))

    assert {stat.S_IMODE(path.stat().st_mode) for path in warehouse.rglob("*") if path.is_dir()} == {folder}
    assert {stat.S_IMODE(path.stat().st_mode) for path in warehouse.rglob("*") if path.is_file()} == {file}


def test_files_of_a_lake_are_private_where_the_folder_is(tmp_path: Path) -> None:
    lake = LakeKit(tmp_path)
    (tmp_path / "lake").mkdir(exist_ok=True)
    (tmp_path / "lake").chmod(0o700)
    lake.table()

    assert open_to_others(tmp_path / "lake") == []


def test_a_support_bundle_is_for_its_maker(lakeward: Lakeward, tmp_path: Path) -> None:
    assert lakeward("export-status", str(tmp_path / "status.json")).status == 0
    assert lakeward("export-status", str(tmp_path / "status.json"), "--force").status == 0

    assert stat.S_IMODE((tmp_path / "status.json").stat().st_mode) == 0o600
