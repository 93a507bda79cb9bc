"""Limits of requests: buckets that fill again, links that are tried, and one user's requests beside those of another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import httpx2
import pytest
from starlette.responses import Response

from sys_tables.console.service import rates
from sys_tables.console.service.callers import Caller
from sys_tables.console.service.rates import LimitRates, TokenBuckets
from sys_tables.console.serving import ServingThread, bind
from sys_tables.console.signing_in import Session, Sessions


def test_a_bucket_gives_its_burst_and_then_as_many_as_come_back() -> None:
    seconds = [0.0]
    buckets = TokenBuckets(burst=3, per_second=0.5, now=lambda: seconds[0])
    assert [buckets.wait_seconds("ana") for _ in range(4)] == [0.0, 0.0, 0.0, 2.0]
    assert buckets.wait_seconds("bob") == 0.0
    seconds[0] = 1.0
    assert buckets.wait_seconds("ana") == 1.0
    seconds[0] = 2.0
    assert [buckets.wait_seconds("ana") for _ in range(2)] == [0.0, 2.0]
    seconds[0] = 1_000.0
    assert [buckets.wait_seconds("ana") for _ in range(4)].count(0.0) == 3


def test_the_bucket_that_was_used_longest_ago_is_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(rates, "MAX_KEYS", 2)
    buckets = TokenBuckets(burst=1, per_second=1, now=lambda: 0.0)
    for key in ("ana", "bob", "ana", "eve"):
        buckets.wait_seconds(key)
    assert (buckets.wait_seconds("ana"), len(buckets._buckets)) == (1.0, 2)


def statuses(paths: list[str], session: Session | None = None, limits: LimitRates | None = None) -> list[int]:
    """The statuses of requests to pages that answer 200."""

    async def page(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    middleware = limits or LimitRates(page, "/sign-in", "/static/", "/sql")
    answers: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answers.append(message["status"])

    async def ask() -> None:
        for path in paths:
            state = {} if session is None else {"session": session}
            scope = {"type": "http", "method": "GET", "headers": [], "root_path": "/ui", "client": ("10.0.0.1", 1), "state": state}
            path, _, query = path.partition("?")
            await middleware({**scope, "path": f"/ui{path}", "query_string": query.encode()}, None, send)  # type: ignore[arg-type]  # no page reads a body here

    asyncio.run(ask())
    return answers


@pytest.mark.parametrize(("proxies", "limited"), [((), True), (("192.0.2.1",), True), (("127.0.0.0/8",), False)])
def test_only_a_trusted_proxy_names_the_clients_that_have_a_limit_each(proxies: Sequence[str], limited: bool) -> None:
    async def page(scope: Any, receive: Any, send: Any) -> None:
        await Response()(scope, receive, send)

    with (
        bind(0) as listening,
        closing(ServingThread(LimitRates(page, "/sign-in", "/static/", "/sql"), listening, proxies=proxies)),
        httpx2.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60) as proxy,
    ):
        statuses = [proxy.get("/sign-in/x", headers={"X-Forwarded-For": f"10.0.0.{number}"}).status_code for number in range(90)]
    assert (429 in statuses) == limited


def test_tried_links_costly_requests_and_pages_have_limits_and_static_files_none() -> None:
    sessions = Sessions()
    session = sessions.session(sessions.open(Caller("ana", "token")))
    assert session is not None
    assert statuses(["/sign-in/x"] * 70).count(429) == 10
    assert statuses(["/sign-in", "/static/console.css"] * 200).count(429) == 0
    assert 5 < statuses(["/sql?statement=x"] * 40, session).count(429) <= 10
    assert statuses(["/sql"] * 40, session).count(429) == 0
    assert 0 < statuses(["/"] * 200, session).count(429) <= 80
