"""How a tierer opens the lake: by what the coordinator tells, and by secrets of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiering.errors import InvalidArgument
from tiering.lake.registry import local_lake_properties
from tiering.model.tables import TablePath
from tiering.round.connect import lakes_of, own_lake_properties
from tiering.rpc.v1.coordinator_pb2 import GetServiceConfigResponse


def config(properties: dict[str, str]) -> GetServiceConfigResponse:
    return GetServiceConfigResponse(cluster_kind="embedded", lake_format="iceberg", lake_properties=properties)


def test_what_a_process_has_of_its_own_goes_before_what_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = local_lake_properties(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", own["uri"])
    told = config({**own, "uri": "postgresql://db/lake", "s3.region": "eu-1"})
    assert own_lake_properties(told) == {"type": "sql", "warehouse": own["warehouse"], "s3.region": "eu-1"}
    assert lakes_of(told)("iceberg").view(TablePath("sales", "orders")) is None
    assert (tmp_path / "lake-catalog.db").exists()


def test_no_coordinator_names_code_or_hands_out_more_than_is_public() -> None:
    assert own_lake_properties(config({"type": "rest", "uri": "http://c", "header.X": "x", "s3.signer": "x"})) == {
        "type": "rest",
        "uri": "http://c",
    }
    with pytest.raises(InvalidArgument, match="names code"):
        lakes_of(config({"py-io-impl": "evil.Io"}))("iceberg")
