"""Records the files that were synced to the disk, in order, and the files that existed then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class Syncs:
    """Paths of synced files and folders, in the order of their syncs, each with the names that a folder held then."""

    paths: list[Path] = field(default_factory=list)
    durable: set[Path] = field(default_factory=set)
    """Names that a sync of their folder has made durable."""

    def folder_syncs(self) -> int:
        return sum(path.is_dir() for path in self.paths)

    def take(self, path: Path) -> None:
        self.paths.append(path)
        if path.is_dir():
            self.durable.update(path.iterdir())


@contextmanager
def watched_syncs(patch: pytest.MonkeyPatch) -> Iterator[Syncs]:
    """Records every `os.fsync` of this process while the context is open; they are done, too."""
    syncs, fsync = Syncs(), os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        syncs.take(_path_of(descriptor))

    with patch.context() as patched:
        patched.setattr(os, "fsync", watched)
        yield syncs


def _path_of(descriptor: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))
