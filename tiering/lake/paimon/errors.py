"""Errors of pypaimon and the storage become LakeUnavailable, redacted, with the cause kept."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pypaimon.catalog.catalog_exception import CatalogException

from tiering.errors import LakeUnavailable, LakewardError
from tiering.lake.outside_errors import describe

_DAMAGED: tuple[type[Exception], ...] = (ValueError, KeyError, TypeError, IndexError, EOFError, struct.error)
"""What readers of JSON and Avro raise over bytes that are no metadata."""
_OUTSIDE: tuple[type[Exception], ...] = (OSError, pa.ArrowException, RuntimeError, CatalogException)
"""pypaimon raises RuntimeError for most, and CatalogException for a table that somebody drops or renames while it is read."""
_HINT = "May this user read and write the lake's warehouse folder, is it mounted, and is its disk full?"
_GONE_HINT = (
    "Is the warehouse folder there, is it the right one, and is it mounted? If it is, a file of the lake table was removed: restore it "
    "from a backup of the warehouse, and the next round goes on by itself."
)
_DAMAGED_HINT = (
    "A metadata file of the lake table is damaged: in its folders `snapshot`, `schema` or `manifest`. Restore it from a backup of the "
    "warehouse; the next round tries again by itself."
)


@contextmanager
def lake_errors(action: str, **ids: object) -> Iterator[None]:
    """Raises LakeUnavailable ("cannot <action>: ...") for what pypaimon or the storage raise inside; errors of our tree pass."""
    try:
        yield
    except LakewardError:
        raise
    except _DAMAGED as error:
        raise LakeUnavailable(f"cannot {action}: {describe(error)}", hint=_DAMAGED_HINT, **ids) from error
    except _OUTSIDE as error:
        hint = _GONE_HINT if isinstance(error, FileNotFoundError) else _HINT
        raise LakeUnavailable(f"cannot {action}: {describe(error)}", hint=hint, **ids) from error
