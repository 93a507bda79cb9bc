"""How a tierer opens the lake: by what the coordinator tells, and by secrets of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiering.errors import InvalidArgument
from tiering.lake.registry import local_lake_properties, open_lake, properties_from_service
from tiering.model.tables import TablePath


def test_what_a_process_has_of_its_own_goes_before_what_a_service_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = local_lake_properties(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", own["uri"])
    received = {**own, "uri": "postgresql://db/lake", "s3.region": "eu-1"}
    assert properties_from_service("iceberg", received) == {"type": "sql", "warehouse": own["warehouse"], "s3.region": "eu-1"}
    assert open_lake("iceberg", properties_from_service("iceberg", received)).view(TablePath("sales", "orders")) is None
    assert (tmp_path / "lake-catalog.db").exists()


def test_no_coordinator_names_code_or_hands_out_more_than_is_public() -> None:
    assert properties_from_service("iceberg", {"type": "rest", "uri": "http://c", "header.X": "x", "s3.signer": "x"}) == {
        "type": "rest",
        "uri": "http://c",
    }
    with pytest.raises(InvalidArgument, match="names code"):
        properties_from_service("iceberg", {"py-io-impl": "evil.Io"})
