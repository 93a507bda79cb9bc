"""A lake table as an earlier version left it after very many rounds: a snapshot, a manifest list and a small file of each round, and former
metadata files. It is made directly, without running the rounds.

The rows are real: the log has them, a round brings them to the lake, and then small files take the place of its file, under a long history.
Files that differ in nothing but their name are hard links.
"""

from __future__ import annotations

import copy
import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, ManifestFile, ManifestWriterV2, write_manifest_list
from pyiceberg.table import Table

from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.cluster.log_writer import LogWriter
from tiering.lake.iceberg.schema.types import arrow_field
from tiering.lake.iceberg.writing.data_files import DataFileBuilder
from tiering.model.tables import TableInfo

FILES_OF_A_MANIFEST = 1_000
FIRST_ID = 1_000_001
"""Snapshot ids of the history begin here."""


@dataclass(frozen=True)
class Degradation:
    """How the table is: `snapshots` of former rounds, `files` of one row each in the newest one, and former metadata files.

    `round_ms`: time between two rounds. Manifest lists have the time of their round.
    """

    snapshots: int
    files: int
    metadata_files: int = 20
    round_ms: int = 10_000


def degraded_table(world: LakeWorld, name: str, degradation: Degradation) -> TableInfo:
    """A log table with one bucket whose lake copy is up to date, and degraded."""
    table = world.table(name, 1)
    ids = list(range(degradation.files))
    rows = pa.table({"id": ids, "text": [f"row {number}" for number in ids]}, schema=SCHEMA)
    LogWriter(world.storage, table.path, "former").append(rows)
    assert world.tier(table).error is None
    _Degrading(world.iceberg(table), degradation).run(world.lake_properties["uri"])
    return table


class _Degrading:
    """Gives the newest snapshot of `loaded` a history and small files, and the catalog the metadata that names them."""

    def __init__(self, loaded: Table, degradation: Degradation) -> None:
        self._loaded, self._degradation = loaded, degradation
        self._rounds = [str(uuid.uuid4()) for _ in range(degradation.snapshots)]
        self._folder = _local(loaded.metadata_location).parent
        head = loaded.current_snapshot()
        assert head is not None
        self._head = head

    def run(self, catalog_uri: str) -> None:
        files = list(self._small_files())
        manifests = list(self._manifests(files))
        newest_name = self._list_name(self._head.snapshot_id, self._rounds[-1])
        newest_list = self._write_list(manifests, self._head.snapshot_id, newest_name, FIRST_ID + self._degradation.snapshots - 1)
        former_list = self._write_list(manifests[:1], FIRST_ID, self._list_name(FIRST_ID, self._rounds[0]), FIRST_ID - 1)
        metadata = self._metadata(newest_list, former_list)
        newest = self._write_metadata(metadata)
        with closing(sqlite3.connect(catalog_uri.removeprefix("sqlite:///"))) as catalog, catalog:
            where = "WHERE table_namespace = ? AND table_name = ?"
            catalog.execute(f"UPDATE iceberg_tables SET metadata_location = ? {where}", (newest, *self._loaded.name()))

    def _small_files(self) -> Iterator[DataFile]:
        """The rows of the table's only file, each in a file named as that of a former round."""
        [task] = self._loaded.scan().plan_files()
        file, schema = task.file, self._loaded.schema()
        fields = pa.schema([arrow_field(field) for field in schema.fields])
        rows = pq.ParquetFile(_local(file.file_path)).read().select(fields.names).cast(fields)
        partition = [file.partition[position] for position in range(len(file.partition))]
        builder = DataFileBuilder(schema, dict(self._loaded.properties), self._loaded.metadata.default_spec_id, partition)
        folder = file.file_path.rsplit("/", 1)[0]
        for number in range(self._degradation.files):
            round_id = self._rounds[number * len(self._rounds) // self._degradation.files]
            location = f"{folder}/lakeward-{round_id}-{uuid.uuid4().hex[:8]}-0-00000.parquet"
            gathered: list[pq.FileMetaData] = []
            pq.write_table(rows.slice(number, 1), _local(location), compression="zstd", metadata_collector=gathered)
            yield builder.build(location, _local(location).stat().st_size, gathered[0])

    def _manifests(self, files: Sequence[DataFile]) -> Iterator[ManifestFile]:
        metadata = self._loaded.metadata
        for start in range(0, len(files), FILES_OF_A_MANIFEST):
            name = f"lakeward-{self._rounds[start * len(self._rounds) // len(files)]}-{uuid.uuid4()}-m0.avro"
            output = self._loaded.io.new_output(self._location(name))
            spec = metadata.specs()[metadata.default_spec_id]
            with ManifestWriterV2(spec, metadata.schema(), output, self._head.snapshot_id, "deflate") as writer:
                for number, file in enumerate(files[start : start + FILES_OF_A_MANIFEST], start):
                    writer.existing(self._entry(file, number * len(self._rounds) // len(files)))
            yield writer.to_manifest_file()

    @staticmethod
    def _entry(file: DataFile, number: int) -> ManifestEntry:
        """The entry of a file that the former round `number` added."""
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.EXISTING,
            snapshot_id=FIRST_ID + number,
            sequence_number=number + 1,
            file_sequence_number=number + 1,
            data_file=file,
        )

    def _write_list(self, manifests: Sequence[ManifestFile], snapshot_id: int, name: str, parent_id: int) -> str:
        location = self._location(name)
        output = self._loaded.io.new_output(location)
        with write_manifest_list(2, output, snapshot_id, parent_id, self._degradation.snapshots + 1, "deflate") as writer:
            writer.add_manifests(list(manifests))
        return location

    def _metadata(self, newest_list: str, former_list: str) -> dict[str, Any]:
        """The metadata with the history. Each former snapshot has a list of its own."""
        metadata: dict[str, Any] = json.loads(_local(self._loaded.metadata_location).read_text())
        [head] = metadata["snapshots"]
        count, ends_ms = self._degradation.snapshots, head["timestamp-ms"]
        former, template = [], _local(former_list).read_bytes()
        for number, round_id in enumerate(self._rounds):
            snapshot = copy.deepcopy(head)
            location = former_list if number == 0 else self._location(self._list_name(FIRST_ID + number, round_id))
            if number:
                _local(location).write_bytes(_renamed(template, number))
            snapshot |= {"snapshot-id": FIRST_ID + number, "sequence-number": number + 1, "manifest-list": location}
            snapshot["timestamp-ms"] = ends_ms - (count - number) * self._degradation.round_ms
            os.utime(_local(location), (snapshot["timestamp-ms"] / 1_000,) * 2)
            snapshot["summary"]["lakeward.round-id"] = round_id
            former.append({**snapshot, **({"parent-snapshot-id": FIRST_ID + number - 1} if number else {})})
        head["summary"] |= {"total-data-files": str(self._degradation.files)}
        head |= {"sequence-number": count + 1, "manifest-list": newest_list, "parent-snapshot-id": FIRST_ID + count - 1}
        snapshots = [*former, head]
        log = [{"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": snapshot["timestamp-ms"]} for snapshot in snapshots]
        return {**metadata, "snapshots": snapshots, "snapshot-log": log, "last-sequence-number": count + 1}

    def _write_metadata(self, metadata: dict[str, Any]) -> str:
        """Writes the newest metadata file, and former ones of the same size; half of these are in the log. Returns the newest location."""
        properties = {name: value for name, value in metadata["properties"].items() if name != "write.metadata.previous-versions-max"}
        properties["write.metadata.delete-after-commit.enabled"] = "false"
        count = self._degradation.metadata_files
        former = [self._location(f"{10 + number:05d}-{uuid.uuid4()}.metadata.json") for number in range(count)]
        newest = self._location(f"{10 + count:05d}-{uuid.uuid4()}.metadata.json")
        at_ms = metadata["last-updated-ms"]
        log = [{"metadata-file": location, "timestamp-ms": at_ms - self._degradation.round_ms} for location in former[count // 2 :]]
        _local(newest).write_text(json.dumps({**metadata, "properties": properties, "metadata-log": log}))
        for location in former:
            os.link(_local(newest), _local(location))
        return newest

    def _list_name(self, snapshot_id: int, round_id: str) -> str:
        return f"snap-{snapshot_id}-0-lakeward-{round_id}-{uuid.uuid4()}.avro"

    def _location(self, name: str) -> str:
        return f"{self._loaded.metadata_location.rsplit('/', 1)[0]}/{name}"


def _renamed(template: bytes, number: int) -> bytes:
    """The manifest list of the former snapshot `number`, from that of the first: its header names the snapshot and the parent.

    All ids have as many digits, and Avro writes a text behind its length.
    """
    for former, renamed in ((FIRST_ID, FIRST_ID + number), (FIRST_ID - 1, FIRST_ID + number - 1)):
        length = bytes([2 * len(str(former))])
        template = template.replace(length + str(former).encode(), length + str(renamed).encode(), 1)
    return template


def _local(location: str) -> Path:
    return Path(location.removeprefix("file://"))
