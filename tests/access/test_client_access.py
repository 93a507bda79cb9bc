"""What clients find and show: the token of the user's folder, a named file, and what becomes of it when it is replaced."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tiering.access.client_access import (
    ClientAccess,
    TokenSource,
    access_from_environment,
    forget_user_token,
    keep_user_token,
    user_token_path,
)
from tiering.errors import SetupError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEWARD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_token_of_a_service_is_found_by_host_and_port_and_read_by_nobody_else(home: Path) -> None:
    path = keep_user_token("127.0.0.1:7707", "lw_a_b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (home, home / "tokens")} == {0o700}
    for target in ("127.0.0.1:7707", "localhost:7707", "[::1]:7707"):
        assert TokenSource(target, None).token() == "lw_a_b"
    for target in ("127.0.0.1:7708", "lake.example:7707"):
        assert TokenSource(target, None).token() is None


def test_a_folder_that_was_open_to_others_is_closed(home: Path) -> None:
    home.mkdir()
    home.chmod(0o755)
    keep_user_token("127.0.0.1:7707", "lw_a_b")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_only_the_services_own_token_is_removed_with_it() -> None:
    path = keep_user_token("127.0.0.1:7707", "lw_a_b")
    forget_user_token(path, "lw_of_another")
    assert path.exists()
    forget_user_token(path, "lw_a_b")
    assert not path.exists()
    forget_user_token(path, "lw_a_b")


def test_a_replaced_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("lw_a_first\n")
    source = TokenSource("host:1", file)
    assert source.token() == "lw_a_first"
    file.write_text("lw_a_second\n")
    assert source.token() == "lw_a_second"


@pytest.mark.parametrize("content", [b"", b"two tokens", b"\xff\xfe", b"a\nb", b"a" * 20_000])
def test_a_named_file_must_hold_a_token_and_is_never_repeated(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(SetupError) as raised:
        TokenSource("host:1", file).token()
    assert content.decode(errors="replace") not in raised.value.message or not content
    assert "two tokens" not in repr(raised.value)


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="No such file"):
        TokenSource("host:1", tmp_path / "token").token()


def test_the_environment_names_all_four_files(tmp_path: Path) -> None:
    access = ClientAccess(tmp_path / "a", tmp_path / "b", tmp_path / "c", tmp_path / "d")
    assert access_from_environment(access.environment) == access
    assert access_from_environment({}) == ClientAccess()
    assert user_token_path("[fe80::1]:7707", {"LAKEWARD_HOME": "/h"}) == Path("/h/tokens/fe80--1_7707")


def test_a_token_is_in_no_text_of_its_source(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("lw_a_secret")
    source = TokenSource("host:1", file)
    source.token()
    assert "secret" not in repr(source)
