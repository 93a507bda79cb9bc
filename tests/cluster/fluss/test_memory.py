"""The coordinator's folder beside a Fluss cluster outlives its process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiering.cluster.fluss.memory import FlussMemory, RecordedTable
from tiering.errors import SetupError
from tiering.model.tables import TablePath

ORDERS = RecordedTable(0, TablePath("sales", "orders"), 17)


def test_facts_tables_and_options_are_there_after_a_restart(tmp_path: Path) -> None:
    memory = FlussMemory(tmp_path)
    memory.set_fact("cluster-id", "north")
    memory.remember_tables([ORDERS])
    memory.set_table_option(0, "owner", "ada")
    memory.set_table_option(0, "team", "x")
    memory.set_table_option(0, "team", None)
    memory.close()
    again = FlussMemory(tmp_path)
    assert again.fact("cluster-id") == "north"
    assert again.fact("unknown") is None
    assert again.known_tables() == {0: ORDERS}
    assert again.table_options() == {0: {"owner": "ada"}}
    again.close()


def test_remembering_a_table_twice_does_no_harm(tmp_path: Path) -> None:
    memory = FlussMemory(tmp_path)
    memory.remember_tables([ORDERS])
    memory.remember_tables([ORDERS])
    memory.remember_tables([])
    assert list(memory.known_tables()) == [0]
    memory.close()


def test_it_can_be_read_beside_its_owner_and_not_made_by_a_reader(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="has no state of a Fluss cluster"):
        FlussMemory(tmp_path, read_only=True)
    memory = FlussMemory(tmp_path)
    memory.set_fact("cluster-id", "north")
    reader = FlussMemory(tmp_path, read_only=True)
    assert reader.fact("cluster-id") == "north"
    reader.close()
    memory.close()


def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    memory = FlussMemory(tmp_path)
    memory.set_fact("format_version", "2")
    memory.close()
    with pytest.raises(SetupError, match="format version 2"):
        FlussMemory(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fluss.db").write_text("no database at all, but long enough for a header of one" * 10)
    with pytest.raises(SetupError, match=r"fluss\.db"):
        FlussMemory(tmp_path)
