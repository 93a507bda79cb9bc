"""The numbers of rows that readers of lake tables count, each independently of Lakeward, for proofs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol, runtime_checkable

from tiering.lake.base import LakeView
from tiering.lake.outside_errors import describe
from tiering.library_guards.panics import panics_raised_as
from tiering.redaction.redact import outside_text

NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class ReaderCount:
    """The number of rows that a reader of lake tables counted. `rows` None: it could not, for the reason in `note`."""

    reader: str
    version: str | None
    rows: int | None
    note: str = ""


@runtime_checkable
class CountingLake(Protocol):
    """A lake whose rows other Python packages can count."""

    def count_rows(self, view: LakeView, snapshot_id: int) -> Sequence[ReaderCount]:
        """Returns what each package counts in a snapshot by reading the rows, or why it could not."""


def counted_by(package: str, count: Callable[[], int]) -> ReaderCount:
    """Returns what a package counts, or why it could not: it is not installed, or it raised an error."""
    try:
        installed = version(package)
    except PackageNotFoundError:
        return ReaderCount(package, None, None, NOT_INSTALLED)
    try:
        with panics_raised_as(RuntimeError):
            return ReaderCount(package, installed, count())
    except Exception as error:  # a reader may raise any error
        return ReaderCount(package, installed, None, f"cannot read the snapshot: {outside_text(describe(error))}")
