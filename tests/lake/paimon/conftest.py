"""A real Paimon lake in a temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lakes.paimon_kit import PaimonKit


@pytest.fixture
def kit(tmp_path: Path) -> PaimonKit:
    return PaimonKit(tmp_path)
