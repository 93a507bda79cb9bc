"""Converts the JDBC URL of an Iceberg catalog's database to the form of SQLAlchemy. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, unquote, urlencode

from tiering.errors import InvalidArgument
from tiering.files.sqlite_files import sqlite_url

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
