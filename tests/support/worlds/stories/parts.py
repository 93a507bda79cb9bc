"""State that every part of a story uses: the deployment, the model of its tables, draws from the seed, and the outputs."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from support.lake_kinds.kinds import LakeKind
from support.worlds.data_folders import FolderWorld
from support.worlds.stories.model import Model
from tiering import errors

FORESEEN = {"LibraryPanic"}
"""Classes of outside errors that may appear: a library's panic cannot be foreseen."""


class StoryParts:
    """`log` tells what was done; `injected` counts faults by their names."""

    def __init__(self, folder: Path, seed: int, kind: LakeKind) -> None:
        self.rng = random.Random(seed)
        self.kind = kind
        self.world = FolderWorld(folder, kind)
        self.world.storage.create_database("sales")
        self.models: dict[str, Model] = {}
        self.has_values_shown_wrong = False
        """Whether a table had values that tools of others cannot read or write."""
        self.log: list[str] = []
        self.injected: Counter[str] = Counter()
        self.numbers = itertools.count(1)
        self.unclear: list[str] = []
        """Errors that no user could do anything about."""

    def close(self) -> None:
        self.world.close()

    def attempt(self, action: str, do: Callable[[], object]) -> object:
        """An error of Lakeward's is an answer; any other ends the story."""
        try:
            result = do()
        except errors.LakewardError as error:
            self.log.append(f"{action}: {error.error_class}: {error.message} [{error.hint}]")
            self.judge(error)
            return error
        if result is not None:
            self.log.append(f"{action}: {result}")
        return result

    def judge(self, error: errors.LakewardError) -> None:
        """Judges an error. A library's error is unclear, unless it was foreseen, and so is an error that waits for a user without saying
        so."""
        if not hasattr(errors, error.error_class) and error.error_class not in FORESEEN and not error.hint:
            self.unclear.append(f"{error.error_class}: {error.message}")
        if isinstance(error, errors.PermanentTieringError | errors.DataCorrupt) and not error.hint:
            self.unclear.append(f"no hint: {error.error_class}: {error.message}")

    def pick(self) -> Model:
        if not self.models:
            self.create()
        return self.models[self.rng.choice(sorted(self.models))]

    def create(self) -> str | None:
        raise NotImplementedError


def run_call(work: Coroutine[Any, Any, Any]) -> Any:
    """Returns the answer of a CALL."""
    return asyncio.run(work)
