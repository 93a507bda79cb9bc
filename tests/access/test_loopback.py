"""Which addresses stay on this machine, and how the token's file of each is called: by the lines that the plugin's tests read, too."""

from __future__ import annotations

import pytest

from support.repository import ROOT
from tiering.access import loopback
from tiering.access.loopback import hashed_machine_id, is_loopback, stays_on_this_machine, token_file_name

LINES = (ROOT / "catalog" / "src" / "test" / "resources" / "token-files.txt").read_text().splitlines()
VECTORS = [line.split(" ") for line in LINES if not line.startswith("#")]


@pytest.mark.parametrize(("address", "file", "where"), VECTORS)
def test_an_address_has_one_file_as_in_the_plugin(monkeypatch: pytest.MonkeyPatch, address: str, file: str, where: str) -> None:
    monkeypatch.setattr(loopback, "machine_id", lambda: "m")
    host, _, port = address.rpartition(":")
    assert token_file_name(host, port) == file
    assert stays_on_this_machine(host) == (where == "stays")


def test_the_id_of_the_machine_is_hashed_as_in_the_plugin() -> None:
    assert hashed_machine_id("0123456789abcdef") == "a759f43c70159bf8"
    assert loopback.machine_id() == loopback.machine_id()


@pytest.mark.parametrize(
    ("host", "is_here"), [("127.0.0.1", True), ("localhost", True), ("[::1]", True), ("::1", True), ("0.0.0.0", False), ("a.b", False)]
)
def test_a_service_that_listens_on_all_addresses_is_not_on_loopback(host: str, is_here: bool) -> None:
    assert is_loopback(host) == is_here
