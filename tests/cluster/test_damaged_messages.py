"""Rows and schemas that a client sends: whatever bytes they are, the service takes them whole or says that they are none."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from tiering.arrow_ipc import WRITE_LIMITS, read_rows, read_schema
from tiering.cluster.embedded.pb import rows_to_bytes
from tiering.cluster.embedded.types import storable_schema
from tiering.errors import InvalidArgument, InvalidData, LakewardError

EXAMPLES = 1_500
ROWS = pa.record_batch(
    {
        "id": pa.array(range(40)),
        "text": [f"\u00e9{number}" for number in range(40)],
        "at": pa.array([0] * 40, pa.timestamp("us", "UTC")),
        "nested": [{"list": [1, None], "b": "z"}] * 40,
    }
)


def damaged(whole: bytes, seed: random.Random) -> bytes:
    content = bytearray(whole)
    for _ in range(seed.choice([1, 1, 2, 5])):
        at = seed.randrange(len(content))
        match seed.randrange(4):
            case 0:
                content[at] ^= 1 << seed.randrange(8)
            case 1:
                content[at] = seed.choice([0, 127, 255])
            case 2:
                content[at : at + 8] = seed.randbytes(8)
            case _:
                del content[at + 1 :]
    return bytes(content)


def take_rows(content: bytes) -> None:
    table = read_rows(content, WRITE_LIMITS)
    assert isinstance(table, pa.Table)
    table.validate(full=True)
    table.select(table.schema.names)


def take_schema(content: bytes) -> None:
    storable_schema(read_schema(content))


@pytest.mark.parametrize(("whole", "take"), [(rows_to_bytes(ROWS), take_rows), (ROWS.schema.serialize().to_pybytes(), take_schema)])
def test_damaged_bytes_are_refused_or_whole(whole: bytes, take: Callable[[bytes], None]) -> None:
    seed, refused = random.Random(take.__name__), 0
    take(whole)
    for _ in range(EXAMPLES):
        try:
            take(damaged(whole, seed))
        except LakewardError:
            refused += 1
    assert EXAMPLES // 2 < refused < EXAMPLES


def test_a_column_whose_name_is_no_text_is_refused() -> None:
    whole = pa.schema([("name", pa.int64())]).serialize().to_pybytes()
    with pytest.raises(InvalidData, match="not UTF-8"):
        read_schema(whole.replace(b"name", b"n\xffme"))
    with pytest.raises((InvalidData, InvalidArgument)):
        read_rows(b"", WRITE_LIMITS)
