"""`lakeward report`: one page that needs no other file, whatever the names and messages in it are."""

from __future__ import annotations

from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from tiering.cli.report.table_report import TableHistory, table_report
from tiering.client import LakewardClient
from tiering.model.tables import TablePath
from tiering.round_history import TIMELINE_COLUMNS

HOSTILE = "<script>alert(1)</script> & \"'\x1b[31m\u202e"


class Page(HTMLParser):
    """The elements and the text of a page. A void element has no end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_is_written_once_and_names_what_it_knows(lakeward: Lakeward, tmp_path: Path) -> None:
    file = tmp_path / "orders.html"
    ended = lakeward("report", "sales.orders", "--html", str(file))
    assert (ended.status, ended.err) == (0, "")
    assert f"{file}: the report about sales.orders, {file.stat().st_size:,} bytes" in ended.out
    page = Page(file.read_text())
    assert "It was not compared with the log since the service started" in page.text
    assert {"h1", "table", "caption"} <= set(page.tags)

    before = file.read_bytes()
    again = lakeward("report", "sales.orders", "--html", str(file))
    assert again.status != 0
    assert f"the file {file} already exists" in again.err
    assert file.read_bytes() == before
    assert lakeward("report", "sales.orders", "--html", str(file), "--force").status == 0


@pytest.mark.parametrize("name", ["sales.none", "none.orders"])
def test_a_table_that_is_not_there_is_an_error(lakeward: Lakeward, name: str, tmp_path: Path) -> None:
    file = tmp_path / "none.html"
    ended = lakeward("report", name, "--html", str(file))
    assert ended.status != 0
    assert "unknown" in ended.err.lower() or "there is no" in ended.err
    assert not file.exists()


def test_a_folder_that_is_not_there_is_an_error(lakeward: Lakeward, tmp_path: Path) -> None:
    ended = lakeward("report", "sales.orders", "--html", str(tmp_path / "none" / "orders.html"))
    assert ended.status != 0
    assert "cannot write" in ended.err


def test_hostile_texts_stay_texts(stocked: Deployment) -> None:
    with LakewardClient(stocked.uri) as client:
        [status] = client.list_tiering_statuses(TablePath("sales", "orders"))
    when = status.observed_time
    durations = ("waited_for_slot_ms", "plan_ms", "lease_ms", "read_ms", "write_ms", "commit_ms", "ack_ms")
    round_row: dict[str, Any] = dict.fromkeys(TIMELINE_COLUMNS) | dict.fromkeys(durations, 3)
    round_row |= {"state": "SUCCEEDED", "trigger": "call", "pending_time": when - timedelta(milliseconds=3)}
    round_row |= dict.fromkeys(("started_time", "finished_time", "deadline"), when)
    round_row |= {"missed_by_ms": 0, "duration_ms": 20, "records_written": 5, "files_written": 1, "error_class": HOSTILE}
    error = {"error_class": "E", "message": HOSTILE, "count": 1, "last_seen": when, "resolved_at": None}
    check = {"validated_at": when, "level": "rows", "check": "values", "scope": "0", "ok": False, "details": HOSTILE}
    proof = {
        "proved_at": when,
        "principal": HOSTILE,
        "verdict": "differs",
        "details": HOSTILE,
        "lake_snapshot_id": 12,
        "fingerprint": "SHA256:k",
    }
    proof |= {"archive_sha256": "00ff", "readers": [{"reader": HOSTILE, "version": "1", "rows": 4}]}
    page = Page(table_report(status, TableHistory([round_row], [], [error], [], [], [check], [proof])))
    assert "script" not in page.tags
    assert page.tags.count("svg") == 2
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href")]
    assert "<script>alert(1)</script>" in page.text
    assert "\x1b" not in page.text
    assert "found differences in 1 of 1 checks" in page.text
    assert ("The last round took" in page.text, "waiting for a slot" in page.text) == (True, True)
    assert "of the newest 1, 1 have ended, 0 of them without anything to do" in page.text
    assert "00ff" in page.text
