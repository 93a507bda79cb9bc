"""Fluss's own Python client, pyfluss, called from ordinary threads: one event loop, time-outs on everything, errors of our tree.

It makes tables and writes rows. What it cannot do goes through `wire`.
"""

from __future__ import annotations

import asyncio
import functools
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tiering.cluster.fluss.connection_options import FlussConnection
from tiering.cluster.fluss.wire.errors import error_of
from tiering.errors import ClusterUnavailable, InvalidArgument, LakewardError, SetupError
from tiering.extras import install_hint
from tiering.model.tables import TablePath

_CLIENT_SIDE = -2
"""Code of errors that pyfluss raises by itself."""
_NESTED = re.compile(r'ApiError \{ code: (\d+), message: "(.*)" \}')
"""In the message of a client-side error: Fluss's own, found without asking a server."""
_PIECE_BYTES = 2 << 20
"""Of what pyfluss gets at a time. A piece goes to one bucket, unless its rows have a bucket key."""
_BATCH_MS = "1000"
"""How long pyfluss gathers changes of a bucket into one batch, unless it is full or flushed."""
_ROWS = 20_000
"""Of upserts and deletes that are flushed, and whose answers are waited for, together: a few seconds' worth."""
_ANSWERS = 1_000
"""That are waited for together, which takes half the time that they take one after another."""
_FLUSH_SECONDS = 120.0
"""For rows that are flushed together to be acknowledged. pyfluss itself waits without end, for a partition that is not there among others;
a connection on which it did waits for the same rows with every later flush."""


class NativeClient:
    """Connects at the first call. Safe for several threads. Raises SetupError where pyfluss is not installed."""

    def __init__(self, options: FlussConnection) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Any = None
        self._written: dict[TablePath, object] = {}

    def create_database(self, name: str, ignore_if_exists: bool) -> None:
        """Raises AlreadyExists, InvalidArgument, ClusterUnavailable."""
        self._ask(lambda admin: admin.create_database(name, None, ignore_if_exists))

    def drop_database(self, name: str) -> None:
        """Drops it with all its tables. Raises UnknownDatabase, ClusterUnavailable."""
        self._ask(lambda admin: admin.drop_database(name, False, True))

    def create_table(self, path: TablePath, schema: pa.Schema, primary_key: Sequence[str], ignore_if_exists: bool, **shape: Any) -> None:
        """`shape`: as `fluss.TableDescriptor` takes it; what is empty is left to it.

        Raises AlreadyExists, UnknownDatabase, InvalidArgument, ClusterUnavailable.
        """
        native, parts = _pyfluss(), {name: value for name, value in shape.items() if value}
        try:
            descriptor = native.TableDescriptor(native.Schema(schema, list(primary_key) or None), **parts)
        except native.FlussError as error:
            raise _ours(error) from error
        self._ask(lambda admin: admin.create_table(_path(path), descriptor, ignore_if_exists))

    def drop_table(self, path: TablePath) -> None:
        """Raises UnknownTable, UnknownDatabase, ClusterUnavailable."""
        self._ask(lambda admin: admin.drop_table(_path(path), False))

    def create_partition(self, path: TablePath, values: Mapping[str, str]) -> None:
        """Makes a partition if it is not there. Raises UnknownTable, InvalidArgument, ClusterUnavailable."""
        self._ask(lambda admin: admin.create_partition(_path(path), dict(values), True))

    def drop_partition(self, path: TablePath, values: Mapping[str, str]) -> None:
        """Raises UnknownPartition, UnknownTable, ClusterUnavailable."""
        self._ask(lambda admin: admin.drop_partition(_path(path), dict(values), False))

    def expect(self, path: TablePath, identity: object) -> None:
        """To be called before a write: `identity` is what the table and its partitions are now, by their ids.

        pyfluss remembers ids by name as long as it is connected: rows for a partition or a table that was made anew under its name
        would wait without end, or turn up in a later one. So it connects anew if they are not those of the write before.
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
        """Appends rows in the table's columns, a partition a batch; all of them are acknowledged when this returns.

        Raises what a server refused any of them with; the others may have been written.
        """

        async def write(table: Any) -> None:
            writer = table.new_append().create_writer()
            handles = [writer.write_arrow_batch(piece) for batch in batches for piece in _pieces(batch.cast(table.arrow_schema))]
            await writer.flush()
            await _acknowledged(handles)

        self._write(path, write)

    def upsert(self, path: TablePath, rows: pa.RecordBatch) -> None:
        """Upserts whole rows in their order, likewise. pyfluss takes them one by one: some 10,000 a second.

        Each row's answer is waited for: batches are refused bucket by bucket, and only the client knows which row went to which bucket.
        """
        self._change(path, rows, lambda writer: writer.upsert)

    def delete(self, path: TablePath, keys: pa.RecordBatch) -> None:
        """Deletes the rows of the keys, whose columns are in the primary key's order, likewise."""
        self._change(path, keys, lambda writer: writer.delete)

    def _change(self, path: TablePath, rows: pa.RecordBatch, verb: Callable[[Any], Callable[[tuple[Any, ...]], Any]]) -> None:
        async def write(table: Any, part: pa.RecordBatch) -> None:
            writer = table.new_upsert().create_writer()
            change = verb(writer)
            handles = [change(row) for row in _tuples(part)]
            await writer.flush()
            await _acknowledged(handles)

        for start in range(0, rows.num_rows, _ROWS):
            self._write(path, functools.partial(write, part=rows.slice(start, _ROWS)))

    def close(self) -> None:
        """Ends its connections."""
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
        """The next call opens another one."""
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
    """`work` is called within the loop, where pyfluss wants to be called; `given_up` when it took too long."""

    async def bounded() -> Any:
        return await asyncio.wait_for(work(), seconds)

    try:
        return asyncio.run_coroutine_threadsafe(bounded(), loop).result()
    except TimeoutError as error:
        given_up()
        raise ClusterUnavailable(
            f"the Fluss cluster did not answer within {seconds:g} s", hint="Are its coordinator and all its tablet servers up?"
        ) from error
    except _pyfluss().FlussError as error:
        raise _ours(error) from error


def _pyfluss() -> Any:
    try:
        import fluss
    except ImportError as error:
        raise SetupError(
            "writing to a Fluss cluster needs the Python package pyfluss, which is not installed",
            hint=f"{install_hint('fluss')} pyfluss has wheels for Python 3.11 and 3.12.",
        ) from error
    return fluss


def _ours(error: Any) -> LakewardError:
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
    """Raises the error of one that was refused: `flush` waits for all answers, and raises none."""
    for start in range(0, len(handles), _ANSWERS):
        await asyncio.gather(*(handle.wait() for handle in handles[start : start + _ANSWERS]))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * _PIECE_BYTES // max(1, batch.nbytes))
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def _tuples(rows: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)
