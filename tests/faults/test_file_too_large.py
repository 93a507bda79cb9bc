"""A full storage, for users who may not mount a small file system (`test_full_disk`): the kernel's limit on file sizes.

The same must hold: it is said plainly, nothing is lost, and the next round goes on by itself.
"""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from support.background import tick
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LAKE_KINDS
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.cluster.log_writer import LogWriter
from tiering.errors import LakewardError
from tiering.model.rounds import Phase, RoundState
from tiering.model.tables import TableInfo
from tiering.round.steps.actions import RoundOutcome

REFUSED = "File too large"


pytestmark = pytest.mark.in_turn("world")


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path, kind=request.param)
    yield world
    world.close()


@contextmanager
def no_file_beyond(size_bytes: int) -> Iterator[None]:
    """Limits the files of this process. Its output also goes to a file, so nothing is printed meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with capture_logs():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def append(world: LakeWorld, table: TableInfo, start: int, count: int, text_bytes: int = 10) -> None:
    """The texts are random, so that no encoding makes them small."""
    texts = [random.Random(number).randbytes(text_bytes // 2).hex() for number in range(start, start + count)]
    rows = pa.table({"id": range(start, start + count), "text": texts}, schema=SCHEMA)
    LogWriter(world.storage, table.path, f"test-{start}").append(rows)


def assert_refused(outcome: RoundOutcome, phase: Phase, error_class: str) -> None:
    assert (outcome.state, outcome.phase) == (RoundState.FAILED, phase)
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retryable) == (error_class, True)
    assert REFUSED in outcome.error.message


def after_its_back_off(world: LakeWorld, table: TableInfo) -> None:
    world.clock.advance(60)
    tick(world.coordinator)
    assert world.begin(table).end().state is RoundState.SUCCEEDED


def test_data_files_that_the_storage_refuses_fail_the_round_and_the_next_one_is_exact(world: LakeWorld) -> None:
    table = world.table("orders", 1)
    append(world, table, 0, 1)
    assert world.tier(table).state is RoundState.SUCCEEDED
    append(world, table, 1, 9_999, text_bytes=100)
    world.due()
    stepped = world.begin(table)
    with no_file_beyond(1 << 17):
        outcome = stepped.end()
    assert_refused(outcome, Phase.WRITE, "LakeUnavailable")
    after_its_back_off(world, table)
    assert world.assert_exact(table).num_rows == 10_000


@pytest.mark.parametrize("world", [ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name, indirect=True)
def test_metadata_that_the_storage_refuses_fails_the_round_and_the_next_one_is_exact(world: LakeWorld) -> None:
    table = world.table("orders", 1)
    for number in range(8):
        append(world, table, number, 1)
        assert world.tier(table).state is RoundState.SUCCEEDED
    sizes = {file.name: file.size_bytes for file in world.lake.stored_files(world.view(table))}
    limit = max(size for name, size in sizes.items() if name.endswith(".json"))
    assert max(size for name, size in sizes.items() if not name.endswith(".json")) + 512 < limit
    append(world, table, 8, 1)
    world.due()
    stepped = world.begin(table)
    with no_file_beyond(limit):
        outcome = stepped.end()
    assert_refused(outcome, Phase.LAKE_COMMIT, "CommitOutcomeUnknown")  # the table's metadata is written by the request itself
    after_its_back_off(world, table)
    assert sorted(world.assert_exact(table)["id"].to_pylist()) == list(range(9))


@pytest.mark.parametrize("world", [ICEBERG], ids=lambda kind: kind.name, indirect=True)
def test_rows_that_the_storage_refuses_are_not_in_the_log_and_may_be_sent_again(world: LakeWorld) -> None:
    table = world.table("orders", 1)
    append(world, table, 0, 10)
    with no_file_beyond(1 << 20), pytest.raises(LakewardError, match=REFUSED):
        append(world, table, 10, 1_000, text_bytes=2_000)
    assert world.ends(table) == {0: 10}
    append(world, table, 10, 1_000, text_bytes=2_000)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert world.assert_exact(table).num_rows == 1_010
