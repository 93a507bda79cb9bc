"""A Fluss server's own file of options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiering.errors import SetupError
from tiering.lake.fluss.server_yaml import read_server_yaml

TEXT = """
# A comment.
---
zookeeper.address: localhost:2181   # behind a value
bind.listeners: FLUSS://127.0.0.1:9123
datalake.iceberg.warehouse: "/tmp/ice berg"
datalake.iceberg.jdbc.password: a#b:c
empty:
"""


def test_each_line_is_an_option(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(TEXT)
    assert read_server_yaml(file) == {
        "zookeeper.address": "localhost:2181",
        "bind.listeners": "FLUSS://127.0.0.1:9123",
        "datalake.iceberg.warehouse": "/tmp/ice berg",
        "datalake.iceberg.jdbc.password": "a#b:c",
        "empty": "",
    }


def test_a_line_that_is_no_option_is_named_by_its_number_alone(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("a: b\n- secret\n")
    with pytest.raises(SetupError, match=r"line 2 of .* is no `key: value`") as caught:
        read_server_yaml(file)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"nowhere\.yaml cannot be read: No such file"):
        read_server_yaml(tmp_path / "nowhere.yaml")
