"""Features that a backend of the behaviour suite lacks. Only stories that need such a feature are left out for it.

tests/behaviours/test_lacks.py proves each, so that one which is no lack any more is found.
"""

from __future__ import annotations

from enum import Enum


class Lack(Enum):
    """A feature that a cluster or lake lacks. The value says what cannot be done, and why."""

    KV_SNAPSHOT_ON_DEMAND = "a KV snapshot on demand: Fluss takes them by its own interval alone (kv.snapshot.interval)"
    LOG_CUT_ON_DEMAND = "a log of a few rows that is cut (table.log.ttl of 1 ms): Fluss cuts whole segments, in its own time"
    REMEMBERED_WRITERS = "a repeated write that is known again: Fluss's client names a writer anew with each connection"
    SKIPPED_RECORDS = "skip_record: no bucket of Fluss stands at a record, so there is none to leave out"
    OTHER_TABLE_OPTIONS = "another table.log.ttl of a table that is there: Fluss 0.9.1 alters three options alone"
    EVERY_TIMESTAMP_UPSERTED = "an upserted timestamp without a zone on 9999-12-31, or with microseconds before 1970: pyfluss refuses them"
    SEVERAL_BUCKET_KEYS = "several bucket keys with Iceberg: Fluss's clients refuse to write to such a table, its Iceberg plugin to make it"
    ADDED_COLUMNS = "a column that is added: Fluss's Iceberg plugin refuses to alter the lake table's columns"
    EVERY_BUCKET_KEY = "a timestamp with a zone, or an empty text, as bucket key with Iceberg: Fluss's clients refuse to write it"
    LAKE_ENABLED_AGAIN = "a lake that is disabled and enabled again: Fluss's Iceberg plugin refuses it while the lake table is there"
    NAME_USED_AGAIN = "a table made anew while the former lake table is there: Fluss's Iceberg plugin refuses it until that is dropped"
