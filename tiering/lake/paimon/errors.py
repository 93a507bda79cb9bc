"""Errors of pypaimon and the storage become LakeUnavailable, redacted, with the cause kept."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tiering.errors import LakeUnavailable, LakewardError
from tiering.lake.outside_errors import describe
from tiering.lake.paimon.storage.s3_objects import StoreError

_DAMAGED: tuple[type[Exception], ...] = (ValueError, KeyError, TypeError, IndexError, EOFError, struct.error)
"""What readers of JSON and Avro raise over bytes that are no metadata."""
_OUTSIDE: tuple[type[Exception], ...] = (OSError, pa.ArrowException, RuntimeError)
"""pypaimon raises RuntimeError for most."""
_HINT = "May this user read and write the lake's warehouse folder, is it mounted, and is its disk full?"
_STORE_HINT = (
    "Is the store of the lake up and reachable, and may these keys read, write and list there? The next round tries again by itself."
)
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
    except _outside() as error:
        hint = _GONE_HINT if isinstance(error, FileNotFoundError) else _STORE_HINT if _is_of_store(error) else _HINT
        raise LakeUnavailable(f"cannot {action}: {describe(error)}", hint=hint, **ids) from error


def _outside() -> tuple[type[Exception], ...]:
    """pypaimon's CatalogException too, of a table that somebody drops or renames while it is read. Executors have no pypaimon."""
    module = sys.modules.get("pypaimon.catalog.catalog_exception")
    return _OUTSIDE if module is None else (*_OUTSIDE, module.CatalogException)


def _is_of_store(error: BaseException) -> bool:
    """Whether S3 answered it, to boto3 or to PyArrow's client."""
    return isinstance(error, StoreError) or "AWS Error" in str(error)
