"""Tokens of a service: what is stored of them, when they hold, and what a damaged file does."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.other_user import acting_as_another_user, change_rights
from tiering.access.file_watch import RETRY_SECONDS, FileWatch
from tiering.access.identity import Authentication
from tiering.access.tokens import TokenFile, add_token, new_token, read_tokens, revoke_token, users_with_tokens
from tiering.errors import InvalidArgument, SetupError, Unauthenticated

NOW = datetime(2026, 11, 24, tzinfo=UTC)


def added(file: Path, principal: str = "ann", **fields: object) -> str:
    token, stored = new_token(principal, NOW, **fields)  # type: ignore[arg-type]
    add_token(file, stored)
    return token


def test_the_file_holds_hashes_and_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "access" / "tokens.json"
    token = added(file, groups=("etl",))
    assert token.split("_", 2)[2] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    identity = TokenFile(file).identity(token, "ipv4:127.0.0.1:1")
    assert (identity.principal, identity.authentication, identity.groups) == ("ann", Authentication.TOKEN, {"etl"})
    assert identity.peer == "ipv4:127.0.0.1:1"
    assert not identity.is_owner


@pytest.mark.parametrize("change", [lambda text: text + "x", lambda text: text[:-1], lambda text: "lw_" + text, lambda text: "", str.upper])
def test_any_other_text_is_refused(tmp_path: Path, change: object) -> None:
    token = added(tmp_path / "tokens.json")
    with pytest.raises(Unauthenticated, match="does not know the token"):
        TokenFile(tmp_path / "tokens.json").identity(change(token))  # type: ignore[operator]


def test_a_token_holds_until_it_expires(tmp_path: Path) -> None:
    file, now = tmp_path / "tokens.json", [NOW]
    token = added(file, expires_time=NOW + timedelta(days=90))
    tokens = TokenFile(file, lambda: now[0])
    now[0] = NOW + timedelta(days=90, seconds=-1)
    assert tokens.identity(token).principal == "ann"
    now[0] = NOW + timedelta(days=90)
    with pytest.raises(Unauthenticated, match="expired at 2027-02-22"):
        tokens.identity(token)


def test_the_users_with_tokens_are_those_whose_tokens_are_valid(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    added(file, "ann", expires_time=NOW)
    revoke_token(file, added(file, "bob").split("_")[1], NOW)
    added(file, "eve")
    assert [identity.principal for identity in users_with_tokens(file, NOW)] == ["eve"]
    file.write_text("{")
    assert users_with_tokens(file, NOW) == []


def test_a_token_works_from_when_it_is_written_until_it_is_revoked(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    tokens = TokenFile(file)
    first = added(file)
    assert tokens.identity(first).principal == "ann"
    second = added(file, "bob")
    assert tokens.identity(second).principal == "bob"
    revoke_token(file, first.split("_")[1], NOW)
    with pytest.raises(Unauthenticated, match="was revoked at 2026-11-24"):
        tokens.identity(first)
    assert tokens.identity(second).principal == "bob"
    assert revoke_token(file, first.split("_")[1], NOW + timedelta(days=1)).revoked_time == NOW
    with pytest.raises(InvalidArgument, match="has no token 'nobody'"):
        revoke_token(file, "nobody", NOW)


def test_tokens_made_at_once_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: added(file, f"user-{number}"), range(40)))
    assert {token.principal for token in read_tokens(file)} == {f"user-{number}" for number in range(40)}
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": [{"token_id": "a"}]}'])
def test_a_damaged_file_leaves_those_before_in_force_and_lets_no_service_start(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tokens.json"
    token, tokens = added(file), TokenFile(file)
    assert tokens.identity(token).principal == "ann"
    file.write_text(content)
    assert tokens.identity(token).principal == "ann"
    with pytest.raises(SetupError, match="cannot be read"):
        TokenFile(file).check()
    with pytest.raises(SetupError):  # and nothing is written over what may be mended
        added(file)
    assert file.read_text() == content


def test_a_revoked_token_stays_so_when_the_file_is_removed_under_the_service(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token, tokens = added(file), TokenFile(file)
    tokens.identity(token)
    os.unlink(file)
    with pytest.raises(Unauthenticated):
        tokens.identity(token)


@pytest.mark.parametrize("principal", ["", " ann", "ann\n", "a" * 201])
def test_a_principal_is_a_visible_name(principal: str) -> None:
    with pytest.raises(InvalidArgument, match="a principal must have 1 to 200"):
        new_token(principal, NOW)


def test_a_file_with_a_token_without_a_principal_is_damaged(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    added(file)
    content = json.loads(file.read_text())
    content["tokens"][0]["principal"] = ""
    file.write_text(json.dumps(content))
    with pytest.raises(SetupError, match="a principal must have"):
        read_tokens(file)


def test_a_file_that_is_mended_by_its_rights_alone_is_read_again(open_folder: Path) -> None:
    file = open_folder / "tokens.json"
    token, tokens = added(file), TokenFile(file)
    assert tokens.identity(token).principal == "ann"
    revoke_token(file, token.split("_")[1], NOW)
    file.chmod(0)
    with acting_as_another_user():
        assert tokens.identity(token).principal == "ann"
    change_rights(file, 0o644)
    with acting_as_another_user(), pytest.raises(Unauthenticated, match="was revoked"):
        tokens.identity(token)


def test_a_file_that_could_not_be_read_is_tried_again_though_it_looks_the_same(tmp_path: Path) -> None:
    now, file = [0.0], tmp_path / "tokens.json"
    file.write_text("{")
    watch = FileWatch(file, clock=lambda: now[0])
    versions = watch.due()
    assert versions is not None
    assert watch.refuse(versions)
    assert watch.due() is None
    now[0] = RETRY_SECONDS
    assert watch.due() == versions
    assert not watch.refuse(versions)  # no second line in the log
    now[0] *= 2
    watch.accept(versions)
    now[0] *= 2
    assert watch.due() is None
