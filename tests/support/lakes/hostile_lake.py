"""Lakes of an attacker: metadata changed behind the catalog's back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import ManifestFile, write_manifest_list

EVIL = "evil_module"
"""A module that leaves a trace as soon as it is imported (`plant`)."""


def plant(folder: Path) -> Path:
    """Puts EVIL into `folder`; the file that is there once it ran."""
    trace = folder / "it-ran"
    code = f"open({str(trace)!r}, 'w').close()\n\nclass Evil:\n    def __init__(self, *arguments, **more):\n        pass\n"
    (folder / f"{EVIL}.py").write_text(code)
    return trace


def metadata_file(catalog_file: Path, name: str = "orders") -> Path:
    """Where the catalog says that a table's metadata is."""
    with sqlite3.connect(catalog_file) as connection:
        [(location,)] = connection.execute("SELECT metadata_location FROM iceberg_tables WHERE table_name = ?", [name]).fetchall()
    connection.close()
    return Path(location.removeprefix("file://"))


def point_catalog(catalog_file: Path, location: str, name: str = "orders") -> None:
    """Another metadata file for a table."""
    with sqlite3.connect(catalog_file) as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", [location, name])
    connection.close()


def change_metadata(catalog_file: Path, change: Callable[[dict[str, Any]], None], name: str = "orders") -> None:
    """Another content of a table's metadata file."""
    file = metadata_file(catalog_file, name)
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def head_of(document: dict[str, Any]) -> dict[str, Any]:
    """The snapshot that a metadata file's `main` is at."""
    [head] = [snapshot for snapshot in document["snapshots"] if snapshot["snapshot-id"] == document["current-snapshot-id"]]
    return head


def move_manifests(catalog: Catalog, name: str, folder: Path) -> None:
    """Copies the head's manifests into `folder` and makes its manifest list name them there."""
    table = catalog.load_table(name)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    moved: list[ManifestFile] = []
    for manifest in snapshot.manifests(table.io):
        source = Path(manifest.manifest_path.removeprefix("file://"))
        (folder / source.name).write_bytes(source.read_bytes())
        manifest[0] = f"file://{folder / source.name}"
        moved.append(manifest)
    Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    output = table.io.new_output(snapshot.manifest_list)
    with write_manifest_list(2, output, snapshot.snapshot_id, None, snapshot.sequence_number, "deflate") as writer:
        writer.add_manifests(moved)
