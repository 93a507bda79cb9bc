"""A file system that fails at random below one folder: an error comes before an operation has its effect, or after it.

Below Python's own calls, and below PyArrow's file system as pyiceberg uses it. A sync that fails leaves half of the file. What a test does
there itself is done under `calm`. Nothing is really synced: no power fails here.
"""

from __future__ import annotations

import builtins
import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
from pyarrow.fs import FileSelector
from pyiceberg.io.pyarrow import PyArrowFileIO
from pypaimon.filesystem import local_file_io

SHARES = {
    "read": 0.003,
    "stat": 0.001,
    "list": 0.02,
    "create": 0.005,
    "sync": 0.005,
    "link": 0.1,
    "rename": 0.05,
    "remove": 0.05,
    "make": 0.01,
    "catalog": 0.03,
}
"""How often an operation fails: those that make a commit or take a file away more often than the many others."""
FACTORS = (0, 0.5, 1, 3)
"""From a file system that is well to one that fails all the time; one of them for the whole story."""
WRITES = frozenset({"create", "sync", "link", "rename", "make"})
OF_OS = {
    "link": "link",
    "rename": "rename",
    "replace": "rename",
    "unlink": "remove",
    "listdir": "list",
    "scandir": "list",
    "stat": "stat",
    "mkdir": "make",
}
OF_PYARROW = {"open_input_file": "read", "open_input_stream": "read", "open_output_stream": "create", "delete_file": "remove"}
HAVE_NO_EFFECT = frozenset({"read", "stat", "list"})


class FailingFiles:
    """See the module. `failing`: whether anything fails now. `failures` counts operations that did, by their kind and moment."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.failing: Callable[[], bool] = lambda: False
        self.failures: Counter[str] = Counter()
        self._folder = str(folder)
        self._random = chance
        self._factor = chance.choice(FACTORS)
        self._calm = 0

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Nothing fails meanwhile."""
        self._calm += 1
        try:
            yield
        finally:
            self._calm -= 1

    @contextmanager
    def patched(self) -> Iterator[None]:
        """All file access of this process goes through here meanwhile."""
        initialize = PyArrowFileIO._initialize_local_fs
        with ExitStack() as patches:
            for name, kind in OF_OS.items():
                patches.enter_context(patch.object(os, name, self._watched(kind, getattr(os, name))))
            patches.enter_context(patch.object(os, "open", self._opening(os.open)))
            patches.enter_context(patch.object(os, "fsync", self._sync))
            patches.enter_context(patch.object(local_file_io, "open", self._opening(builtins.open), create=True))
            patches.enter_context(patch.object(pq, "ParquetFile", self._watched("read", pq.ParquetFile)))
            patches.enter_context(patch.object(pq, "read_metadata", self._watched("read", pq.read_metadata)))
            patches.enter_context(patch.object(PyArrowFileIO, "_initialize_local_fs", lambda io: _FailingFileSystem(self, initialize(io))))
            yield

    def run(self, kind: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The call's result, or an OSError instead of it or behind it."""
        moment = self._moment(kind)
        if moment == "before":
            raise self._failure(kind, moment)
        result = call(*args, **options)
        if moment == "after":
            if isinstance(result, int):
                os.close(result)
            elif hasattr(result, "close"):
                result.close()
            raise self._failure(kind, moment)
        return result

    def _moment(self, kind: str) -> str | None:
        if self._calm or not self.failing() or self._random.random() >= SHARES[kind] * self._factor:
            return None
        return "before" if kind in HAVE_NO_EFFECT else self._random.choice(("before", "after"))

    def _failure(self, kind: str, moment: str) -> OSError:
        self.failures[f"{kind} {moment}"] += 1
        number = self._random.choice((errno.EIO, errno.ENOSPC) if kind in WRITES else (errno.EIO, errno.ESTALE))
        return OSError(number, f"{os.strerror(number)}: {kind}, {moment} its effect")

    def _watched(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            return self.run(kind, call, *args, **options) if self._is_inside(args, options) else call(*args, **options)

        return watched

    def _opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opening(path: Any, mode: Any = "r", *args: Any, **options: Any) -> Any:
            writes = mode & os.O_CREAT if isinstance(mode, int) else "r" not in mode
            if not self._is_inside((path,), options):
                return call(path, mode, *args, **options)
            return self.run("create" if writes else "read", call, path, mode, *args, **options)

        return opening

    def _sync(self, descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if not name.startswith(self._folder) or self._moment("sync") is None:
            return
        with suppress(IsADirectoryError):
            os.truncate(name, os.fstat(descriptor).st_size // 2)
        raise self._failure("sync", "after")

    def _is_inside(self, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
        """Whether the path is in the folder: paths relative to an open folder always are."""
        if options.get("dir_fd") is not None or options.get("src_dir_fd") is not None:
            return True
        path = args[0] if args else "."
        if isinstance(path, int):
            return os.readlink(f"/proc/self/fd/{path}").startswith(self._folder)
        return os.fsdecode(path).startswith(self._folder)


class _FailingFileSystem:
    """PyArrow's, as far as pyiceberg and Lakeward call it."""

    def __init__(self, files: FailingFiles, filesystem: Any) -> None:
        self._files = files
        self._filesystem = filesystem

    def get_file_info(self, paths: Any) -> Any:
        kind = "list" if isinstance(paths, FileSelector) else "stat"
        return self._files.run(kind, self._filesystem.get_file_info, paths)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._filesystem, name)
        return lambda *args, **options: self._files.run(OF_PYARROW[name], call, *args, **options)
