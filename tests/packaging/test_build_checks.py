"""A download that is not what it was when its version was chosen ends the build before it is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.repository import ROOT

PATIENCE_S = 240


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A copy of what Maven reads, without anything built."""
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    return Path(shutil.copytree(ROOT / "catalog", tmp_path / "catalog", ignore=shutil.ignore_patterns("target")))


@pytest.fixture(scope="session")
def protobuf_jar() -> Path:
    """A dependency, in Maven's own repository."""
    command = ["mvn", "-o", "-q", "-B", "-f", str(ROOT / "catalog" / "pom.xml"), "initialize"]
    subprocess.run([*command, f"-Dpython={sys.executable}"], check=True, timeout=PATIENCE_S)
    listed = (ROOT / "catalog" / "target" / "dependencies.txt").read_text().split("|")
    [jar] = [Path(path) for path in listed if Path(path).name.startswith("protobuf-java-")]
    return jar


@pytest.fixture(scope="session")
def local_repository(protobuf_jar: Path) -> Path:
    """Maven's own, where `make setup` put everything."""
    return protobuf_jar.parents[5]


def linked(repository: Path, copy: Path) -> Path:
    """Returns the same files as symbolic links, so that one of them can be exchanged."""
    for folder, _, names in os.walk(repository):
        target = copy / Path(folder).relative_to(repository)
        target.mkdir(parents=True)
        for name in names:
            (target / name).symlink_to(Path(folder) / name)
    return copy


def damage(file: Path) -> None:
    """The last bit of the file is another."""
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def built(catalog: Path, repository: Path) -> tuple[int, str]:
    """Up to where sources are generated; offline, as in every test."""
    options = ["-o", "-C", "-q", "-B", f"-Dmaven.repo.local={repository}", f"-Dpython={sys.executable}"]
    command = ["mvn", *options, "-f", str(catalog / "pom.xml"), "generate-sources"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.in_turn("folder", "name")
@pytest.mark.parametrize(("folder", "name"), [("io/grpc", "protoc-gen-grpc-java"), ("com/google/protobuf", "protoc")])
def test_a_damaged_protoc_or_plugin_is_not_run(catalog: Path, local_repository: Path, tmp_path: Path, folder: str, name: str) -> None:
    repository = linked(local_repository, tmp_path / "repository")
    used = (ROOT / "catalog" / "target" / "protoc" / f"{name}.exe").read_bytes()
    for file in [file for file in repository.glob(f"{folder}/{name}/*/*.exe") if file.read_bytes() == used]:
        damage(file)

    status, output = built(catalog, repository)

    assert status != 0
    assert f"{name} " in output
    assert "is not the file whose SHA-256 stands in catalog/pom.xml: it was damaged or exchanged, and is not run" in output
    assert not (catalog / "target" / "generated-sources").exists()


def test_a_damaged_dependency_is_not_compiled_with(catalog: Path, local_repository: Path, protobuf_jar: Path, tmp_path: Path) -> None:
    repository = linked(local_repository, tmp_path / "repository")
    jar = repository / protobuf_jar.relative_to(local_repository)
    damage(jar)

    status, output = built(catalog, repository)

    assert status != 0
    assert f"{jar} was damaged or exchanged: its SHA-256 is" in output


def test_what_is_whole_is_built(catalog: Path, local_repository: Path) -> None:
    status, output = built(catalog, local_repository)

    assert status == 0, output
    assert list((catalog / "target" / "generated-sources").rglob("SysCatalogGrpc.java"))
