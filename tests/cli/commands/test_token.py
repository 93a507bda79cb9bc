"""`lakeward token`: whose files it writes."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tiering.access.tokens import add_token, new_token, read_tokens
from tiering.cli.commands.token import create, revoke, tokens_path
from tiering.errors import SetupError

ANOTHER_USER = 12_345
"""No user of this machine has this id."""


@pytest.fixture
def token_id(tmp_path: Path) -> str:
    """Id of a token in the data folder of the user that runs the tests."""
    _, stored = new_token("ann", datetime.now(UTC))
    add_token(tokens_path(tmp_path, None), stored)
    return stored.token_id


def run_as(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)


def run_as_root_on_folders_of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, ANOTHER_USER, ANOTHER_USER)
    run_as(0, monkeypatch)


@pytest.mark.parametrize("is_there", [True, False])
def test_root_is_refused_in_the_folder_of_a_service_that_could_not_read_what_it_writes(
    tmp_path: Path, token_id: str, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    if not is_there:
        tokens_path(tmp_path, None).unlink()
    before = sorted(tmp_path.rglob("*"))
    run_as_root_on_folders_of_another_user(tmp_path, monkeypatch)
    with pytest.raises(SetupError, match=r"belongs to .*, but this process runs as the user root") as raised:
        create("bob", data=tmp_path, out=tmp_path / "bob.token")
    assert "sudo -u " in str(raised.value.hint)
    with pytest.raises(SetupError, match="belongs to"):
        revoke(token_id, data=tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_user_who_may_write_the_folder_does_not_take_the_file_of_its_owner(
    tmp_path: Path, token_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_as(ANOTHER_USER, monkeypatch)
    with pytest.raises(SetupError, match=r"tokens\.json belongs to"):
        revoke(token_id, data=tmp_path)
    assert [token.revoked_time for token in read_tokens(tokens_path(tmp_path, None))] == [None]


def test_its_owner_makes_and_revokes_tokens(tmp_path: Path, token_id: str) -> None:
    create("bob", data=tmp_path, out=tmp_path / "bob.token")
    revoke(token_id, data=tmp_path)
    assert [(token.principal, token.revoked_time is None) for token in read_tokens(tokens_path(tmp_path, None))] == [
        ("ann", False),
        ("bob", True),
    ]
