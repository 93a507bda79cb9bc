"""Fluss's own Python client, pyfluss, for use from ordinary threads: with one event loop, timeouts on all calls, and Lakeward's errors.

It creates tables and writes rows. Operations that it lacks go through `wire`.
"""

from __future__ import annotations

import asyncio
import functools
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.wire.errors import error_of
from tiering.errors import ClusterUnavailable, InvalidArgument, LakewardError, SetupError
from tiering.extras import install_hint
from tiering.model.tables import TablePath

_CLIENT_SIDE = -2
"""Code of errors that pyfluss itself raises."""
_NESTED = re.compile(r'ApiError \{ code: (\d+), message: "(.*)" \}')
"""Fluss's error in the message of a client-side error, which pyfluss found without a server."""
_PIECE_BYTES = 2 << 20
"""Size of the pieces that pyfluss gets. A piece goes to one bucket, unless its rows have a bucket key."""
_BATCH_MS = "1000"
"""Time for which pyfluss collects changes of a bucket in one batch, unless the batch is full or flushed."""
_ROWS = 20_000
"""Number of upserts or deletes that are flushed together, and whose answers are awaited together: a few seconds of work."""
_ANSWERS = 1_000
"""Number of answers that are awaited together, which takes half the time of awaiting them one by one."""
_FLUSH_SECONDS = 120.0
"""Timeout for the acknowledgement of rows that are flushed together. pyfluss itself waits without end, for example for a missing partition;
later flushes on the same connection then wait for the same rows.
"""


class NativeClient:
    """Connects on the first call. Safe to use from several threads. Raises SetupError if pyfluss is not installed."""

    def __init__(self, options: FlussConnection) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Any = None
        self._written: dict[TablePath, object] = {}

    def create_database(self, name: str, ignore_if_exists: bool) -> None:
        """Creates a database. Raises AlreadyExists, InvalidArgument, ClusterUnavailable."""
        self._ask(lambda admin: admin.create_database(name, None, ignore_if_exists))

    def drop_database(self, name: str, *, cascade: bool) -> None:
        """Drops a database, with `cascade` also its tables. Raises UnknownDatabase, InvalidArgument (it has tables), ClusterUnavailable."""
        self._ask(lambda admin: admin.drop_database(name, False, cascade))

    def create_table(self, path: TablePath, schema: pa.Schema, primary_key: Sequence[str], ignore_if_exists: bool, **shape: Any) -> None:
        """Creates a table. `shape` has arguments of `fluss.TableDescriptor`; empty ones get its defaults.

        Raises AlreadyExists, UnknownDatabase, InvalidArgument, ClusterUnavailable.
        """
        native, parts = _pyfluss(), {name: value for name, value in shape.items() if value}
        try:
            descriptor = native.TableDescriptor(native.Schema(schema, list(primary_key) or None), **parts)
        except native.FlussError as error:
            raise _as_lakeward_error(error) from error
        self._ask(lambda admin: admin.create_table(_path(path), descriptor, ignore_if_exists))

    def drop_table(self, path: TablePath) -> None:
        """Drops a table. Raises UnknownTable, UnknownDatabase, ClusterUnavailable."""
        self._ask(lambda admin: admin.drop_table(_path(path), False))

    def create_partition(self, path: TablePath, values: Mapping[str, str]) -> None:
        """Creates a partition if it does not exist. Raises UnknownTable, InvalidArgument, ClusterUnavailable."""
        self._ask(lambda admin: admin.create_partition(_path(path), dict(values), True))

    def drop_partition(self, path: TablePath, values: Mapping[str, str]) -> None:
        """Drops a partition. Raises UnknownPartition, UnknownTable, ClusterUnavailable."""
        self._ask(lambda admin: admin.drop_partition(_path(path), dict(values), False))

    def expect(self, path: TablePath, identity: object) -> None:
        """Reconnects if the table or its partitions were recreated since the last write. Called before each write; `identity` contains
        their present ids.

        pyfluss remembers ids by name as long as it is connected: rows for a recreated table or partition would wait without end, or appear
        in a later one.
        """
        with self._lock:
            is_same = self._written.get(path, identity) == identity
            connection, loop = self._connection, self._loop
            if not is_same:
                self._connection = None
                self._written.clear()
            self._written[path] = identity
        if not is_same and connection is not None and loop is not None:
            _result(connection.close, loop, self._options.request_timeout_s)

    def append(self, path: TablePath, batches: Sequence[pa.RecordBatch]) -> None:
        """Appends rows in the table's columns, one partition a batch; all of them are acknowledged on return.

        Raises the error with which a server refused any of them; the other rows may have been written.
        """

        async def write(table: Any) -> None:
            writer = table.new_append().create_writer()
            handles = [writer.write_arrow_batch(piece) for batch in batches for piece in _pieces(batch.cast(table.arrow_schema))]
            await writer.flush()
            await _acknowledged(handles)

        self._write(path, write)

    def upsert(self, path: TablePath, rows: pa.RecordBatch) -> None:
        """Upserts whole rows in their order; all of them are acknowledged on return. pyfluss takes them one by one: some 10,000 a second.

        Each row's answer is awaited: batches are refused bucket by bucket, and only the client knows the bucket of a row.
        """
        self._change(path, rows, lambda writer: writer.upsert)

    def delete(self, path: TablePath, keys: pa.RecordBatch) -> None:
        """Deletes the rows of the keys, whose columns are in the primary key's order; all are acknowledged on return."""
        self._change(path, keys, lambda writer: writer.delete)

    def _change(self, path: TablePath, rows: pa.RecordBatch, verb: Callable[[Any], Callable[[tuple[Any, ...]], Any]]) -> None:
        async def write(table: Any, part: pa.RecordBatch) -> None:
            writer = table.new_upsert().create_writer()
            change = verb(writer)
            handles = [change(row) for row in zip(*(column.to_pylist() for column in part.columns), strict=True)]
            await writer.flush()
            await _acknowledged(handles)

        for start in range(0, rows.num_rows, _ROWS):
            self._write(path, functools.partial(write, part=rows.slice(start, _ROWS)))

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            loop, connection = self._loop, self._connection
            self._loop = self._connection = None
        if loop is None:
            return
        if connection is not None:
            _result(connection.close, loop, self._options.request_timeout_s)
        loop.call_soon_threadsafe(loop.stop)

    def _ask(self, question: Callable[[Any], Awaitable[Any]]) -> None:
        connection, loop = self._connected()
        _result(lambda: question(connection.get_admin()), loop, self._options.request_timeout_s)

    def _write(self, path: TablePath, write: Callable[[Any], Awaitable[None]]) -> None:
        connection, loop = self._connected()

        async def whole() -> None:
            await write(await connection.get_table(_path(path)))

        _result(whole, loop, _FLUSH_SECONDS, lambda: self._leave(connection))

    def _leave(self, connection: Any) -> None:
        """Abandons a connection; the next call opens another one."""
        with self._lock:
            if self._connection is connection:
                self._connection = None

    def _connected(self) -> tuple[Any, asyncio.AbstractEventLoop]:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="pyfluss", daemon=True).start()
            if self._connection is None:
                native, settings = _pyfluss(), self._settings()
                seconds = self._options.connect_timeout_s + self._options.request_timeout_s
                self._connection = _result(lambda: native.FlussConnection.create(native.Config(settings)), self._loop, seconds)
            return self._connection, self._loop

    def _settings(self) -> dict[str, str]:
        settings = {"bootstrap.servers": ",".join(self._options.bootstrap_servers), "writer.batch-timeout-ms": _BATCH_MS}
        if self._options.username is not None:
            settings |= {
                "security.protocol": "sasl",
                "security.sasl.mechanism": "PLAIN",
                "security.sasl.username": self._options.username,
                "security.sasl.password": self._options.password(),
            }
        return settings


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _result(
    work: Callable[[], Awaitable[Any]], loop: asyncio.AbstractEventLoop, seconds: float, given_up: Callable[[], None] = lambda: None
) -> Any:
    """Runs `work` in the loop, as pyfluss requires, and returns its result; calls `given_up` after a timeout."""

    async def bounded() -> Any:
        return await asyncio.wait_for(work(), seconds)

    try:
        return asyncio.run_coroutine_threadsafe(bounded(), loop).result()
    except TimeoutError as error:
        given_up()
        raise ClusterUnavailable(
            f"the Fluss cluster did not answer within {seconds:g} s", hint="Check that its coordinator and all its tablet servers run."
        ) from error
    except _pyfluss().FlussError as error:
        raise _as_lakeward_error(error) from error


def _pyfluss() -> Any:
    try:
        import fluss
    except ImportError as error:
        raise SetupError(
            "writing to a Fluss cluster needs the Python package pyfluss, which is not installed",
            hint=f"{install_hint('fluss')} pyfluss has wheels for Python 3.11 and 3.12.",
        ) from error
    return fluss


def _as_lakeward_error(error: Any) -> LakewardError:
    message = str(error.message).splitlines()[0] if error.message else ""
    if error.error_code != _CLIENT_SIDE:
        return error_of(error.error_code, message)
    if refusal := _NESTED.search(message):
        return error_of(int(refusal[1]), refusal[2].replace('\\"', '"'))
    is_refused = any(reason in message for reason in ("illegal argument", "unsupported operation"))
    kind: type[LakewardError] = InvalidArgument if is_refused else ClusterUnavailable
    return kind(f"Fluss's client: {message}")


def _path(path: TablePath) -> Any:
    return _pyfluss().TablePath(path.database_name, path.table_name)


async def _acknowledged(handles: Sequence[Any]) -> None:
    """Raises the error of the first refused write: `flush` waits for all answers, but raises no error."""
    for start in range(0, len(handles), _ANSWERS):
        await asyncio.gather(*(handle.wait() for handle in handles[start : start + _ANSWERS]))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * _PIECE_BYTES // max(1, batch.nbytes))
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))
