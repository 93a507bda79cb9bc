"""Local copies of a lake's files, for an engine that reads only local files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

THREADS = 8
BUFFER_BYTES = 1 << 20

OpenLocation = Callable[[str], AbstractContextManager[Any]]
"""Opens a file of the lake as a binary stream. Raises FileNotFoundError and the lake's own errors."""


class LocalCopies:
    """The files of a store to copy into `folder`. `fetch` copies them.

    `errors` turns the store's errors during the copy of a location into the lake's own errors.
    """

    def __init__(self, folder: Path, opened: OpenLocation, errors: Callable[[str], AbstractContextManager[None]]) -> None:
        self._folder = folder
        self._opened = opened
        self._errors = errors
        self._files: dict[str, Path] = {}

    def path_of(self, location: str) -> str:
        """Returns the future path of the copy: a number and the file's own name."""
        if location not in self._files:
            self._files[location] = self._folder / f"{len(self._files)}-{location.rsplit('/', 1)[-1]}"
        return str(self._files[location])

    def fetch(self) -> None:
        """Copies the files. A file that is not in the store is left out. Raises LakeUnavailable, ForbiddenLocation."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self._copy, self._files.items()))

    def _copy(self, file: tuple[str, Path]) -> None:
        location, path = file
        with (
            self._errors(location),
            suppress(FileNotFoundError),
            self._opened(location) as source,
            path.open("xb") as target,
        ):
            shutil.copyfileobj(source, target, BUFFER_BYTES)
