"""Clients find and show tokens: in the user's folder, in a named file, and after the file was replaced."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tiering.access import loopback
from tiering.access.client_access import (
    ClientAccess,
    TokenSource,
    access_from_environment,
    forget_user_token,
    keep_user_token,
    user_token_path,
)
from tiering.errors import SetupError


def source_at(target: str, file: Path | None = None) -> TokenSource:
    """The token of a client without TLS."""
    return TokenSource((target,), ClientAccess(file))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEWARD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_token_of_a_service_is_found_by_address_and_port_and_no_other_user_can_read_it(home: Path) -> None:
    [path] = keep_user_token("127.0.0.1:7707", "lw_a_b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (home, home / "tokens")} == {0o700}
    for target in ("127.0.0.1:7707", "localhost:7707", "0.0.0.0:7707"):
        assert source_at(target).token() == "lw_a_b"
    for target in ("127.0.0.1:7708", "lake.example:7707", "[::1]:7707", "[::]:7707", "127.0.0.2:7707"):
        assert source_at(target).token() is None, target


@pytest.mark.parametrize(
    ("listens", "finds", "misses"),
    [
        ("[::1]", ("[::1]", "[::]"), ("127.0.0.1", "localhost")),
        ("0.0.0.0", ("127.0.0.1", "localhost"), ("[::1]",)),
        ("[::]", ("127.0.0.1", "localhost", "[::1]"), ("127.0.0.2",)),
        ("localhost", ("127.0.0.1", "localhost"), ("[::1]",)),
    ],
)
def test_a_token_is_found_only_where_its_service_listens(listens: str, finds: tuple[str, ...], misses: tuple[str, ...]) -> None:
    """Another user's program may have the same port at the other address."""
    paths = keep_user_token(f"{listens}:7707", "lw_a_b")
    assert {source_at(f"{host}:7707").token() for host in finds} == {"lw_a_b"}
    assert {source_at(f"{host}:7707").token() for host in misses} == {None}
    forget_user_token(paths, "lw_a_b")
    assert {source_at(f"{host}:7707").token() for host in finds} == {None}


def test_a_folder_that_machines_share_has_the_token_for_its_own_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_user_token("127.0.0.1:7707", "lw_a_b")
    monkeypatch.setattr(loopback, "machine_id", lambda: "another")
    assert source_at("127.0.0.1:7707").token() is None


def test_the_file_of_an_older_version_is_not_read_for_it_does_not_say_at_which_address_its_service_listens(home: Path) -> None:
    keep_user_token("127.0.0.1:1", "lw_of_another")
    (home / "tokens" / "localhost_7707").write_text("lw_a_b")
    assert source_at("127.0.0.1:7707").token() is None


@pytest.mark.parametrize("target", ["lake.example:7707", "10.0.0.5:7707", "[fe80::1]:7707", "localhost.example:7707"])
def test_a_token_does_not_leave_the_machine_in_clear_text(tmp_path: Path, target: str) -> None:
    file = tmp_path / "token"
    file.write_text("lw_a_named")
    keep_user_token(target, "lw_a_b")
    assert source_at(target).token() is None
    with pytest.raises(SetupError, match="in clear text") as raised:
        source_at(target, file).token()
    assert "--tls-ca" in str(raised.value.hint)
    with pytest.raises(SetupError, match="in clear text"):
        TokenSource(("127.0.0.1:7707", target), ClientAccess(file)).token()
    assert TokenSource((target,), ClientAccess(tls_ca=tmp_path)).token() == "lw_a_b"
    assert TokenSource((target,), ClientAccess(file, tls_ca=tmp_path)).token() == "lw_a_named"
    assert TokenSource(("127.0.0.1:1", "[::1]:2"), ClientAccess(file)).token() == "lw_a_named"


def test_a_folder_that_was_open_to_others_is_closed(home: Path) -> None:
    home.mkdir()
    home.chmod(0o755)
    keep_user_token("127.0.0.1:7707", "lw_a_b")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_only_the_services_own_token_is_removed_with_it() -> None:
    paths = keep_user_token("127.0.0.1:7707", "lw_a_b")
    forget_user_token(paths, "lw_of_another")
    assert paths[0].exists()
    forget_user_token(paths, "lw_a_b")
    assert not paths[0].exists()
    forget_user_token(paths, "lw_a_b")


def test_a_replaced_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("lw_a_first\n")
    source = source_at("127.0.0.1:1", file)
    assert source.token() == "lw_a_first"
    file.write_text("lw_a_second\n")
    assert source.token() == "lw_a_second"


@pytest.mark.parametrize("content", [b"", b"two tokens", b"\xff\xfe", b"a\nb", b"a" * 20_000])
def test_a_named_file_must_hold_a_token_and_is_never_repeated(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(SetupError) as raised:
        source_at("127.0.0.1:1", file).token()
    assert content.decode(errors="replace") not in raised.value.message or not content
    assert "two tokens" not in repr(raised.value)


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="No such file"):
        source_at("127.0.0.1:1", tmp_path / "token").token()


def test_the_environment_names_all_four_files(tmp_path: Path) -> None:
    access = ClientAccess(tmp_path / "a", tmp_path / "b", tmp_path / "c", tmp_path / "d")
    assert access_from_environment(access.environment) == access
    assert access_from_environment({}) == ClientAccess()
    path = user_token_path("[fe80::1]:7707", {"LAKEWARD_HOME": "/h"})
    assert path == Path(f"/h/tokens/fe80-0-0-0-0-0-0-1_7707_{loopback.machine_id()}")


def test_a_token_is_in_no_text_of_its_source(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("lw_a_secret")
    source = source_at("127.0.0.1:1", file)
    source.token()
    assert "secret" not in repr(source)
