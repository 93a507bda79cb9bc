"""The values of one split's partition, and the folder of its files. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pyarrow as pa

from tiering.errors import InvalidData
from tiering.model.tables import PARTITION_SEPARATOR, TableInfo

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(code) for code in range(32)}
"""Characters that Paimon writes as %XX in the name of a folder (`PartitionPathUtils`)."""
PartitionValue = str | int | date


def partition_texts(table: TableInfo, partition_name: str | None) -> tuple[str, ...]:
    """Returns the values of the partition columns in Fluss's text form: a date as 2024-01-31, an integer in decimal. Raises InvalidData."""
    texts = () if partition_name is None else tuple(partition_name.split(PARTITION_SEPARATOR))
    if len(texts) != len(table.partition_keys):
        raise InvalidData(
            f"partition {partition_name!r} of {table.path} does not name a value for each of ({', '.join(table.partition_keys)})",
            table_path=table.path,
            partition_name=partition_name,
        )
    return texts


def partition_values(keys: Sequence[str], columns: pa.Schema, texts: Sequence[str]) -> tuple[PartitionValue, ...]:
    """Returns the typed values. Raises InvalidData for a text that does not have its column's type, or has another form."""
    return tuple(_value(columns.field(name), text) for name, text in zip(keys, texts, strict=True))


def _value(column: pa.Field[pa.DataType], text: str) -> PartitionValue:
    try:
        if column.type == pa.date32():
            day = date.fromisoformat(text)
            if day.isoformat() == text:
                return day
        elif column.type == pa.int32():
            number = int(text)
            if str(number) == text and INT_MIN <= number <= INT_MAX:
                return number
        elif text.strip():
            return text
    except ValueError as error:
        raise _no_value(column, text) from error
    raise _no_value(column, text)


def _no_value(column: pa.Field[pa.DataType], text: str) -> InvalidData:
    return InvalidData(f"the partition value {text!r} of column {column.name!r} is not a {column.type}", column=column.name)


def bucket_folder(keys: Sequence[str], texts: Sequence[str], bucket: int) -> str:
    """Returns the folder of a bucket's files below the table's folder, as Paimon names it: `region=north/bucket-3`."""
    parts = [f"{_escaped(key)}={_escaped(text)}" for key, text in zip(keys, texts, strict=True)]
    return "/".join([*parts, f"bucket-{bucket}"])


def _escaped(text: str) -> str:
    return "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in text)
