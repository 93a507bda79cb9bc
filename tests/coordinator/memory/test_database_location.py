"""The address of a state store in PostgreSQL."""

from __future__ import annotations

import pytest

from tiering.cli.processes import standby
from tiering.coordinator.memory.sql_schema import postgresql_url
from tiering.errors import InvalidArgument
from tiering.redaction.redact import redact


def test_an_address_is_for_psycopg() -> None:
    assert postgresql_url("postgresql://ann@db.example:5432/lakeward") == "postgresql+psycopg://ann@db.example:5432/lakeward"


@pytest.mark.parametrize("text", ["mysql://db/lakeward", "postgresql://db.example", "lakeward.db", ""])
def test_another_address_is_refused_with_a_hint_of_which_nothing_is_masked(text: str) -> None:
    with pytest.raises(InvalidArgument, match="not the address") as refusal:
        postgresql_url(text)
    assert "postgresql://host:5432/database" in refusal.value.hint
    assert redact(refusal.value.hint) == refusal.value.hint


def test_what_a_standby_needs_is_said_without_anything_masked() -> None:
    assert "--fluss" in standby._SHARED_HINT
    assert redact(standby._SHARED_HINT) == standby._SHARED_HINT
