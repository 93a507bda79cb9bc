"""Nothing but `tiering/lake/iceberg/catalogs/` asks pyiceberg for a catalog, for file access or for a location provider."""

from __future__ import annotations

import ast
from pathlib import Path

from support.repository import ROOT

ENTRANCES = {
    "load_catalog",
    "load_rest",
    "load_sql",
    "SqlCatalog",
    "RestCatalog",
    "StaticTable",
    "load_file_io",
    "load_location_provider",
    "PyArrowFileIO",
    "FsspecFileIO",
}
ALLOWED = {
    "tiering/lake/iceberg/catalogs/bounded.py": {"RestCatalog"},  # its own catalog derives from it
    "tiering/lake/iceberg/catalogs/opening.py": {"SqlCatalog"},
    "tiering/lake/iceberg/catalogs/file_io.py": {"PyArrowFileIO"},
    "tiering/lake/paimon/storage/s3.py": {"PyArrowFileIO"},  # only for the S3 file system of the service's own properties
    "tiering/lake/iceberg/catalogs/locations.py": {"PyArrowFileIO"},  # how it reads a location
}


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyiceberg"):
            names.update(alias.name for alias in node.names)
    return names


def test_there_is_one_way_to_a_table() -> None:
    importers = {}
    for package in ("tiering", "sys_tables"):
        for file in (ROOT / package).rglob("*.py"):
            entrances = imported(file) & ENTRANCES
            if entrances:
                importers[str(file.relative_to(ROOT))] = entrances
    assert importers == ALLOWED


def test_no_table_is_loaded_but_by_a_catalog_of_lakewards() -> None:
    callers = [
        str(file.relative_to(ROOT))
        for package in ("tiering", "sys_tables")
        for file in (ROOT / package).rglob("*.py")
        if "import open_catalog" in file.read_text()
    ]
    assert sorted(callers) == ["tiering/cli/demo/story.py", "tiering/lake/iceberg/catalogs/second.py", "tiering/lake/iceberg/lake.py"]
