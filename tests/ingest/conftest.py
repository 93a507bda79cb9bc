from __future__ import annotations

import pytest

from tiering.ingest import csv_files, ndjson_files


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few lines span several blocks."""
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 64)
    monkeypatch.setattr(ndjson_files, "BLOCK_BYTES", 64)
