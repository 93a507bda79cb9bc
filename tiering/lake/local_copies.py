"""Copies of a lake's files on this machine, for an engine that reads local files alone."""

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
"""Opens a file of the lake, as a binary stream; raises FileNotFoundError, and the lake's own errors."""


class LocalCopies:
    """Files of a store that are to be copied into `folder`. Nothing is copied before `fetch`.

    `errors`: turns what the store raises while a location is copied into the lake's own errors.
    """

    def __init__(self, folder: Path, opened: OpenLocation, errors: Callable[[str], AbstractContextManager[None]]) -> None:
        self._folder = folder
        self._opened = opened
        self._errors = errors
        self._files: dict[str, Path] = {}

    def path_of(self, location: str) -> str:
        """Where the copy will be: behind a number, the file's own name."""
        if location not in self._files:
            self._files[location] = self._folder / f"{len(self._files)}-{location.rsplit('/', 1)[-1]}"
        return str(self._files[location])

    def fetch(self) -> None:
        """Copies them. One that is not in the store is left out. Raises LakeUnavailable, ForbiddenLocation."""
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
