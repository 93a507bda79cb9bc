"""A JDBC URL of an Iceberg catalog's database as SQLAlchemy takes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, unquote, urlencode

from tiering.errors import InvalidArgument
from tiering.files.sqlite_files import sqlite_url

JDBC = "jdbc."
"""What properties of the connection begin with (Iceberg documentation, "JDBC")."""
USER, PASSWORD = "user", "password"

_POSTGRESQL = re.compile(r"postgresql://(?P<hosts>[^/?#@]+)/(?P<database>[^/?#]+)(?:\?(?P<query>[^#]*))?")
_SQLITE = re.compile(r"sqlite:(?:file:)?(?P<path>/[^?]*)(?:\?.*)?")
_TAKEN = {"sslmode": "sslmode", "sslrootcert": "sslrootcert", "sslcert": "sslcert", "ApplicationName": "application_name"}
"""Parameters of PostgreSQL's JDBC driver that libpq has too, by its name for them."""
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
"""Parameters that change how the JVM's driver works, and not which rows it meets."""


def database_url(url: str, connection: Mapping[str, str]) -> str:
    """`jdbc:postgresql://host/db` -> `postgresql+psycopg://user:password@host/db`; `jdbc:sqlite:/a/b.db` -> `sqlite:////a/b.db`.

    `connection`: properties of the connection, without their prefix `jdbc.`; what the URL says itself goes before them. Raises
    InvalidArgument for another database, and for a parameter that has no counterpart here.
    """
    kind, _, rest = url.partition(":")
    if kind != "jdbc":
        raise InvalidArgument("the option datalake.iceberg.uri of a JDBC catalog does not begin with jdbc:")
    if match := _SQLITE.fullmatch(rest):
        return sqlite_url(unquote(match["path"]) if rest.startswith("sqlite:file:") else match["path"])
    if match := _POSTGRESQL.fullmatch(rest):
        parameters = {**connection, **dict(parse_qsl(match["query"] or "", keep_blank_values=True))}
        return _postgresql(match["hosts"], match["database"], parameters)
    scheme = rest.partition(":")[0][:60]
    raise InvalidArgument(
        f"the lake's JDBC catalog is on {scheme!r}, or its URL is not of a form that is known here",
        hint="Known are jdbc:postgresql://host:port/database and jdbc:sqlite:/path/of/a/file.db.",
    )


def _postgresql(hosts: str, database: str, parameters: Mapping[str, str]) -> str:
    query: dict[str, str] = {}
    for name, value in parameters.items():
        if name in (USER, PASSWORD) or name in _JVM_ONLY:
            continue
        if name == "ssl":
            query.setdefault("sslmode", "verify-full" if value.lower() in ("", "true") else "prefer")  # pgjdbc's meaning of it
        elif name == "currentSchema":
            query["options"] = f"-csearch_path={value}"
        elif name in _TAKEN:
            query[_TAKEN[name]] = value
        else:
            raise InvalidArgument(
                f"the lake's JDBC catalog sets {name[:60]!r} for its connection, which has no counterpart here",
                hint="Leave it out for Lakeward, by a --fluss-conf file of its own.",
            )
    user, password = parameters.get(USER), parameters.get(PASSWORD)
    login = "" if user is None else quote(user, safe="") + ("" if password is None else f":{quote(password, safe='')}") + "@"
    return f"postgresql+psycopg://{login}{hosts}/{database}" + (f"?{urlencode(query)}" if query else "")
