"""The client of Fluss 1.0: its jar, fetched by `make test-setup`, and a JVM that writes bytes with its classes."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from types import TracebackType

import pyarrow as pa

from support.clusters.fluss_log import record_batch, schema_json
from support.java_sources import compiled_jar
from support.repository import ROOT
from support.spark.jvm_lines import ask_jvm
from tiering.cli.fluss_server.jars import SERVER_JARS, server_folder
from tiering.cli.fluss_server.java_process import JVM_OPTIONS
from tiering.cli.maven_jars import MavenJar, fetch_jars, fetch_with_maven
from tiering.cli.spark.java import require_java
from tiering.cluster.fluss.log.packed_rows import RowEncoding

CLIENT = MavenJar("org.apache.fluss", "fluss-client", "1.0.0", sha256="a73101b243277f618f0acfd8a38eb31635f9cb903c040168809d480f575654c0")
_HOME = ROOT / "tests" / "support" / "fluss_client"
_FOLDER = _HOME / "target"
_MAIN = "io.lakeward.testing.FlussFormats"
COMPRESSIONS = ("NONE", "LZ4_FRAME", "ZSTD")


def class_path() -> str:
    """Returns the class path of the JVM. Fetches the client and compiles the sources if need be. Raises SetupError."""
    client = _FOLDER / CLIENT.file_name
    if not client.is_file():
        # The client was published without checksums; its SHA-256 above is checked.
        fetch_jars(_FOLDER, [CLIENT], partial(fetch_with_maven, published_checksums=False))
    loggers = [str(server_folder() / jar.file_name) for jar in SERVER_JARS if jar.group == "org.slf4j"]
    libraries = ":".join([str(client), *loggers])
    return f"{libraries}:{compiled_jar(_HOME / 'src', libraries, _FOLDER / 'fluss-formats.jar')}"


class FlussClientError(Exception):
    """An error of the client: class and message."""


class FlussFormats:
    """Writes record batches and values of KV snapshots in a JVM. Close it, or use it as a context."""

    def __init__(self) -> None:
        options = (*JVM_OPTIONS, "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        command = [str(require_java()), *options, "-cp", class_path(), _MAIN]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> FlussFormats:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()

    def batch(
        self,
        rows: pa.RecordBatch,
        starting_offset: int,
        version: int,
        *,
        commit_ms: int,
        change_types: Sequence[int] | None = None,
        compression: str = "NONE",
        has_statistics: bool = False,
    ) -> bytes:
        """Returns a record batch with the rows; append-only without change types. An empty one uses one offset."""
        offsets = max(rows.num_rows, 1)
        original = record_batch(rows, starting_offset, change_types=change_types, commit_ms=commit_ms, offsets=offsets)
        options = (str(version), _word(change_types is None), compression, _word(has_statistics))
        return _bytes(self._answer("batch", rows.schema, original, *options))

    def packed(self, rows: pa.RecordBatch, change_types: Sequence[int], encoding: RowEncoding, version: int) -> bytes:
        """Returns a record batch of a log in the format INDEXED or COMPACTED, from offset 0 on."""
        original = record_batch(rows, 0, change_types=change_types)
        return _bytes(self._answer("packed", rows.schema, original, encoding.name, str(version)))

    def projected(self, log: bytes, schema: pa.Schema, columns: Sequence[int], compression: str = "NONE") -> bytes:
        """Returns what a server sends of record batches with these columns for a fetch of some of them."""
        return _bytes(self._answer("project", schema, log, compression, ",".join(map(str, columns))))

    def values(self, rows: pa.RecordBatch, encoding: RowEncoding, layout_version: int) -> list[bytes]:
        """Returns each row as the value of a KV snapshot, with schema id 1."""
        answer = self._answer("values", rows.schema, record_batch(rows, 0), encoding.name, str(layout_version))
        return [_bytes(word) for word in answer.split("\t")]

    def _answer(self, request: str, schema: pa.Schema, log: bytes, *options: str) -> str:
        words = (request, *(base64.b64encode(content).decode() for content in (schema_json(schema), log)), *options)
        return ask_jvm(self._process, words, FlussClientError)


def _word(value: bool) -> str:
    return str(value).lower()


def _bytes(word: str) -> bytes:
    return base64.b64decode(word)


if __name__ == "__main__":
    class_path()
    sys.exit(0)
