"""Which properties of a lake's catalog may be set, and which may be shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.lakes.hostile_lake import plant
from support.repository import ROOT
from tiering.coordinator.options import CoordinatorOptions
from tiering.errors import InvalidArgument, SetupError
from tiering.lake.catalog_properties import (
    PUBLIC,
    accepted_properties,
    check_catalog_properties,
    public_properties,
    public_uri,
    with_default_catalog,
)
from tiering.lake.iceberg.catalogs.opening import VENDED, open_catalog
from tiering.lake.registry import local_lake_properties

SECRETS = {
    "adls.account-key": "c2VjcmV0",
    "adls.connection-string": "AccountKey=secret",
    "adls.sas-token": "secret",
    "adls.client-secret": "secret",
    "header.Authorization": "Basic secret",
    "header.X-Api-Key": "secret",
    "credential": "id:secret",
    "token": "secret",
    "s3.access-key-id": "secret",
    "s3.secret-access-key": "secret",
    "s3.session-token": "secret",
    "gcs.oauth2.token": "secret",
    "gcs.session-kwargs": "secret",
    "client.secret-access-key": "secret",
    "hf.token": "secret",
    "hdfs.kerberos_ticket": "secret",
    "passphrase": "secret",
    "ssl.client.key": "secret",
    "anything-new": "secret",
}


def test_nothing_is_public_that_is_not_listed() -> None:
    plain = {"type": "rest", "uri": "http://user:secret@catalog:8181/x?token=secret&warehouse=a#secret", "s3.region": "eu-1"}
    assert public_properties({**SECRETS, **plain}) == {"type": "rest", "uri": "http://catalog:8181/x", "s3.region": "eu-1"}
    assert not PUBLIC.intersection(VENDED)
    options = CoordinatorOptions(lake_properties={**SECRETS, **plain})
    assert "secret" not in str(options.public_lake_properties())


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql+psycopg://u:p@host:5432/lake?sslmode=require&password=p", "postgresql+psycopg://host:5432/lake?sslmode=require"),
        ("postgresql://u:p/w@host/lake", "postgresql://host/lake"),
        ("http://u:p?w@host/", "http://host/"),
        ("http://u:p@w@host/", "http://host/"),
        ("http://token@host/", "http://host/"),
        ("u:p@host:1", "host:1"),
        ("host:1", "host:1"),
        ("sqlite:////data/a@b/lake.db", "sqlite:////data/a@b/lake.db"),
        ("sqlite:///file:/data/lake.db?mode=ro&uri=true", "sqlite:///file:/data/lake.db?mode=ro&uri=true"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("abfss://container@account.dfs.core.windows.net/lake", "abfss://container@account.dfs.core.windows.net/lake"),
        ("thrift://host:9083", "thrift://host:9083"),
        ("thrift://a:9083,thrift://b:9083", "thrift://a:9083,thrift://b:9083"),
        ("thrift://u:p@a:9083,thrift://u:p/w@b:9083", "thrift://a:9083,thrift://b:9083"),
        ("postgresql://a:5432,b:5433/lake", "postgresql://a:5432,b:5433/lake"),
        ("postgresql://u:5432,pw/lake", "postgresql://***"),
    ],
)
def test_a_uri_is_shown_without_what_may_be_secret(uri: str, shown: str) -> None:
    assert public_uri(uri) == shown


@pytest.mark.parametrize(
    "name", ["py-catalog-impl", "py-io-impl", "s3.retry-strategy-impl", "io-impl", "catalog-impl", "auth.impl", "PY-IO-IMPL"]
)
def test_a_property_that_names_code_is_refused_on_either_side(name: str) -> None:
    for check in (check_catalog_properties, accepted_properties, lambda them: CoordinatorOptions(lake_properties=them)):
        with pytest.raises(InvalidArgument, match="names code"):
            check({name: "evil_module.Evil"})


@pytest.mark.parametrize("value", ["x\nspark.driver.extraJavaOptions -Devil", "x\r", "x\x00", "x\x85", "x\u2028"])
def test_a_property_is_on_one_line(value: str) -> None:
    with pytest.raises(InvalidArgument, match="control character"):
        accepted_properties({"warehouse": value})
    with pytest.raises(InvalidArgument, match="control character"):
        accepted_properties({value: "x"})


@pytest.mark.parametrize(
    ("kind", "uri"),
    [
        ("sql", "h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil'"),
        ("sql", "derby+x://x"),
        ("sql", "jdbc:evil"),
        ("", "h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil'"),
        ("", "jdbc:derby:/anywhere;create=true"),
        ("rest", "file:///x"),
        ("hive", "http://x"),
    ],
)
def test_a_uri_for_another_driver_is_refused(kind: str, uri: str) -> None:
    with pytest.raises(InvalidArgument, match="begins with"):
        accepted_properties({"type": kind, "uri": uri})


@pytest.mark.parametrize(
    "uri",
    [
        "mysql://(host=evil,port=1,autoDeserialize=true)/x",
        "mysql://h,address=(host=evil)(autoDeserialize=true)/x",
        "mysql:loadbalance://(host=evil,autoDeserialize=true)/x",
        "sqlite:///:resource:http://evil/x.db",
    ],
)
def test_a_uri_names_a_database_and_no_settings_of_a_jvms_driver(uri: str) -> None:
    with pytest.raises(InvalidArgument, match="more than a database"):
        accepted_properties({"type": "sql", "uri": uri})


def test_a_kind_that_spark_alone_knows_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no kind of lake catalog 'jdbc'"):
        accepted_properties({"type": "jdbc", "uri": "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil'"})


def test_an_unknown_kind_of_catalog_is_named() -> None:
    with pytest.raises(InvalidArgument, match="in-memory") as caught:
        open_catalog({"type": "in-memory", "uri": "sqlite:///:memory:"})
    assert "rest" in caught.value.hint


def test_a_package_that_a_catalog_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SetupError, match="needs the Python package psycopg") as caught:
        open_catalog({"type": "sql", "uri": "postgresql+psycopg://db/lake"})
    assert "[postgres]" in caught.value.hint


def opened_in(folder: Path, lake: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process whose current folder is `folder` opens a lake and prints its catalog's properties, or the error's class."""
    code = (
        "import sys; sys.path.append('.')\n"
        "from tiering.errors import LakewardError\n"
        "from tiering.lake.iceberg.catalogs.opening import open_catalog\n"
        f"try: print(sorted(open_catalog({local_lake_properties(lake)!r}).properties.items()))\n"
        "except LakewardError as error: print(type(error).__name__, error)\n"
    )
    root = ROOT
    settings = {"PATH": "/usr/bin:/bin", "HOME": str(lake / "home"), "PYTHONPATH": str(root), **environment}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=settings, capture_output=True, text=True, check=False)


def test_the_current_folders_configuration_is_not_read(tmp_path: Path) -> None:
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    home.mkdir()
    trace = plant(here)
    (here / ".pyiceberg.yaml").write_text(
        "catalog:\n  lake:\n    py-io-impl: evil_module.Evil\n    s3.endpoint: http://evil:1\n    s3.region: evil\n"
    )
    outcome = opened_in(here, tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert "evil" not in outcome.stdout
    (here / ".pyiceberg.yaml").write_text("a: [1\n  b")
    assert opened_in(here, tmp_path).returncode == 0
    assert not trace.exists()


def test_the_users_own_configuration_is_read_and_may_name_no_code(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".pyiceberg.yaml").write_text("catalog:\n  lake:\n    s3.secret-access-key: from-home\n")
    assert "from-home" in opened_in(tmp_path, tmp_path).stdout
    assert "from-environment" in opened_in(tmp_path, tmp_path, PYICEBERG_CATALOG__LAKE__S3__SECRET_ACCESS_KEY="from-environment").stdout
    refused = opened_in(tmp_path, tmp_path, PYICEBERG_CATALOG__LAKE__PY_CATALOG_IMPL="evil_module.Evil")
    assert refused.stdout.startswith("InvalidArgument the lake property 'py-catalog-impl' names code"), refused.stderr


def test_a_property_that_names_no_catalog_adds_to_the_folders_own() -> None:
    own = {"type": "sql", "uri": "sqlite:////x/lake-catalog.db", "warehouse": "file:///x/lake"}
    assert with_default_catalog({}, own) == own
    assert with_default_catalog({"lakeward.allowed-locations": "file:///y"}, own) == {**own, "lakeward.allowed-locations": "file:///y"}
    assert with_default_catalog({"uri": "http://catalog"}, own) == {"uri": "http://catalog"}
