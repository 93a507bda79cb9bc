"""Tells whether a process opens, creates or deletes a file in a folder with any library: the kernel reports it (inotify)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OPEN, _CREATE, _DELETE = 0x20, 0x100, 0x200
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """Names of the files that were touched since it was made."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK)
        if self._descriptor < 0 or _libc.inotify_add_watch(self._descriptor, str(folder).encode(), _OPEN | _CREATE | _DELETE) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def touched(self) -> list[str]:
        names: list[str] = []
        try:
            while content := os.read(self._descriptor, 1 << 16):
                at = 0
                while at < len(content):
                    _, _, _, length = _EVENT.unpack_from(content, at)
                    at += _EVENT.size + length
                    names.append(content[at - length : at].rstrip(b"\0").decode())
        except BlockingIOError:
            return sorted({name for name in names if name})

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def watched(folder: Path) -> Iterator[Watch]:
    watch = Watch(folder)
    try:
        yield watch
    finally:
        watch.close()
