"""The token of a planned statement, which any later version of the service can check by itself.

The token is the digest of the whole Describe answer, followed by a short hash of each column (table, name, type) and of each whole table.
So the service can check whether the requested columns are unchanged, also after a restart or an upgrade, without storing its answers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sys_tables.declare.system_table import SystemTable
from tiering.errors import StatementOutdated
from tiering.model.sql_types import spark_type

_DIGEST_BYTES = 16
_HASH_BYTES = 6
"""Probability that a changed column is taken for an unchanged one: 2**-48 times the number of columns."""

_TEXT_LIMIT = 256 * 1024
"""Characters that are read: enough for some 30,000 columns."""


@dataclass(frozen=True)
class PlanToken:
    """The parts of a token. `digest` changes with any part of the Describe answer; `promises` are the hashes of tables and columns."""

    digest: bytes
    promises: frozenset[bytes]

    @staticmethod
    def of(description: bytes, tables: Sequence[SystemTable]) -> PlanToken:
        """Returns the token for a serialized description and the tables in it."""
        return PlanToken(hashlib.sha256(description).digest()[:_DIGEST_BYTES], frozenset(_promises(tables)))

    @staticmethod
    def parse(text: str) -> PlanToken:
        """Returns the token in a text, the inverse of str(). Other text has no promises."""
        try:
            data = base64.urlsafe_b64decode(text.encode()) if len(text) <= _TEXT_LIMIT else b""
        except (binascii.Error, ValueError):
            data = b""
        hashes = data[_DIGEST_BYTES:]
        return PlanToken(data[:_DIGEST_BYTES], frozenset(hashes[i : i + _HASH_BYTES] for i in range(0, len(hashes), _HASH_BYTES)))

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self.digest + b"".join(sorted(self.promises))).decode()

    def check(self, table: SystemTable, columns: Sequence[str]) -> None:
        """Raises StatementOutdated unless the columns (all of them, if none is named) were promised as they are now."""
        if _table_hash(table) in self.promises:
            return
        if not columns:
            raise StatementOutdated(f"the columns of sys.{table.name} have changed since the statement was planned")
        for name in columns:
            if name not in table.schema.names or _column_hash(table, name) not in self.promises:
                raise StatementOutdated(f"the column {name!r} of sys.{table.name} has changed since the statement was planned")


def _promises(tables: Sequence[SystemTable]) -> list[bytes]:
    return [hashed for table in tables for hashed in (_table_hash(table), *(_column_hash(table, name) for name in table.schema.names))]


@cache
def _table_hash(table: SystemTable) -> bytes:
    return _hash(table.name, *(part for name in table.schema.names for part in _column_parts(table, name)))


@cache
def _column_hash(table: SystemTable, name: str) -> bytes:
    return _hash(table.name, *_column_parts(table, name))


def _column_parts(table: SystemTable, name: str) -> tuple[str, str, str]:
    field = table.schema.field(name)
    return name, spark_type(field.type), "NULL" if field.nullable else "NOT NULL"


def _hash(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode()).digest()[:_HASH_BYTES]
