"""Accesses HDFS with hdfs-native, a client without Java. Every call has a time limit, and errors are those of Python's own files.

The client reads Hadoop's `core-site.xml` and `hdfs-site.xml` in HADOOP_CONF_DIR (name services, Kerberos), and the user's name in
HADOOP_USER_NAME. The client itself has no time limits, and repeats a call after a broken connection. So `rename` and `delete` may report
the effect of their own first try as an error; callers must expect this.
"""

from __future__ import annotations

import errno
import io
import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from tiering.errors import SetupError
from tiering.extras import install_hint

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus
    from hdfs_native import FileReader as RawReader
    from hdfs_native import FileWriter as RawWriter

CALL_SECONDS = 30.0
"""Time limit of one call, in seconds. A name node in fail-over, or a data node that is replaced, answers within this time or not at all."""
CONNECT_SECONDS = 5.0
BUFFER_BYTES = 1 << 20
EXTRA = "hdfs"
_TEXT_CHARACTERS = 300
_T = TypeVar("_T")


class Hdfs:
    """One HDFS. Raises FileNotFoundError, FileExistsError, PermissionError, TimeoutError, and OSError for all other errors."""

    def __init__(self, authority: str, client: Client, seconds: float = CALL_SECONDS) -> None:
        self.authority = authority
        self._client = client
        self._seconds = seconds
        self._answers = False

    def status(self, path: str) -> FileStatus | None:
        """Returns the status of a file or folder; None if it does not exist."""
        try:
            return self.call(self._client.get_file_info, path)
        except FileNotFoundError:
            return None

    def list(self, folder: str, *, recursive: bool = False) -> list[FileStatus]:
        """Returns the entries of a folder. Raises FileNotFoundError."""
        return self.call(lambda: list(self._client.list_status(folder, recursive)))

    def open(self, path: str) -> io.RawIOBase:
        """Opens a file for reading at any position."""
        return _Reader(self, self.call(self._client.read, path))

    def create(self, path: str, *, overwrite: bool) -> io.BufferedWriter:
        """Creates a file and its folders. The file is complete after it was closed.

        Raises FileExistsError, by the name node's own check.
        """
        from hdfs_native import WriteOptions

        return io.BufferedWriter(
            _Writer(self, self.call(self._client.create, path, WriteOptions(overwrite=overwrite, create_parent=True))), BUFFER_BYTES
        )

    def rename(self, source: str, target: str) -> None:
        """Renames a file atomically, never over an existing one: that raises FileExistsError. After any other error, it may have happened
        or happen later.
        """
        self.call(self._client.rename, source, target, False)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Deletes a file or a folder, a folder atomically with its content. Returns whether it existed."""
        return self.call(self._client.delete, path, recursive)

    def make_folder(self, path: str) -> None:
        """Creates a folder and all missing folders above it; an existing folder is fine."""
        self.call(self._client.mkdirs, path, 0o755, True)

    def call(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Returns the result of `function`, within the time limit of one call."""
        if not self._answers:
            self._check_that_it_listens()
        outcome: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                outcome.append(function(*arguments))
            except BaseException as error:  # raised again in the caller's thread
                errors.append(error)

        thread = Thread(target=run, daemon=True, name="hdfs")
        thread.start()
        thread.join(self._seconds)
        self._answers = not thread.is_alive() and not (errors and type(errors[0]) is OSError)
        if outcome:
            return outcome[0]
        if errors:
            raise self._error(errors[0]) from errors[0]
        raise TimeoutError(errno.ETIMEDOUT, f"HDFS at {self.authority} did not answer within {self._seconds:g} s")

    def _check_that_it_listens(self) -> None:
        """Raises OSError if no program listens at the address, because the client would wait for one without end. A name service has no
        port to check.
        """
        parts = urlsplit(f"//{self.authority}")
        if parts.hostname and parts.port:
            try:
                socket.create_connection((parts.hostname, parts.port), CONNECT_SECONDS).close()
            except OSError as error:
                raise OSError(
                    error.errno or errno.EHOSTUNREACH, f"no HDFS answers at {self.authority}: {error.strerror or error}"
                ) from error

    def _error(self, error: BaseException) -> BaseException:
        text = " ".join(str(error).partition("\n")[0].partition("\\n")[0].split())[:_TEXT_CHARACTERS]
        if isinstance(error, FileNotFoundError | FileExistsError | IsADirectoryError):
            number = {FileNotFoundError: errno.ENOENT, FileExistsError: errno.EEXIST}.get(type(error), errno.EISDIR)
            return OSError(number, f"HDFS at {self.authority}: {text}")
        if "AccessControlException" in text:
            return PermissionError(errno.EACCES, f"HDFS at {self.authority} refuses: {text}")
        if isinstance(error, OSError | RuntimeError | NotImplementedError):
            return OSError(errno.EIO, f"HDFS at {self.authority}: {text}")
        return error


@lru_cache(maxsize=16)
def _client_of(authority: str, _process: int) -> Hdfs:
    try:
        from hdfs_native import Client
    except ModuleNotFoundError as error:
        raise SetupError(
            f"files on hdfs:// need the Python package {error.name}", hint=f"{install_hint(EXTRA)} All machines that run rounds need it."
        ) from error
    try:
        return Hdfs(authority, Client(f"hdfs://{authority}" if authority else None))
    except (OSError, RuntimeError, ValueError) as error:
        raise SetupError(
            f"HDFS at {authority or 'fs.defaultFS'} cannot be opened: {str(error)[:_TEXT_CHARACTERS]}",
            hint="Name a host with its port, or a name service of the hdfs-site.xml in HADOOP_CONF_DIR.",
        ) from error


def open_hdfs(authority: str) -> Hdfs:
    """Returns the HDFS of a host with its port, or of a name service; for "", the one in core-site.xml.

    Each process has one client; a forked process creates its own. Does not connect. Raises SetupError.
    """
    return _client_of(authority, os.getpid())


def hdfs_file_system(authority: str) -> fs.FileSystem:
    """Returns the same HDFS for PyArrow. Raises SetupError."""
    return fs.PyFileSystem(_Handler(open_hdfs(authority)))


class _Reader(io.RawIOBase):
    def __init__(self, hdfs: Hdfs, inner: RawReader) -> None:
        super().__init__()
        self._hdfs, self._inner, self._position = hdfs, inner, 0
        self._size = len(inner)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence] + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        remaining = max(self._size - self._position, 0)
        count = remaining if size is None or size < 0 else min(size, remaining)
        content = self._hdfs.call(self._inner.read_range, self._position, count) if count else b""
        self._position += len(content)
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


class _Writer(io.RawIOBase):
    def __init__(self, hdfs: Hdfs, inner: RawWriter) -> None:
        super().__init__()
        self._hdfs, self._inner = hdfs, inner
        self._whole, self._written = True, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, content: Any) -> int:
        self._whole = False  # until all of the content is written
        written = self._hdfs.call(self._inner.write, bytes(content))
        self._whole, self._written = True, self._written + written
        return written

    def close(self) -> None:
        """Completes the file at the name node, unless a part of the file is missing."""
        if self.closed:
            return
        super().close()
        if self._whole:
            self._hdfs.call(self._inner.close)


class _Handler(fs.FileSystemHandler):
    """The calls of PyArrow and pyiceberg for the files of a lake. Neither copies, moves or appends."""

    def __init__(self, hdfs: Hdfs) -> None:
        self._hdfs = hdfs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and other._hdfs.authority == self._hdfs.authority

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Callable[[str], _Handler], tuple[str]]:
        return _handler, (self._hdfs.authority,)

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: str | list[str]) -> list[fs.FileInfo]:
        return [_info(path, self._hdfs.status(path)) for path in ([paths] if isinstance(paths, str) else paths)]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        try:
            return [_info(status.path, status) for status in self._hdfs.list(selector.base_dir, recursive=selector.recursive)]
        except FileNotFoundError:
            if not selector.allow_not_found:
                raise
            return []

    def create_dir(self, path: str, recursive: bool) -> None:
        self._hdfs.make_folder(path)

    def delete_file(self, path: str) -> None:
        if not self._hdfs.delete(path):
            raise FileNotFoundError(errno.ENOENT, f"HDFS at {self._hdfs.authority}: there is no {path}")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(self._hdfs.open(path), mode="r")

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(self._hdfs.open(path), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.PythonFile:
        return pa.PythonFile(self._hdfs.create(path, overwrite=True), mode="w")

    def delete_dir(self, path: str) -> None:
        self._hdfs.delete(path, recursive=True)

    def _never_called(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError

    delete_dir_contents = delete_root_dir_contents = move = copy_file = open_append_stream = _never_called


def _handler(authority: str) -> _Handler:
    return _Handler(open_hdfs(authority))


def _info(path: str, status: FileStatus | None) -> fs.FileInfo:
    if status is None:
        return fs.FileInfo(path, fs.FileType.NotFound)
    modified = datetime.fromtimestamp(status.modification_time / 1000, UTC)
    if status.isdir:
        return fs.FileInfo(path, fs.FileType.Directory, mtime=modified)
    return fs.FileInfo(path, fs.FileType.File, size=status.length, mtime=modified)
