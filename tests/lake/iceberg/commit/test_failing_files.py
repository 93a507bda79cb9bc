"""One call of the file system fails under a look at the lake or a commit, each of them in turn."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from support.worlds.stories.failing_files import FailingFiles
from tiering.errors import CommitOutcomeUnknown, LakeUnavailable, LakewardError
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import BucketKey

B0 = BucketKey(None, 0)
FIRST, SECOND = [(0, offset) for offset in range(10)], [(0, offset) for offset in range(20)]


def error_of(action: Callable[[], object]) -> LakewardError | None:
    """Returns the error that the action raised."""
    try:
        action()
    except LakewardError as error:
        return error
    return None


def test_a_file_that_cannot_be_read_is_named_and_read_again(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    for passed in itertools.count():
        with FailingFiles(kit.folder / "lake", "read", passed) as files:
            error = error_of(lambda: IcebergLake(kit.properties).view(table.path))  # one that remembers no metadata file
        if files.failed is None:
            break
        assert isinstance(error, LakeUnavailable)
        assert files.failed.rsplit("/")[-1] in error.message
        assert error.retryable
        assert error.hint
    assert passed >= 1
    assert kit.view(table).marker.round_id == "r1"


def test_a_file_whose_writer_heard_of_an_error_goes_with_the_others_of_its_commit(kit: Any, observed: Any) -> None:
    """The file exists, complete or not, but no commit will name it."""
    table = kit.table()
    base = kit.tier(table, "r1", {B0: 10})
    prepared = kit.prepare(table, "r2", {B0: 20}, view=base).with_catalog(observed)
    before = sorted(kit.folder.rglob("*.avro"))
    for passed in itertools.count():
        with FailingFiles(kit.folder / "lake", "write", passed, after=True) as files:
            error = error_of(prepared.commit)
        if isinstance(error, CommitOutcomeUnknown):  # the catalog's own file, after the request was sent
            break
        assert isinstance(error, LakeUnavailable)
        assert prepared.factory.catalog.requests == []
        assert sorted(kit.folder.rglob("*.avro")) == before
    assert passed >= 2  # a manifest, and the list of manifests
    assert "metadata.json" in str(files.failed)


def test_nothing_is_committed_that_could_not_be_synced(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    for passed in itertools.count():
        with FailingFiles(kit.folder / "lake", "fsync", passed) as files:
            error = error_of(lambda round_id=f"r2-{passed}": kit.tier(table, round_id, {B0: 20}))  # type: ignore[misc]
        if files.failed is None:
            break
        assert isinstance(error, LakeUnavailable | CommitOutcomeUnknown)
        assert kit.offsets_in_lake(table) == FIRST
    assert error is None
    assert passed >= 4  # data file, manifest, list, metadata, and their folders
    assert kit.offsets_in_lake(table) == SECOND
