"""The lake of a Fluss cluster, from its options `datalake.*`: those of server.yaml, and the arguments of Flink's tiering job. Pure.

Fluss removes the prefix `datalake.iceberg.` and passes the options to Iceberg's CatalogUtil.buildIcebergCatalog (Fluss documentation,
"Iceberg"). So the names here are those of Iceberg's Java catalogs. Each is mapped to our name of the same meaning, refused, or left out
because only a JVM reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from tiering.errors import InvalidArgument
from tiering.files.sqlite_files import sqlite_url
from tiering.lake.catalog_properties import CATALOG_NAME, FILESYSTEM, check_catalog_properties, names_code

FORMAT = "datalake.format"
PREFIX, PAIMON_PREFIX = "datalake.iceberg.", "datalake.paimon."
ICEBERG, PAIMON = "iceberg", "paimon"
_PREFIXES = {ICEBERG: PREFIX, PAIMON: PAIMON_PREFIX}
DEFAULT_CATALOG_NAME = "fluss-iceberg-catalog"
"""Fluss's name of its catalog unless `datalake.iceberg.name` is set (Fluss, IcebergCatalogUtils). JDBC catalogs store it in their rows."""
_DEFAULT_TYPE = "hive"
"""Iceberg's default type, without `type` and `catalog-impl` (CatalogUtil.buildIcebergCatalog)."""

_KINDS = {"jdbc": "sql", "rest": "rest", "hive": "hive", "glue": "glue", "hadoop": "hadoop"}
_IMPLEMENTATIONS = {
    "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.hadoop.HadoopCatalog": "hadoop",
}
_FILE_ACCESS = (
    "org.apache.iceberg.aws.s3.S3FileIO",
    "org.apache.iceberg.hadoop.HadoopFileIO",
    "org.apache.iceberg.io.ResolvingFileIO",
    "org.apache.iceberg.gcp.gcs.GCSFileIO",
    "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
)
"""Values of `io-impl` for stores that Lakeward can read and write too."""
_OBJECT_STORES = ("s3", "s3a", "s3n", "gs", "oss", "abfs", "abfss", "wasb", "wasbs")
_HADOOP_PREFIXES = ("iceberg.hadoop.", "hadoop.")
_OF_S3A = {
    "fs.s3a.access.key": "s3.access-key-id",
    "fs.s3a.secret.key": "s3.secret-access-key",
    "fs.s3a.session.token": "s3.session-token",
    "fs.s3a.endpoint": "s3.endpoint",
    "fs.s3a.endpoint.region": "s3.region",
}
"""Hadoop's names of options for which Iceberg's S3FileIO has other names."""
_LEFT_OUT = frozenset({"clients", "client.factory", "client.credentials-provider", "cache-enabled", "metrics-reporter-impl"})
_LEFT_OUT_PREFIXES = ("cache.", "io-impl", "metrics-reporter.", "http-client.")
_AUTH = "rest.auth.type"
_AUTH_TAKEN = ("oauth2", "none")


@dataclass(frozen=True)
class FlussLake:
    """The lake of a Fluss cluster. `properties`: those of our lake's catalog, including secrets. `left_out`: options that only JVMs use."""

    properties: Mapping[str, str]
    left_out: tuple[str, ...] = ()
    format: str = ICEBERG
    """The lake format of its tables."""


def lake_of_fluss(options: Mapping[str, str]) -> FlussLake:
    """Returns the lake of these options. Options that do not begin with `datalake.` are ignored.

    Raises InvalidArgument that names the option: for another lake format than Iceberg and Paimon, and for a kind of catalog without a
    counterpart here. Also for a Hadoop catalog that is neither on a local path nor on HDFS, for a Paimon catalog that is not on a local
    path, and for an invalid value.
    """
    if _format(options) == PAIMON:
        of_paimon = {name.removeprefix(PAIMON_PREFIX): value.strip() for name, value in options.items() if name.startswith(PAIMON_PREFIX)}
        properties, unread = paimon_properties(of_paimon)
        check_catalog_properties(properties)
        return FlussLake(properties, unread, PAIMON)
    iceberg = {name.removeprefix(PREFIX): value.strip() for name, value in options.items() if name.startswith(PREFIX)}
    kind = _kind(iceberg)
    mapped, left_out = _of_storage(iceberg)
    if "warehouse" in mapped:
        mapped["warehouse"] = _location(mapped["warehouse"])
    match kind:
        case "jdbc":
            mapped = _of_jdbc(mapped, iceberg.get("name", DEFAULT_CATALOG_NAME))
        case "hadoop":
            _check_atomic(mapped.get("warehouse", ""))
            mapped.pop("uri", None)
        case "rest":
            _check_authentication(mapped)
    properties = {"type": _KINDS[kind], **mapped}
    check_catalog_properties(properties)
    return FlussLake(properties, tuple(sorted(PREFIX + name for name in left_out)))


def _format(options: Mapping[str, str]) -> str:
    """Returns the lake's format. If it is not set, it follows from the prefix of the lake's options."""
    stated = options.get(FORMAT, "").strip().lower()
    if stated not in ("", *_PREFIXES):
        raise InvalidArgument(
            f"the cluster's lake format is {stated[:60]!r} ({FORMAT}), but from Fluss's options Lakeward opens only Iceberg and Paimon",
            hint="You can connect the cluster without these options: its tables are then shown, and another service tiers them.",
        )
    named = [lake_format for lake_format, prefix in _PREFIXES.items() if any(name.startswith(prefix) for name in options)]
    if not stated and len(named) > 1:
        raise InvalidArgument(f"some options begin with {PREFIX}, and others with {PAIMON_PREFIX}", hint=f"Set the option {FORMAT}.")
    lake_format = stated or (named[0] if named else ICEBERG)
    if lake_format not in named:
        raise InvalidArgument(
            f"there is no option that begins with {_PREFIXES[lake_format]}",
            hint="Pass Fluss's server.yaml, or the arguments of its Flink tiering job.",
        )
    return lake_format


def _kind(iceberg: Mapping[str, str]) -> str:
    implementation, kind = iceberg.get("catalog-impl"), iceberg.get("type")
    if implementation is not None and kind is not None:
        raise InvalidArgument(f"{PREFIX}type and {PREFIX}catalog-impl are both set", hint="Iceberg allows only one of them.")
    name = _IMPLEMENTATIONS.get(implementation) if implementation is not None else (kind or _DEFAULT_TYPE).lower()
    if name not in _KINDS:
        option = "catalog-impl" if implementation is not None else "type"
        raise InvalidArgument(
            f"Lakeward cannot open the lake's catalog {(implementation or kind or '')[:100]!r} ({PREFIX}{option})",
            hint=f"It opens these: {', '.join(_KINDS)}. Nessie, Polaris and others have a REST catalog: configure that, with type rest.",
        )
    return name


def _of_storage(iceberg: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """Returns the other options, with storage options under our names, and the names of those that are left out."""
    mapped: dict[str, str] = {}
    left_out: set[str] = set()
    for name, value in iceberg.items():
        if name in ("type", "catalog-impl", "name"):
            continue
        if name == "io-impl" and value not in _FILE_ACCESS:
            raise InvalidArgument(
                f"the lake's files are opened by {value[:100]!r} ({PREFIX}io-impl), which has no counterpart here",
                hint=f"Supported are: {', '.join(_FILE_ACCESS)}.",
            )
        if (hadoop_name := _of_hadoop(name)) is not None:
            mapped.setdefault(hadoop_name, value)
        elif name in _LEFT_OUT or name.startswith((*_LEFT_OUT_PREFIXES, *_HADOOP_PREFIXES)) or names_code(name.lower()):
            left_out.add(name)
        else:
            mapped[name] = value
    if "client.region" in mapped:
        mapped.setdefault("s3.region", mapped["client.region"])
    if mapped.get("s3.path-style-access", "").lower() == "false":
        mapped.setdefault("s3.force-virtual-addressing", "true")  # PyArrow's default for a custom endpoint is the opposite
    return mapped, left_out


def _of_hadoop(name: str) -> str | None:
    for prefix in _HADOOP_PREFIXES:
        if name.startswith(prefix):
            return _OF_S3A.get(name.removeprefix(prefix))
    return None


def _of_jdbc(mapped: Mapping[str, str], name: str) -> dict[str, str]:
    if "uri" not in mapped:
        raise InvalidArgument(f"the lake's JDBC catalog has no {PREFIX}uri")
    if "warehouse" not in mapped:
        raise InvalidArgument(f"the lake's JDBC catalog has no {PREFIX}warehouse")
    connection = {key.removeprefix(JDBC): value for key, value in mapped.items() if key.startswith(JDBC)}
    properties = {key: value for key, value in mapped.items() if not key.startswith(JDBC)}
    if (create := connection.pop("init-catalog-tables", None)) is not None:
        properties["init_catalog_tables"] = create.lower()
    if connection.pop("schema-version", "").upper() == "V1":
        properties["schema_version"] = "v1"
    connection.pop("strict-mode", None)
    uri = database_url(mapped["uri"], connection)
    return {**properties, "uri": uri, CATALOG_NAME: name}


def _location(warehouse: str) -> str:
    """Returns `file:///a` for `file:/a`, which is the same place. Every reader takes the second form for a URI."""
    path = warehouse.removeprefix("file:")
    return f"file:///{path.lstrip('/')}" if path != warehouse else warehouse


def _check_atomic(warehouse: str) -> None:
    scheme = urlsplit(warehouse).scheme
    if scheme == "" and warehouse.startswith("/"):
        return
    if scheme in ("file", "hdfs"):
        return
    if scheme in _OBJECT_STORES:
        raise InvalidArgument(
            f"the lake is a hadoop catalog on an object store ({scheme}), where no commit is atomic: one of two concurrent commits is lost",
            hint="Use a JDBC, REST, Hive or Glue catalog for this warehouse.",
        )
    raise InvalidArgument(
        f"the warehouse of a hadoop catalog must be an absolute local path or on hdfs://, but it has the scheme {scheme[:60]!r}",
        hint=f"Set {PREFIX}warehouse to a path such as /data/iceberg or hdfs://host:8020/iceberg.",
    )


def _check_authentication(mapped: dict[str, str]) -> None:
    kind = mapped.pop(_AUTH, "").lower()
    if kind and kind not in _AUTH_TAKEN:
        raise InvalidArgument(
            f"the lake's REST catalog requires authentication by {kind[:60]!r} ({PREFIX}{_AUTH}), which Lakeward does not support",
            hint=f"Supported are: {', '.join(_AUTH_TAKEN)}.",
        )


JDBC = "jdbc."
"""Prefix of the properties of the connection (Iceberg documentation, "JDBC")."""
USER, PASSWORD = "user", "password"

_POSTGRESQL = re.compile(r"postgresql://(?P<hosts>[^/?#@]+)/(?P<database>[^/?#]+)(?:\?(?P<query>[^#]*))?")
_SQLITE = re.compile(r"sqlite:(?:file:)?(?P<path>/[^?]*)(?:\?.*)?")
_LIBPQ_NAMES = {"sslmode": "sslmode", "sslrootcert": "sslrootcert", "sslcert": "sslcert", "ApplicationName": "application_name"}
"""Parameters of PostgreSQL's JDBC driver that libpq has too, with libpq's names."""
_JVM_ONLY = frozenset(
    {
        "connectTimeout",
        "loginTimeout",
        "socketTimeout",
        "tcpKeepAlive",
        "prepareThreshold",
        "preparedStatementCacheQueries",
        "reWriteBatchedInserts",
        "defaultRowFetchSize",
        "binaryTransfer",
        "logUnclosedConnections",
    }
)
"""Parameters that change how the JVM's driver works, but not which rows it reads."""


def database_url(url: str, connection: Mapping[str, str]) -> str:
    """Returns the URL for SQLAlchemy.

    `jdbc:postgresql://host/db` becomes `postgresql+psycopg://user:password@host/db`, and `jdbc:sqlite:/a/b.db` becomes
    `sqlite:////a/b.db`. `connection`: properties of the connection, without their prefix `jdbc.`; parameters of the URL take precedence.
    Raises InvalidArgument for another database, and for a parameter that has no counterpart here.
    """
    kind, _, target = url.partition(":")
    if kind != "jdbc":
        raise InvalidArgument("the option datalake.iceberg.uri of a JDBC catalog does not begin with jdbc:")
    if match := _SQLITE.fullmatch(target):
        return sqlite_url(unquote(match["path"]) if target.startswith("sqlite:file:") else match["path"])
    if match := _POSTGRESQL.fullmatch(target):
        parameters = {**connection, **dict(parse_qsl(match["query"] or "", keep_blank_values=True))}
        return _postgresql(match["hosts"], match["database"], parameters)
    scheme = target.partition(":")[0][:60]
    raise InvalidArgument(
        f"the lake's JDBC catalog uses {scheme!r}, or its URL has an unknown form",
        hint="Supported are jdbc:postgresql://host:port/database and jdbc:sqlite:/path/of/a/file.db.",
    )


def _postgresql(hosts: str, database: str, parameters: Mapping[str, str]) -> str:
    query: dict[str, str] = {}
    for name, value in parameters.items():
        if name in (USER, PASSWORD) or name in _JVM_ONLY:
            continue
        if name == "ssl":
            query.setdefault("sslmode", "verify-full" if value.lower() in ("", "true") else "prefer")  # the meaning in pgjdbc
        elif name == "currentSchema":
            query["options"] = f"-csearch_path={value}"
        elif name in _LIBPQ_NAMES:
            query[_LIBPQ_NAMES[name]] = value
        else:
            raise InvalidArgument(
                f"the lake's JDBC catalog sets {name[:60]!r} for its connection, which has no counterpart here",
                hint="Give Lakeward its own --fluss-conf file without this option.",
            )
    user, password = parameters.get(USER), parameters.get(PASSWORD)
    login = "" if user is None else quote(user, safe="") + ("" if password is None else f":{quote(password, safe='')}") + "@"
    return f"postgresql+psycopg://{login}{hosts}/{database}" + (f"?{urlencode(query)}" if query else "")


_RESERVED = ("metastore", "warehouse")
_ALWAYS_ALLOWED = "table-default."
"""Prefix of options for new Paimon tables. Their values are in the table itself, where a round checks them."""


def paimon_properties(options: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns properties of our lake, and the names of left-out options, which only a JVM reads. `options`: without their prefix.

    Raises InvalidArgument that names the option, for a metastore or a storage on which Lakeward cannot commit.
    """
    metastore = options.get("metastore", FILESYSTEM).lower()  # Paimon's default
    if metastore != FILESYSTEM:
        raise InvalidArgument(
            f"the lake is a Paimon catalog of the metastore {metastore[:60]!r} ({PAIMON_PREFIX}metastore), to which Lakeward does not "
            "commit",
            hint=f"It commits to {FILESYSTEM} catalogs on a folder. Let Flink's tiering tier the cluster's tables: without the options of "
            "the lake the cluster is connected too, and its tables are shown.",
        )
    warehouse = options.get("warehouse", "")
    if not warehouse:
        raise InvalidArgument(f"the lake's Paimon catalog has no {PAIMON_PREFIX}warehouse")
    parts = urlsplit(warehouse)
    path = unquote(parts.path) if parts.scheme else warehouse
    if parts.scheme not in ("", "file") or parts.netloc or not path.startswith("/"):
        raise InvalidArgument(
            f"the Paimon warehouse {warehouse[:200]!r} ({PAIMON_PREFIX}warehouse) is not a folder of this machine",
            hint="Lakeward commits to Paimon tables in a folder that coordinator, tierers and Flink all see under the same path, such as "
            "/data/paimon. Let Flink's tiering tier tables on object stores and HDFS.",
        )
    left_out = (name for name in options if name not in _RESERVED and not name.startswith(_ALWAYS_ALLOWED))
    return {"type": FILESYSTEM, "warehouse": path}, tuple(sorted(PAIMON_PREFIX + name for name in left_out))
