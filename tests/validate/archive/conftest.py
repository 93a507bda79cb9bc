"""Tiered tables, and a prover of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lake_kinds.kinds import ICEBERG_CLEAN
from support.proofs.prover import Prover
from support.worlds.lake_world import LakeWorld
from tiering.model.tables import TableInfo
from tiering.validate.archive.signing_key import ensure_key, read_key


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    """By default with clean Iceberg tables."""
    lake_world = LakeWorld(tmp_path, kind=getattr(request, "param", ICEBERG_CLEAN))
    yield lake_world
    lake_world.close()


@pytest.fixture
def prover(world: LakeWorld, tmp_path: Path) -> Prover:
    folder = tmp_path / "handed-over"
    folder.mkdir()
    ensure_key(tmp_path / "proof-key.pem")
    return Prover(world, read_key(tmp_path / "proof-key.pem"), folder)


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """60 rows of two rounds in two buckets."""
    orders = world.table("orders")
    for start in (0, 40):
        world.append(orders, start, 40 if start == 0 else 20)
        world.tier(orders)
    return orders
