"""Files of a KV snapshot: a RocksDB, copied with its original file names and read value by value.

Damage must be an error, never look like the end of the data. RocksDB's iterators stop at a block that does not match its checksum, and a
torn manifest names only some of the tables; both cases are checked.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pyarrow import fs
from rocksdict import AccessType, Options, Rdict

from tiering.cluster.capabilities import uncounted
from tiering.cluster.fluss.remote_files import open_remote
from tiering.errors import ClusterUnavailable, DataCorrupt, KvSnapshotGone
from tiering.model.splits import TieringSnapshotSplit

CHUNK_ROWS = 32_768
"""Maximum number of values in a chunk: the decoding arrays fit in a processor's cache, and the cost per chunk does not matter."""
CHUNK_BYTES = 32 * 1024 * 1024
"""Maximum size of a chunk of wide values, plus one step."""
_STEP_ROWS = 1_024
_FETCHES = 4
"""Number of files that are fetched concurrently: enough to hide the round trips of an object store."""
_COPY_BYTES = 1024 * 1024
_TABLE_SUFFIX = ".sst"


@dataclass(frozen=True)
class SnapshotFile:
    """One file of a snapshot."""

    remote_path: str
    """A path or URI under Fluss's `remote.data.dir`."""
    local_name: str
    """The file's name within the RocksDB."""


def read_values(
    files: Sequence[SnapshotFile], storage: Mapping[str, str], split: TieringSnapshotSplit, count: Callable[[int], None] = uncounted
) -> Iterator[list[bytes]]:
    """Yields all values of the snapshot, in chunks. `storage` has properties of the file system, as in `open_remote`. `count` gets the
    total size of the files in bytes.

    No file stays on the disk, even if the process dies: files are unlinked as soon as they are open. Raises KvSnapshotGone if a file does
    not exist, ClusterUnavailable if the storage does not answer, DataCorrupt.
    """
    with tempfile.TemporaryDirectory(prefix="lakeward-kv-snapshot-") as folder:
        _fetch(files, storage, Path(folder), split)
        count(sum(file.stat().st_size for file in Path(folder).iterdir()))
        database = _open(Path(folder), files, storage, split)
    try:
        yield from _values(database, split)
    finally:
        database.close()


def _fetch(files: Sequence[SnapshotFile], storage: Mapping[str, str], folder: Path, split: TieringSnapshotSplit) -> None:
    for file in files:
        if Path(file.local_name).name != file.local_name:
            raise corrupt_snapshot(split, f"a file of it has the name {file.local_name!r}")
    with ThreadPoolExecutor(_FETCHES) as pool:
        for _ in pool.map(lambda file: _fetch_file(file, storage, folder, split), files):
            pass


def _fetch_file(file: SnapshotFile, storage: Mapping[str, str], folder: Path, split: TieringSnapshotSplit) -> None:
    """Links to a local file, or copies another one."""
    system, path = open_remote(file.remote_path, storage)
    local = folder / file.local_name
    try:
        if isinstance(system, fs.LocalFileSystem):
            os.symlink(os.path.abspath(path), local)
            os.stat(local)
        else:
            with system.open_input_stream(path) as source, local.open("wb") as copy:
                shutil.copyfileobj(source, copy, _COPY_BYTES)
    except FileNotFoundError as error:
        raise _missing(system, path, split) from error
    except OSError as error:
        raise ClusterUnavailable(
            f"cannot fetch the file {file.remote_path} of a KV snapshot of {_place(split)}: {error}",
            hint=f"Check that this machine reaches Fluss's remote.data.dir, and that {folder.parent} has room for the snapshot.",
        ) from error


def _missing(system: fs.FileSystem, path: str, split: TieringSnapshotSplit) -> KvSnapshotGone | ClusterUnavailable:
    """Returns the error for a missing file. If the storage has no folder for KV snapshots either, the storage itself is not reachable."""
    storage_folder = path.rpartition("/kv/")[0]
    if system.get_file_info(f"{storage_folder}/kv").type is fs.FileType.NotFound:
        return ClusterUnavailable(
            f"Fluss's remote.data.dir does not exist at {storage_folder} on this machine",
            hint="Every executor must be able to read Fluss's remote.data.dir under the same path.",
        )
    message = f"the file {path} of KV snapshot {split.snapshot_id} of {_place(split)} does not exist"
    return KvSnapshotGone(message, bucket=split.bucket, snapshot_id=split.snapshot_id)


def _open(folder: Path, files: Sequence[SnapshotFile], storage: Mapping[str, str], split: TieringSnapshotSplit) -> Rdict:
    """Opens the RocksDB in `folder`, with all of its files."""
    options = Options(raw_mode=True)
    options.create_if_missing(False)
    options.set_max_open_files(-1)
    try:
        database = Rdict(str(folder), options, access_type=AccessType.read_only(False))
    except Exception as error:  # rocksdict raises no more specific error
        if missing := next((file for file in files if not (folder / file.local_name).exists()), None):
            raise _missing(*open_remote(missing.remote_path, storage), split) from error
        raise corrupt_snapshot(split, str(error)) from error
    tables = {file.local_name for file in files if file.local_name.endswith(_TABLE_SUFFIX)}
    if unknown := tables - {str(live["name"]).lstrip("/") for live in database.live_files()}:
        database.close()
        raise corrupt_snapshot(split, f"its manifest does not name {', '.join(sorted(unknown))}")
    return database


def _values(database: Rdict, split: TieringSnapshotSplit) -> Iterator[list[bytes]]:
    entries = database.items()
    chunk: list[bytes] = []
    size = 0
    last_key: Any = None
    while step := list(islice(entries, _STEP_ROWS)):
        last_key = step[-1][0]
        values = [value for _, value in step]
        chunk += values
        size += sum(map(len, values))
        if len(chunk) >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    _check_end(database, last_key, split)
    if chunk:
        yield chunk


def _check_end(database: Rdict, last_key: Any, split: TieringSnapshotSplit) -> None:
    """Raises DataCorrupt unless the last key that was read is followed by the end of the database."""
    end = database.iter()
    try:
        if last_key is None:
            end.seek_to_first()
        else:
            end.seek(last_key)
            end.next()
        end.status()
    except Exception as error:  # rocksdict raises no more specific error
        raise corrupt_snapshot(split, str(error)) from error
    if end.valid():
        raise corrupt_snapshot(split, "reading it ended early")


def corrupt_snapshot(split: TieringSnapshotSplit, damage: str) -> DataCorrupt:
    """Returns the error for a snapshot with the given damage."""
    return DataCorrupt(
        f"KV snapshot {split.snapshot_id} of {_place(split)} is damaged: {damage}",
        hint="Check Fluss's remote storage. Once the bucket has a newer KV snapshot, CALL sys.retry_tiering continues with that one.",
        bucket=split.bucket,
        snapshot_id=split.snapshot_id,
    )


def _place(split: TieringSnapshotSplit) -> str:
    return f"{split.table_path} bucket {split.bucket}"
