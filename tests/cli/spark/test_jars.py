"""The jars with which Spark reads the lake: fetched once, whole and checked, and never by whatever starts a Spark."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tiering.cli.maven_jars import MavenJar, checksum, fetch_jars
from tiering.cli.spark.jars import SPARK_JARS, SparkVersion, aws_bundle, jar_path
from tiering.errors import SetupError

CONTENT = b"the jar of version 1" * 100_000
JAR = MavenJar("org.example", "reader", "1", sha256=hashlib.sha256(CONTENT).hexdigest())
TARGET = JAR.file_name


def fetcher(content: bytes, fetched: list[str] | None = None) -> Callable[[Sequence[MavenJar], Path], None]:
    def fetch(jars: Sequence[MavenJar], folder: Path) -> None:
        for jar in jars:
            (folder / jar.file_name).write_bytes(content)
            if fetched is not None:
                fetched.append(jar.file_name)

    return fetch


def test_setup_has_fetched_the_jars_whose_checksums_are_committed() -> None:
    assert [checksum(jar_path(jar)) for jar in SPARK_JARS] == [jar.sha256 for jar in SPARK_JARS]


def test_a_jar_that_was_not_fetched_is_an_error_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWARD_JARS", str(tmp_path))

    with pytest.raises(SetupError, match=r"iceberg-spark-runtime.*is not in") as raised:
        jar_path(SPARK_JARS[0])
    assert "lakeward fetch-jars" in str(raised.value.hint)


def test_the_error_for_a_missing_jar_of_another_spark_names_the_options_that_fetch_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWARD_JARS", str(tmp_path))

    with pytest.raises(SetupError, match=r"iceberg-aws-bundle-1\.11\.0\.jar") as raised:
        jar_path(aws_bundle(SparkVersion.V4_0), SparkVersion.V4_0)
    assert "`lakeward fetch-jars --spark 4.0 --s3`" in str(raised.value.hint)


def test_a_jar_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    fetched: list[str] = []
    assert fetch_jars(tmp_path, [JAR], fetcher(CONTENT, fetched)) == [JAR]
    assert fetch_jars(tmp_path, [JAR], fetcher(CONTENT, fetched)) == []
    assert fetched == [TARGET]


def test_another_file_than_the_expected_one_never_gets_its_name(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="is not the expected one: its SHA-256 is"):
        fetch_jars(tmp_path, [JAR], fetcher(b"something else"))
    assert list(tmp_path.iterdir()) == []


def test_those_before_a_wrong_one_are_kept_and_only_the_rest_is_fetched_again(tmp_path: Path) -> None:
    other = MavenJar("org.example", "writer", "1", sha256=hashlib.sha256(b"another").hexdigest())
    with pytest.raises(SetupError, match=r"the downloaded file writer-1\.jar is not the expected one"):
        fetch_jars(tmp_path, [JAR, other], fetcher(CONTENT))
    assert [path.name for path in tmp_path.iterdir()] == [TARGET]

    fetched: list[str] = []
    assert fetch_jars(tmp_path, [JAR, other], fetcher(b"another", fetched)) == [other]
    assert fetched == [other.file_name]


def test_what_maven_says_is_told_with_the_jars_that_were_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho no route to the repository; exit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    folder = tmp_path / "jars"
    with pytest.raises(SetupError, match=r"Maven could not fetch org\.example:reader:1, org\.example:reader:2: no route") as raised:
        fetch_jars(folder, [JAR, replace(JAR, version="2")])
    assert "settings.xml" in str(raised.value.hint)
    assert list(folder.iterdir()) == []


def test_what_an_interrupted_fetch_left_is_fetched_again(tmp_path: Path) -> None:
    leftover = tmp_path / ".fetch-1"
    leftover.mkdir()
    (leftover / TARGET).write_bytes(CONTENT[:1_000])
    (tmp_path / TARGET).write_bytes(CONTENT[:-1])

    assert fetch_jars(tmp_path, [JAR], fetcher(CONTENT)) == [JAR]
    assert [path.name for path in tmp_path.iterdir()] == [TARGET]
    assert checksum(tmp_path / TARGET) == JAR.sha256


def test_of_two_who_fetch_at_once_the_second_finds_it_done(tmp_path: Path) -> None:
    fetched: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def slow(jars: Sequence[MavenJar], folder: Path) -> None:
        begun.set()
        assert go_on.wait(60)
        fetcher(CONTENT, fetched)(jars, folder)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetch_jars, tmp_path, [JAR], slow)
        assert begun.wait(60)
        second = pool.submit(fetch_jars, tmp_path, [JAR], fetcher(CONTENT, fetched))
        go_on.set()
        assert (first.result(60), second.result(60)) == ([JAR], [])
    assert fetched == [TARGET]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SetupError, match="cannot write the jars to") as raised:
        fetch_jars(tmp_path / "file" / "folder", [JAR], fetcher(CONTENT))
    assert "LAKEWARD_JARS" in str(raised.value.hint)
