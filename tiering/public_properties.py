"""Names of properties of a lake's catalog and its storage whose values every caller may see.

A property that is not listed here is a secret, even if its name looks harmless. Its value is never sent or shown.
"""

from __future__ import annotations

ALLOWED_LOCATIONS = "lakeward.allowed-locations"
"""Locations beside the warehouse, separated by commas, that may contain files of lake tables."""

CATALOG_NAME = "lakeward.catalog-name"
"""Name of the lake's catalog, which SQL catalogs store in their rows. The default is `lake`, as in Fluss."""

_S3_NAMES = (
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
_ADLS_NAMES = (
    "account-name",
    "account-host",
    "tenant-id",
    "blob-storage-authority",
    "dfs-storage-authority",
    "blob-storage-scheme",
    "dfs-storage-scheme",
    "anon",
)
_GCS_NAMES = ("project-id", "access", "consistency", "requester-pays", "service.host", "default-bucket-location", "version-aware")

CATALOG_PROPERTIES = frozenset(
    {
        "type",
        "uri",
        "warehouse",
        ALLOWED_LOCATIONS,
        CATALOG_NAME,
        "lakeward.catalog-change-deadline-ms",
        "lakeward.catalog-read-deadline-ms",
        # SQL catalogs
        "init_catalog_tables",
        "pool_pre_ping",
        "schema_version",
        # REST catalogs
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
        # other catalogs
        "glue.endpoint",
        "glue.id",
        "glue.region",
        "glue.skip-archive",
        "hive.hive2-compatible",
        "hive.kerberos-authentication",
        "hive.kerberos-service-name",
        # storages
        "buffer-size",
        "client.region",
        "client.role-arn",
        "client.role-session-name",
        "hdfs.host",
        "hdfs.port",
        "hdfs.user",
        "hf.endpoint",
        *(f"s3.{name}" for name in _S3_NAMES),
        *(f"adls.{name}" for name in _ADLS_NAMES),
        *(f"gcs.{name}" for name in _GCS_NAMES),
    }
)
"""Public properties of a lake's catalog and storage."""
