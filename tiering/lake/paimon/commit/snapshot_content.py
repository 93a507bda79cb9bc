"""Builds the content of Lakeward's snapshot files (Paimon's `Snapshot`)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from tiering.lake.base import FLUSS_COMMIT_USER_KEY
from tiering.lake.paimon.commit.manifests import ManifestLists
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.reading.snapshots import BASE_DIGEST_KEY

APPEND, COMPACT, OVERWRITE = "APPEND", "COMPACT", "OVERWRITE"
"""Kinds of commits. Readers that follow a table skip COMPACT: it changes files but no rows."""

COMMIT_USER = "lakeward"
"""Commit user, unless the cluster requires another one, as Fluss does."""
COMMIT_IDENTIFIER = 2**63 - 1
"""Paimon's `BATCH_COMMIT_IDENTIFIER`, which Fluss uses too."""
_CARRIED = ("indexManifest", "watermark", "statistics", "nextRowId")
"""Fields that a snapshot takes over from its predecessor."""


def next_id(loaded: LoadedTable) -> int:
    """Returns the id of the snapshot that follows the head of `loaded`: ids are consecutive and begin with 1."""
    return 1 if loaded.head is None else loaded.head.snapshot_id + 1


def snapshot_content(loaded: LoadedTable, lists: ManifestLists, properties: Mapping[str, str], now_ms: int, kind: str) -> bytes:
    """Returns the content of the snapshot file that follows the head of `loaded`, with the manifests `lists`."""
    head = loaded.head
    before: Mapping[str, Any] = {} if head is None else head.document
    own = {name: value for name, value in properties.items() if name != FLUSS_COMMIT_USER_KEY}
    document = {
        "version": 3,
        "id": next_id(loaded),
        "schemaId": loaded.schema.schema_id,
        "baseManifestList": lists.base[0],
        "baseManifestListSize": lists.base[1],
        "deltaManifestList": lists.delta[0],
        "deltaManifestListSize": lists.delta[1],
        **_changelog(lists),
        "commitUser": properties.get(FLUSS_COMMIT_USER_KEY, COMMIT_USER),
        "commitIdentifier": COMMIT_IDENTIFIER,
        "commitKind": kind,
        # The clock may be behind the last commit's. Times must not decrease, because Paimon looks up snapshots by time.
        "timeMillis": max(now_ms, int(before.get("timeMillis", 0))),
        "totalRecordCount": int(before.get("totalRecordCount") or 0) + lists.added_records,
        "deltaRecordCount": lists.added_records,
        **{name: before[name] for name in _CARRIED if before.get(name) is not None},
        "properties": own if head is None else {**own, BASE_DIGEST_KEY: head.digest},
        "uuid": str(uuid.uuid4()),
        "writerVersion": f"lakeward-{version('lakeward')}",
    }
    return json.dumps(document, indent=2).encode()


def _changelog(lists: ManifestLists) -> dict[str, object]:
    if lists.changelog is None:
        return {}
    name, size = lists.changelog
    return {"changelogManifestList": name, "changelogManifestListSize": size, "changelogRecordCount": lists.changelog_records}
