"""Rules for the archive's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiering.round.tasks.executor_archive import main


def test_a_name_that_spark_would_not_unpack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"lakeward\.zip does not end in \.tar\.gz\. Name it lakeward\.tar\.gz"):
        main(str(tmp_path / "lakeward.zip"))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"nowhere/lakeward\.tar\.gz cannot be written: No such file"):
        main(str(tmp_path / "nowhere" / "lakeward.tar.gz"))
