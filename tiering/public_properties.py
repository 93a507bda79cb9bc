"""Names of properties whose values everybody may see: of a lake's catalog and its storage, and of tables.

No name is public because it looks harmless: what is not listed here is a secret, and is neither told nor shown.
"""

from __future__ import annotations

ALLOWED_LOCATIONS = "lakeward.allowed-locations"
"""Locations beside the warehouse, separated by commas, in which files of lake tables may lie."""

CATALOG_NAME = "lakeward.catalog-name"
"""Name of the lake's catalog, which SQL catalogs store in their rows; `lake` unless somebody else named it, as Fluss does."""

_OF_S3 = (
    "endpoint",
    "region",
    "resolve-region",
    "force-virtual-addressing",
    "path-style-access",
    "connect-timeout",
    "request-timeout",
    "anonymous",
    "role-arn",
    "role-session-name",
    "proxy-uri",
    "server-side-encryption",
)
_OF_ADLS = (
    "account-name",
    "account-host",
    "tenant-id",
    "blob-storage-authority",
    "dfs-storage-authority",
    "blob-storage-scheme",
    "dfs-storage-scheme",
    "anon",
)
_OF_GCS = ("project-id", "access", "consistency", "requester-pays", "service.host", "default-bucket-location", "version-aware")

CATALOG_PROPERTIES = frozenset(
    {
        "type",
        "uri",
        "warehouse",
        ALLOWED_LOCATIONS,
        CATALOG_NAME,
        "lakeward.catalog-change-deadline-ms",
        "lakeward.catalog-read-deadline-ms",
        # of SQL catalogs
        "init_catalog_tables",
        "pool_pre_ping",
        "schema_version",
        # of REST catalogs
        "audience",
        "namespace-separator",
        "oauth2-server-uri",
        "prefix",
        "resource",
        "rest-page-size",
        "rest.client.connection-timeout-ms",
        "rest.client.socket-timeout-ms",
        "rest.sigv4-enabled",
        "rest.signing-name",
        "rest.signing-region",
        "scope",
        "snapshot-loading-mode",
        "view-endpoints-supported",
        # of other catalogs
        "glue.endpoint",
        "glue.id",
        "glue.region",
        "glue.skip-archive",
        "hive.hive2-compatible",
        "hive.kerberos-authentication",
        "hive.kerberos-service-name",
        # of storages
        "buffer-size",
        "client.region",
        "client.role-arn",
        "client.role-session-name",
        "hdfs.host",
        "hdfs.port",
        "hdfs.user",
        "hf.endpoint",
        *(f"s3.{name}" for name in _OF_S3),
        *(f"adls.{name}" for name in _OF_ADLS),
        *(f"gcs.{name}" for name in _OF_GCS),
    }
)
"""Of a lake's catalog and storage."""

TABLE_OPTIONS = frozenset(
    {
        "table.datalake.auto-expire-snapshot",
        "table.datalake.auto-compaction",
        "table.datalake.enabled",
        "table.datalake.format",
        "table.datalake.freshness",
        "table.datalake.layout",
        "table.datalake.round.bytes",
        "table.datalake.snapshot.max-age",
        "table.datalake.snapshot.min-count",
        "table.datalake.target-file-size",
        "table.kv.snapshot.interval",
        "table.log.ttl",
    }
)
"""Of tables of the embedded cluster."""
