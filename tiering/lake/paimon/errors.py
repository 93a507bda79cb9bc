"""Converts errors of pypaimon and the storage to LakeUnavailable, redacted, with the cause kept."""

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
"""Errors that readers of JSON and Avro raise for bytes that are no valid metadata."""
_OUTSIDE: tuple[type[Exception], ...] = (OSError, pa.ArrowException, RuntimeError)
"""Errors of the storage and of pypaimon, which mostly raises RuntimeError."""
_HINT = "Check that this user may read and write the lake's warehouse folder, that it is mounted, and that its disk is not full."
_STORE_HINT = (
    "Check that the lake's store is running and reachable, and that these keys may read, write and list there. The next round retries."
)
_GONE_HINT = (
    "Check that the warehouse folder exists, is the right one, and is mounted. If so, a file of the lake table was removed: restore it "
    "from a backup of the warehouse; the next round then continues."
)
_DAMAGED_HINT = (
    "A metadata file of the lake table is damaged, in its folder `snapshot`, `schema` or `manifest`. Restore it from a backup of the "
    "warehouse; the next round retries."
)


@contextmanager
def lake_errors(action: str, **ids: object) -> Iterator[None]:
    """Raises LakeUnavailable ("cannot <action>: ...") for errors of pypaimon or the storage inside the block; a LakewardError passes
    unchanged.
    """
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
    """Returns the error classes of the storage, and pypaimon's CatalogException if it is loaded: it is raised for a table that is dropped
    or renamed while it is read. Executors have no pypaimon.
    """
    module = sys.modules.get("pypaimon.catalog.catalog_exception")
    return _OUTSIDE if module is None else (*_OUTSIDE, module.CatalogException)


def _is_of_store(error: BaseException) -> bool:
    """Returns whether the error is an answer of S3, to boto3 or to PyArrow's client."""
    return isinstance(error, StoreError) or "AWS Error" in str(error)
