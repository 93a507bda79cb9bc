"""The properties of a lake's catalog: which may be set, and which may be shown. Pure.

The operator sets them on the command line, and secrets in each process's own environment. The coordinator sends only those in PUBLIC to
tierers and other clients, and these accept no others. So neither side has to trust the other. A property that names code is refused from
every source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from urllib.parse import parse_qsl, urlencode

from tiering.errors import InvalidArgument
from tiering.lake.iceberg_options import check_text
from tiering.public_properties import ALLOWED_LOCATIONS as ALLOWED_LOCATIONS
from tiering.public_properties import CATALOG_NAME as CATALOG_NAME
from tiering.public_properties import CATALOG_PROPERTIES as PUBLIC
from tiering.redaction.redact import redact

STORAGE_PREFIXES = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "oss.", "client.")
STORAGE_KEYS = ("buffer-size",)

KINDS = ("sql", "rest", "hive", "glue", "dynamodb", "bigquery", "hadoop")
"""The values of the property `type` for Iceberg's catalogs."""
FILESYSTEM = "filesystem"
"""The value of `type` for Paimon's catalog, which finds tables by their folders."""

_URIS = ("uri", "warehouse", ALLOWED_LOCATIONS, "oauth2-server-uri")
_URI_ENDINGS = ("endpoint", "-uri", ".host", "-authority")
_URI_SCHEMES: Mapping[str, tuple[str, ...]] = {
    "sql": ("sqlite", "postgresql", "mysql", "mariadb"),
    "rest": ("http", "https"),
    "hive": ("thrift",),
}
_VARIABLE_PREFIX = "PYICEBERG_CATALOG__LAKE__"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,199}")
_FOR_JDBC = re.compile(r"\A[^/]*//[^/]*[();]|:resource:", re.IGNORECASE)
"""MySQL's driver reads settings in brackets as a host. SQLite's driver fetches a `:resource:` from any address."""
_PORTS = re.compile(r"[0-9]*(?:,[^,:@]+:[0-9]+)*")
"""The text behind the first host: its port, and further hosts with their ports."""
_CONTAINER_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_PUBLIC_QUERY = frozenset({"uri", "mode", "immutable", "timeout", "cache", "sslmode", "connect_timeout", "application_name", "charset"})
"""Parameters of a database's URI that are no secrets."""

_NOT_IN_PATH = re.compile(r"[#?]")
"""Characters at which pyiceberg and Paimon end a path, so that files of different names would be one file."""
_NOT_IN_DATA_FOLDER = re.compile(r"[#?]|%[0-9A-Fa-f]{2}")
"""Some readers decode percent-encoded characters of a location, and others do not."""


def check_catalog_properties(properties: Mapping[str, object]) -> None:
    """Raises InvalidArgument for a property that names code or is not on one line, and for a URI of another kind of catalog."""
    for name, value in properties.items():
        if isinstance(value, str):
            check_text(name, value)
        if names_code(name.lower()) or (isinstance(value, Mapping) and any(names_code(str(inner).lower()) for inner in value)):
            raise InvalidArgument(
                f"the lake property {name!r} names code to be imported",
                hint="Lakeward opens catalogs and storages with its own classes. Remove the property, also from .pyiceberg.yaml and "
                "PYICEBERG_*.",
            )
    kind = str(properties.get("type") or "").lower()
    if kind and kind not in (*KINDS, FILESYSTEM):
        raise InvalidArgument(
            f"there is no kind of lake catalog {kind[:60]!r}", hint=f"The lake property `type` may be: {', '.join(KINDS)}."
        )
    if isinstance(uri := properties.get("uri"), str):
        _check_uri(kind, uri)
    catalog_name = properties.get(CATALOG_NAME)
    if catalog_name is not None and not _NAME.fullmatch(str(catalog_name)):
        raise InvalidArgument(
            f"the lake property {CATALOG_NAME!r} is {str(catalog_name)[:60]!r}",
            hint="A catalog's name has ASCII letters, digits, `_` and `-`, because Spark gets a catalog of that name.",
        )


def _check_uri(kind: str, uri: str) -> None:
    """Checks the beginning of a URI, which selects a database's driver, here and in a JVM. Only some drivers are for lakes."""
    allowed = _URI_SCHEMES.get(kind, () if kind else tuple(chain.from_iterable(_URI_SCHEMES.values())))
    scheme = uri.partition(":")[0].partition("+")[0].lower()
    if allowed and scheme not in allowed:
        raise InvalidArgument(
            f"the lake property 'uri' of a catalog{kind and f' of type {kind}'} begins with {scheme[:60]!r}",
            hint=f"It may be: {', '.join(allowed)}.",
        )
    if scheme in _URI_SCHEMES["sql"] and _FOR_JDBC.search(public_uri(uri)):
        raise InvalidArgument(
            "the lake property 'uri' names more than a database: a JVM's driver would read settings, or a file to fetch, in it",
            hint="Write it as postgresql://host:port/database or sqlite:////path/of/a/file.db.",
        )


def public_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties that every user may see. A URI is without user, password and unknown parameters."""
    return {name: _public_value(name, value) for name, value in properties.items() if name in PUBLIC}


def accepted_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns those properties of a service's answer that a client uses: only public ones. Raises InvalidArgument."""
    check_catalog_properties(properties)
    return public_properties(properties)


def with_default_catalog(properties: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Returns `properties` completed by `defaults`. If they name a catalog or a warehouse, they describe another lake: no defaults."""
    if any(name in properties for name in ("type", "uri", "warehouse")):
        return dict(properties)
    check_local_path(str(defaults.get("warehouse", "")), _NOT_IN_DATA_FOLDER)
    return {**defaults, **properties}


def check_local_path(warehouse: str, refused: re.Pattern[str] = _NOT_IN_PATH) -> None:
    """Raises InvalidArgument for a local folder whose path has characters with which readers would search another folder."""
    if warehouse.startswith(("/", "file:")) and (match := refused.search(warehouse)) is not None:
        raise InvalidArgument(
            f"no lake table can lie in {redact(warehouse)!r}: readers would take {match.group()!r} in its path for a part of a URI, and "
            "read another folder",
            hint="Name a folder whose path has no '#', no '?' and no '%' before two hexadecimal digits: with --data, or with the lake "
            "property `warehouse`.",
        )


def lake_environment(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables by which pyiceberg gets the properties that the coordinator does not publish.

    pyiceberg turns variable names into lower case and without underscores. So a property with upper case or an underscore is left out.
    """
    public = public_properties(properties)
    return {
        _VARIABLE_PREFIX + name.upper().replace(".", "__").replace("-", "_"): value
        for name, value in properties.items()
        if public.get(name) != value and name == name.lower() and "_" not in name
    }


def storage_properties(properties: Mapping[str, object]) -> dict[str, str]:
    """Returns the properties of a catalog with which its storage is opened, including secrets."""
    return {
        name: value
        for name, value in properties.items()
        if isinstance(value, str) and (name in STORAGE_KEYS or name.startswith(STORAGE_PREFIXES)) and not names_code(name)
    }


def names_code(name: str) -> bool:
    """Whether a property of that name (in lower case) holds a class to import."""
    return name == "impl" or name.endswith((".impl", "-impl", "_impl", "-class", ".class")) or name in ("botocore_session", "auth.type")


def _public_value(name: str, value: str) -> str:
    if name == ALLOWED_LOCATIONS:
        return ",".join(public_uri(location) for location in value.split(","))
    return public_uri(value) if name in _URIS or name.endswith(_URI_ENDINGS) else value


def public_uri(value: str) -> str:
    """Returns `value` without parts that may be secret: user and password, a fragment, and parameters that are not known to be harmless.

    It does not use a URI parser, because a password may have `/`, `?` or `@`, at which parsers split.
    """
    uris = value.split(",")
    if len(uris) > 1 and all("://" in uri for uri in uris):  # of a Hive metastore
        return ",".join(map(public_uri, uris))
    scheme, mark, after_scheme = value.partition("://") if "://" in value else ("", "", value)
    after_scheme = _without_user(scheme.lower(), after_scheme)
    location, _, query = after_scheme.partition("#")[0].partition("?")
    shown = [(key, text) for key, text in parse_qsl(query, keep_blank_values=True) if key in _PUBLIC_QUERY]
    return f"{scheme}{mark}{location}" + (f"?{urlencode(shown, safe='/:')}" if shown else "")


def _without_user(scheme: str, after_scheme: str) -> str:
    """Returns the text after `scheme://` from the host on. A possible user and password are left out."""
    authority = re.split(r"[/?#]", after_scheme, maxsplit=1)[0]
    before, at, _ = authority.rpartition("@")
    if scheme in _CONTAINER_SCHEMES and at and ":" not in before:
        return after_scheme  # abfss://container@account/...
    port = authority.rpartition("]")[2].partition(":")[2]
    if at or (port and (not _PORTS.fullmatch(port) or "@" in after_scheme)):
        return after_scheme.rpartition("@")[2] if "@" in after_scheme else "***"
    return after_scheme
