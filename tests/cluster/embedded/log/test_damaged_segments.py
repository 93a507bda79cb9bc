"""A segment whose bytes changed after it was published: every reader gets an error that names it, and no row of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.clusters.embedded import PATH, make_table, orders, scan
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import DataCorrupt


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def changed(content: bytes) -> bytes:
    """Returns a valid Arrow file with other rows."""
    return content.replace(b"city 1", b"city 9", 1)


@pytest.mark.parametrize(("damage", "complaint"), [(cut, "bytes instead of"), (changed, "does not match its checksum")])
def test_a_damaged_segment_is_named_and_none_of_its_rows_is_read(tmp_path: Path, damage: Callable[[bytes], bytes], complaint: str) -> None:
    with EmbeddedStorage(tmp_path) as storage:
        table = make_table(storage)
        storage.append(PATH, orders(0, 10), "writer", 0)
        (segment,) = tmp_path.glob("log/*/*.arrow")
        content = segment.read_bytes()
        segment.write_bytes(damage(content))
        with pytest.raises(DataCorrupt, match=rf"{complaint}.*{segment.name}, bucket 0, offsets \[0, 10\)"):
            scan(storage, table, 0, 0, 10)
        segment.write_bytes(content)
        assert scan(storage, table, 0, 0, 10)["id"].to_pylist() == list(range(10))
