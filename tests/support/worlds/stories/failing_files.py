"""A file system that fails under some of this process's calls: those of one kind, below a folder.

What Lakeward, pyiceberg and pypaimon open, link, rename and sync goes through calls of Python's. What Arrow reads by itself is
not reached, but for the files that pyiceberg hands it.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest.mock import patch

from pyiceberg.io.pyarrow import PyArrowFile

Call = Callable[..., Any]

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class FailingFiles:
    """Fails one call of `operation` ("write", "read", "list", "link", "fsync"), after `passed` others went through.

    `after`: the call has its effect, and fails then. `failed` says which call it was.
    """

    def __init__(self, folder: Path, operation: str, passed: int = 0, *, after: bool = False, code: int = errno.EIO) -> None:
        self._folder = str(folder.resolve())
        self._operation, self._passed, self._after, self._code = operation, passed, after, code
        self.failed: str | None = None
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        self._replace(builtins, "open", self._opening(builtins.open))
        self._replace(io, "open", self._opening(io.open))
        self._replace(os, "open", self._opening(os.open))
        for name in ("link", "rename", "replace"):
            self._replace(
                os, name, self._failing(getattr(os, name), "link", lambda source, *_, **more: _of(source, more.get("src_dir_fd")))
            )
        self._replace(os, "fsync", self._failing(os.fsync, "fsync", lambda file: _of(file if isinstance(file, int) else file.fileno())))
        for name in ("listdir", "scandir"):
            self._replace(os, name, self._failing(getattr(os, name), "list", lambda folder=".": _of(folder)))
        for name in ("open", "exists"):
            self._replace(PyArrowFile, name, self._failing(getattr(PyArrowFile, name), "read", lambda file, *_, **__: file._path))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._patches.close()

    def _replace(self, target: Any, name: str, call: Call) -> None:
        self._patches.enter_context(patch.object(target, name, call))

    def _opening(self, call: Call) -> Call:
        reading = self._failing(call, "read", lambda path, *_, **more: _of(path, more.get("dir_fd")))
        writing = self._failing(call, "write", lambda path, *_, **more: _of(path, more.get("dir_fd")))

        def opened(path: Any, mode: Any = "r", *arguments: Any, **more: Any) -> Any:
            writes = mode & WRITES if isinstance(mode, int) else not mode.startswith("r") or "+" in mode
            is_folder = isinstance(mode, int) and mode & os.O_DIRECTORY
            return (call if is_folder else writing if writes else reading)(path, mode, *arguments, **more)

        return opened

    def _failing(self, call: Call, operation: str, place: Callable[..., str]) -> Call:
        if operation != self._operation:
            return call

        def failing(*arguments: Any, **more: Any) -> Any:
            where = place(*arguments, **more)
            if self.failed is not None or not where.startswith(self._folder):
                return call(*arguments, **more)
            self._passed -= 1
            if self._passed >= 0:
                return call(*arguments, **more)
            self.failed = f"{operation} {where.removeprefix(self._folder)}"
            if self._after:
                _closed(call(*arguments, **more))
            raise OSError(self._code, os.strerror(self._code), where)

        return failing


def _of(place: Any, folder: int | None = None) -> str:
    """The path of a descriptor, or of a name in a folder that is one."""
    if isinstance(place, int):
        return os.readlink(f"/proc/self/fd/{place}")
    path = os.fspath(place)
    text = os.fsdecode(path)
    return text if folder is None else os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)


def _closed(opened: Any) -> None:
    """Closes an opened file that is not returned."""
    if isinstance(opened, int):
        os.close(opened)
    elif hasattr(opened, "close"):
        opened.close()
