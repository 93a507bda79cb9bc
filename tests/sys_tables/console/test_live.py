"""Live pages: when a page is read again, what happens while the service does not answer, and what the browser loads for it."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import sys_tables.console
from support.repository import ROOT
from sys_tables.console.live import CHANGED, ENDED, LOST, MAX_STREAMS, REFRESH_POLLS, LiveStreams, changes
from sys_tables.console.reader import Reader
from sys_tables.console.signing_in import Sessions
from sys_tables.registry import default_registry
from tiering.errors import ServiceUnreachable

VENDOR = Path(sys_tables.console.__file__).parent / "static" / "vendor"
GONE = ServiceUnreachable("gone")


class Newest:
    """A service whose newest event is the next of these; an error is raised."""

    def __init__(self, events: Sequence[Any]) -> None:
        self._events = iter(events)
        self.left = len(events)

    def rows(self, request: Any) -> list[dict[str, Any]]:
        self.left -= 1
        event = next(self._events)
        if isinstance(event, Exception):
            raise event
        return [] if event is None else [{"event": event}]


def streamed(events: Sequence[Any]) -> list[str]:
    newest = Newest(events)

    async def pause(seconds: float) -> None:
        assert seconds > 0

    async def collected() -> list[str]:
        return [name async for name in changes(Reader(newest, default_registry()), lambda: newest.left > 0, pause)]

    return asyncio.run(collected())


@pytest.mark.parametrize(
    ("events", "names"),
    [
        ([None, None, "a", "a", "b", "b"], [CHANGED, CHANGED]),
        (["a", GONE, GONE, "a", "a"], [LOST, CHANGED]),
        ([GONE, "a", "a"], [CHANGED]),
        (["a"] * (REFRESH_POLLS + 1), [CHANGED]),
        (["a"] * REFRESH_POLLS, []),
    ],
)
def test_a_page_is_read_again_after_a_new_event_a_lost_service_or_a_while(events: Sequence[Any], names: list[str]) -> None:
    assert streamed(events) == names


def test_a_stream_ends_with_its_session_and_its_place_is_free_again() -> None:
    sessions = Sessions()
    session = sessions.session(sessions.open())
    assert session is not None
    streams = LiveStreams(Reader(Newest(["a"]), default_registry()), sessions)
    sessions.close(session)

    async def read() -> list[str | None]:
        return [event.event async for event in streams._counted(session)]

    assert (asyncio.run(read()), streams._open) == ([ENDED], Counter())


def test_a_stream_that_came_at_the_same_time_as_the_last_one_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys_tables.console.live.MAX_SESSION_STREAMS", 1)
    sessions = Sessions()
    session = sessions.session(sessions.open())
    assert session is not None
    streams = LiveStreams(Reader(Newest(["a", "b", "b"]), default_registry()), sessions)

    async def names() -> tuple[str | None, str | None]:
        first, second = streams._counted(session), streams._counted(session)
        events = (await anext(first)).event, (await anext(second)).event
        await first.aclose()
        await second.aclose()
        return events

    assert asyncio.run(names()) == (CHANGED, ENDED)


def test_no_more_streams_than_the_limit_are_open(signed_in: Callable[[str], TestClient], monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_STREAMS > 6
    monkeypatch.setattr("sys_tables.console.live.MAX_STREAMS", 0)
    assert signed_in("olga").get("/changes").status_code == 503


def test_files_of_others_are_there_with_their_licences_and_the_notice_names_their_versions() -> None:
    files = {file.name for file in VENDOR.iterdir()}
    assert files == {"htmx.min.js", "htmx.LICENSE", "uPlot.iife.min.js", "uPlot.min.css", "uPlot.LICENSE"}
    assert all((VENDOR / name).read_text().strip() for name in files)
    pins = re.findall(r"<(htmx|uplot)\.version>([^<]+)<", (ROOT / "catalog" / "pom.xml").read_text())
    noticed = re.findall(r"^  (htmx|uPlot) +(\S+)", (ROOT / "NOTICE").read_text(), re.MULTILINE)
    assert [(name.lower(), version) for name, version in noticed] == pins


def test_the_repository_has_no_files_of_others() -> None:
    listed = subprocess.run(["git", "ls-files", VENDOR], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert listed == ""
