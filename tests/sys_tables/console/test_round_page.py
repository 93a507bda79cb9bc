"""The page of a round: splits while it runs, the parts of its duration, why it ended, its commit, and links to it."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.services.sys_catalog import serving
from support.worlds.coordinator_world import World
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.app import console_app
from sys_tables.console.cells import link_of
from sys_tables.console.live import OFTEN_POLLS, REFRESH_POLLS
from sys_tables.console.sign_in_pages import Site
from sys_tables.console.signing_in import SignInCodes
from sys_tables.console.views.round_page import MEANINGS, PARTS, parts_of
from sys_tables.registry import default_registry
from tiering.model.rounds import RoundState
from tiering.model.splits import SplitPosition, SplitProgress, SplitState, TieringLogSplit
from tiering.model.tables import BucketKey
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import split_to_pb

COLUMNS = default_registry().table("tiering_rounds").schema.names


@pytest.fixture
def world() -> Iterator[World]:
    opened = World()
    opened.append(100)
    yield opened
    opened.coordinator.close()


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def pages_of(world: World, paths: Callable[[TestClient], list[str]]) -> list[tuple[int, str]]:
    """The answers of a console of this coordinator to a browser that is signed in."""

    async def scenario() -> list[tuple[int, str]]:
        async with serving(world.coordinator) as client:
            with SystemCatalog(f"127.0.0.1:{client.port}") as catalog:
                code = SignInCodes()
                browser = TestClient(console_app(catalog, code, Site(7717)), base_url="http://127.0.0.1:7717")

                def ask() -> list[tuple[int, str]]:
                    browser.post(f"/sign-in/{code.new()}")
                    return [(answer.status_code, answer.text) for answer in map(browser.get, paths(browser))]

                return await asyncio.to_thread(ask)

    return asyncio.run(asyncio.wait_for(scenario(), 60))


def round_pages(world: World, round_id: str) -> list[str]:
    path = world.table.path
    addresses = [f"/rounds/{round_id}", f"/tables/{path.database_name}/{path.table_name}", "/system/tiering_rounds"]
    answers = pages_of(world, lambda _: addresses)
    assert [status for status, _ in answers] == [200] * 3
    return [text for _, text in answers]


def test_a_running_round_shows_the_progress_of_its_splits(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    position = SplitPosition(SplitState.RUNNING, 1, "2@worker", 40, 30)
    split = split_to_pb(0, SplitProgress(TieringLogSplit(world.table.path, BucketKey(None, 0), None, 10, 100, None), position))
    report = pb.ReportProgressRequest(round=tierer.ref(assignment), splits_total=4, splits_done=1, run=1, splits=[split])
    world.coordinator.progress.report(report)
    page, table, rounds = round_pages(world, assignment.round_id)
    assert '<progress max="4" value="1">' in page
    assert re.search(r'<progress max="1" value="0\.33+" ', page)
    assert all(words in text_of(page) for words in ("RUNNING . It runs.", "2@worker", "1 of 4", "Cancel this round"))
    assert "changes?often=yes" in page
    for linking in (table, rounds):
        assert f'href="http://127.0.0.1:7717/rounds/{assignment.round_id}"' in linking
    assert f'href="http://127.0.0.1:7717/tables/{world.table.path.database_name}/{world.table.path.table_name}"' in rounds


def test_a_round_that_ended_shows_its_commit_with_offsets_and_no_splits(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    page = round_pages(world, assignment.round_id)[0]
    text = text_of(page)
    assert MEANINGS[RoundState.SUCCEEDED] in text
    assert ("Splits" in text, "Cancel this round" in text, "often=yes" in page) == (False, False, False)
    assert ("ACKED" in text, "0: 100" in text) == (True, True)
    assert "Why it ended" not in text


def test_a_round_that_failed_says_why(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    text = text_of(round_pages(world, assignment.round_id)[0])
    assert (MEANINGS[RoundState.FAILED] in text, "Why it ended" in text) == (True, True)


def test_an_unknown_round_is_not_found(world: World) -> None:
    assert [status for status, _ in pages_of(world, lambda _: ["/rounds/nothing", "/rounds/%3Cscript%3E"])] == [404, 404]


def test_parts_share_the_whole_width_in_their_order() -> None:
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {"paused_ms": 0, "plan_ms": 100, "waited_for_slot_ms": 300, "ack_ms": 600}
    parts = parts_of(row)
    assert [(part.column, part.start, part.share) for part in parts] == [
        ("waited_for_slot_ms", 0, 30),
        ("plan_ms", 30, 10),
        ("ack_ms", 40, 60),
    ]
    assert parts_of(dict.fromkeys(COLUMNS)) == []


def test_each_state_has_a_meaning_and_each_part_is_a_column() -> None:
    assert set(MEANINGS) == set(RoundState)
    assert set(PARTS) <= set(COLUMNS)
    assert [name for name in COLUMNS if name in PARTS] == list(PARTS)
    assert OFTEN_POLLS < REFRESH_POLLS


@pytest.mark.parametrize("value", [None, "", ".", "..", "a/b", "a b", "<script>", 7])
def test_a_value_that_is_no_plain_name_has_no_link(value: object) -> None:
    class Request:
        def url_for(self, *_: object, **__: object) -> str:
            raise AssertionError

    assert link_of(Request(), {"round_id": value}, "round_id") is None  # type: ignore[arg-type]
    assert link_of(Request(), {"table_name": "t", "database_name": value}, "table_name") is None  # type: ignore[arg-type]
