"""A Python process of Spark between two tasks."""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from zipimport import zipimporter

import pytest

from tiering.library_guards.spark_process import between_tasks


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


def archive(folder: Path, name: str, module: str) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as content:
        content.writestr(f"{module}.py", "ANSWER = 42\n")
    return path


def importers() -> dict[str, zipimporter]:
    return {path: importer for path, importer in sys.path_importer_cache.items() if isinstance(importer, zipimporter)}


def test_archives_of_spark_are_not_read_again_and_modules_are_still_imported_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path, "pyspark.zip", "module_of_spark_archive")
    monkeypatch.syspath_prepend(str(path))
    assert importlib.util.find_spec("module_that_does_not_exist") is None  # asks all importers
    assert str(path) in importers()

    with between_tasks():
        pass

    assert str(path) not in importers()
    assert importlib.import_module("module_of_spark_archive").ANSWER == 42
    sys.modules.pop("module_of_spark_archive")


def test_other_archives_are_looked_up_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path, "users.zip", "module_of_users_archive")
    monkeypatch.syspath_prepend(str(path))
    assert importlib.util.find_spec("module_that_does_not_exist") is None

    with between_tasks():
        pass

    assert str(path) in importers()


def test_objects_of_modules_are_frozen_once_also_if_the_task_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.library_guards.spark_process._frozen_modules", 0)
    with pytest.raises(ValueError, match="of the task"), between_tasks():
        raise ValueError("of the task")
    frozen = gc.get_freeze_count()
    assert frozen > 0

    with between_tasks():
        garbage: list[object] = []
        garbage.append(garbage)

    assert gc.get_freeze_count() <= frozen
