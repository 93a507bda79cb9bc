"""Snapshots that a Paimon table keeps outside of its main branch: of tags, of branches, and of changelogs that outlive snapshots.

A branch is a folder `branch/branch-<name>` with its own snapshots and tags; its data files are among the table's (Paimon's
`BranchManager`). The file of a tag, of a branch's snapshot or of a changelog (`changelog/changelog-N`) contains a copy of a snapshot's
file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tiering.lake.paimon.reading.snapshots import StoredSnapshot
from tiering.lake.paimon.storage.base import SNAPSHOT, TAG, TableFolder

BRANCH, CHANGELOG = "branch", "changelog"


def tagged_snapshots(folder: TableFolder, below: str = "") -> tuple[StoredSnapshot, ...]:
    """Returns the snapshots that tags name. `below` is the folder of a branch with a trailing slash, or empty."""
    return _snapshots(folder, f"{below}{TAG}", "tag-")


def other_snapshots(folder: TableFolder, branches: Sequence[str]) -> tuple[StoredSnapshot, ...]:
    """Returns the snapshots of the branches in these folders, of their tags, and of changelogs that outlive snapshots."""
    others = list(_snapshots(folder, CHANGELOG, "changelog-"))
    for name in branches:
        below = f"{BRANCH}/{name}/"
        others += _snapshots(folder, f"{below}{SNAPSHOT}", "snapshot-")
        others += _snapshots(folder, f"{below}{CHANGELOG}", "changelog-")
        others += tagged_snapshots(folder, below)
    return tuple(others)


def _snapshots(folder: TableFolder, place: str, prefix: str) -> tuple[StoredSnapshot, ...]:
    contents = [folder.read(f"{place}/{name}") for name in folder.names(place) if name.startswith(prefix)]
    documents = [(content, json.loads(content)) for content in contents if content is not None]
    return tuple(StoredSnapshot(int(document["id"]), content, document) for content, document in documents)
