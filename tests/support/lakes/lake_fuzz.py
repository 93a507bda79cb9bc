"""`python -m support.lakes.lake_fuzz FOLDER EXAMPLES`: a child process that draws options of tables and changes of a lake's metadata.

Whatever is drawn, it ends well or in an error of Lakeward's tree, imports no module that was named to it, and opens no file outside
of the folder and of what Python itself is made of. Exits with 1 and the first example that does otherwise.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import clear_manifest_cache

from support.lakes.hostile_lake import EVIL, metadata_file, plant
from support.lakes.lake_kit import LakeKit
from support.repository import ROOT
from support.running.watched_folder import Watch
from tiering.clock import SystemClock
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import TableSpec
from tiering.errors import LakewardError
from tiering.lake.iceberg.commit.staging import FileChanges, SnapshotStager
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.schema.layout import table_layout
from tiering.lake.iceberg_options import LAKE_TABLE_OPTIONS
from tiering.lake.table_options import public_options
from tiering.model.tables import BucketKey, TableInfo, TablePath

B0 = BucketKey(None, 0)
NAMED = (EVIL, "antigravity", "this", "turtledemo", "idlelib")
"""Modules that hostile values name."""
SYSTEM = ("/proc/", "/sys/", "/dev/null", "/dev/urandom", "/usr/share/zoneinfo", "/etc/localtime")


class Guard:
    """Sees every import and every file that Python opens, and the kernel's word for one folder. Cannot be taken off again."""

    def __init__(self, allowed: tuple[str, ...], outside: Path) -> None:
        self._allowed = (*allowed, *SYSTEM)
        self._watch = Watch(outside)
        self.broken: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "import" and str(arguments[0]).split(".")[0] in NAMED:
            self.broken.append(f"imported {arguments[0]}")
        if event == "open" and isinstance(arguments[0], (str, bytes)):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            # of a traceback's lines, and Hypothesis's own
            if not path.startswith(self._allowed) and "<" not in path and "/.hypothesis/" not in path:
                self.broken.append(f"opened {path}")
        if event in ("subprocess.Popen", "os.system", "os.exec", "socket.connect"):
            self.broken.append(f"{event} {arguments!r:.200}")

    def check(self) -> None:
        self.broken += [f"touched {name}" for name in self._watch.touched()]
        assert not self.broken, self.broken


def hostile_values(folder: Path, outside: Path) -> st.SearchStrategy[Any]:
    places = (
        f"{outside}/x",
        f"file://{outside}/x.avro",
        f"file://{folder}/../outside/x",
        "/etc/passwd",
        "file:///etc/passwd",
        "file://etc/x",
    )
    remote = ("http://127.0.0.1:1/x", "s3://bucket/x", "hdfs://127.0.0.1:1/x", "x://y", "file:", "//", "\0", "~/.ssh/id_rsa", "%2e%2e/x")
    texts = st.sampled_from((*places, *remote, *(f"{name}.Evil" for name in NAMED), "", "true", "-1", "\n")) | st.text(max_size=20)
    texts = st.sampled_from(places) | texts
    plain = st.none() | st.booleans() | st.integers() | st.floats() | texts
    return plain | st.lists(plain, max_size=2) | st.dictionaries(texts, plain, max_size=2)


def places_of_files(document: Any, places: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Returns the places with a location: the most useful ones to change."""

    def value(path: tuple[Any, ...]) -> Any:
        node = document
        for part in path:
            node = node[part]
        return node

    return [path for path in places if isinstance(value(path), str) and "/" in value(path)]


def option_names() -> st.SearchStrategy[str]:
    listed = st.sampled_from(sorted(LAKE_TABLE_OPTIONS))
    others = ("py-io-impl", "write.py-location-provider.impl", "write.data.path", "write.metadata.path", "s3.endpoint", "py-catalog-impl")
    own = listed | st.sampled_from(others) | st.text(max_size=12)
    return own.map(lambda name: f"iceberg.{name}") | st.text(max_size=12) | st.sampled_from(["table.x", "table.log.ttl", "comment"])


class Subjects:
    """A tiered lake table that is changed and mended again, and a cluster for tables with options."""

    def __init__(self, folder: Path) -> None:
        self.kit = LakeKit(folder)
        self.table: TableInfo = self.kit.table()
        self.kit.tier(self.table, "r1", {B0: 10})
        self.file = metadata_file(folder / "lake-catalog.db")
        self.text = self.file.read_text()
        self.storage = EmbeddedStorage(folder / "cluster")
        self.storage.create_database("fuzz")
        self._made = 0

    def look(self) -> None:
        """Reads all that can be read, and stages a round; the lake is as before afterwards."""
        clear_manifest_cache()
        lake = IcebergLake(self.kit.properties)
        view = lake.view(self.table.path)
        assert view is not None
        reads: tuple[Callable[[], object], ...] = (
            lambda: lake.survey(self.table.path),
            lambda: lake.columns(view),
            lambda: lake.file_lists(view, None),
            lambda: lake.live_files(view),
            lambda: lake.stored_files(view),
            lambda: lake.row_offsets(self.table, view, {}),
            lambda: self._round(lake),
        )
        for read in reads:
            try:
                read()
            except LakewardError:
                continue

    def _round(self, lake: IcebergLake) -> None:
        """A round up to its commit, which is not sent; its files are gone afterwards."""
        prepared = self.kit.prepare(self.table, "r2", {B0: 12}, lake=lake)
        committer = prepared.committer()
        base, marker = prepared.base, prepared.marker
        stager = SnapshotStager(base.handle, base, marker.round_id, SystemClock(), all_manifests=False)
        try:
            stager.stage(FileChanges((), 0), committer._marker_properties(base.handle, marker, stager), None)
        finally:
            committer._delete(stager.files)
        committer.abort(prepared.committable)

    def make(self, options: dict[str, str], later: dict[str, str]) -> None:
        """A table with options, and other ones set later."""
        self._made += 1
        path = TablePath("fuzz", f"t{self._made}")
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
        info = self.storage.create_table(path, TableSpec(schema, 1, properties=options))
        self.storage.alter_table(path, set_properties=later)
        info = self.storage.table(path)
        layout = table_layout(info)
        forbidden = [name for name in layout.properties if name.endswith(("impl", "path", "endpoint"))]
        assert not forbidden, forbidden
        assert public_options(info.properties).keys() <= info.properties.keys()
        self.storage.drop_table(path)


def places_in(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON document."""
    paths = [path] if path else []
    if isinstance(node, dict):
        for key, value in node.items():
            paths += places_in(value, (*path, key))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            paths += places_in(value, (*path, number))
    return paths


def changed(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for part in path[:-1]:
        document = document[part]
    document[path[-1]] = value


def main(folder: Path, examples: int) -> None:
    outside, code = folder.parent / "outside", folder.parent / "code"
    for location in (folder, outside, code):
        location.mkdir(exist_ok=True)
    for name in ("x", "x.avro", "x.metadata.json"):
        (outside / name).write_text("not for you")
    plant(code)
    sys.path.append(str(code))
    subjects = Subjects(folder)
    subjects.look()  # what is imported at the first use only
    document = json.loads(subjects.text)
    places = places_in(document)
    values = hostile_values(folder, outside)
    root = str(ROOT)
    guard = Guard((str(folder), sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), root), outside)
    options = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )

    where = st.sampled_from(places_of_files(document, places)) | st.sampled_from(places)
    changes_of_metadata = st.lists(st.tuples(where, values), min_size=1, max_size=3)

    @options
    @given(changes_of_metadata, st.dictionaries(option_names(), values, max_size=3))
    def metadata(changes: list[tuple[tuple[Any, ...], Any]], properties: dict[str, Any]) -> None:
        document = json.loads(subjects.text)
        document["properties"].update({name.removeprefix("iceberg."): value for name, value in properties.items()})
        for path, value in changes:
            try:
                changed(document, path, value)
            except (KeyError, IndexError, TypeError):
                continue  # an earlier change took that place away
        subjects.file.write_text(json.dumps(document))
        try:
            subjects.look()
        except LakewardError:
            pass
        finally:
            subjects.file.write_text(subjects.text)
        guard.check()

    texts = st.text(max_size=15) | st.sampled_from(["true", "1", "none", f"{EVIL}.Evil", f"file://{outside}", "a\nb", "7 d"])
    tables = st.dictionaries(option_names(), texts, max_size=3)

    @options
    @given(tables, tables)
    def table_options(created: dict[str, str], later: dict[str, str]) -> None:
        with contextlib.suppress(LakewardError):
            subjects.make(created, later)
        guard.check()

    metadata()
    table_options()
    print(f"{2 * examples} examples")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
