"""Rights after the fact: page tokens and waiting calls of a caller whose policies change, and principals whose names look like secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.services.guarded_service import GuardedService, guarded_service
from support.services.procedure_arguments import CALL, call_fields
from tiering.access.request_bounds import informative
from tiering.access.tokens import check_principal
from tiering.errors import InvalidArgument, UnknownTable
from tiering.model.tables import TablePath

SECRETIVE = "pwd:ana"
"""A principal that the redactor masks in every text."""
SALES, HR = 'resource in Database::"sales"', 'resource in Database::"hr"'
STATUSES = "/tiering.rpc.v1.TieringStatus/ListTieringStatuses"


def grants(resource: str) -> str:
    return "\n".join(
        f'permit (principal == User::"{user}", action in Action::"operate", {resource});' for user in ("ann", "bob", SECRETIVE)
    )


@pytest.fixture
def service(tmp_path: Path) -> Iterator[GuardedService]:
    with guarded_service(tmp_path, grants(SALES), {"ann": (), "bob": (), SECRETIVE: ()}) as running:
        for path in (TablePath("sales", "orders"), TablePath("sales", "places"), TablePath("hr", "salaries")):
            running.ensure_table(path)
        yield running


def change_policies(service: GuardedService, text: str) -> None:
    service.policy.write_text(text)
    service.running.coordinator.grants._looked_at -= 10  # as if the second had passed in which the file is not read again


def first_page(service: GuardedService, role: str) -> Any:
    (page,) = service.call(STATUSES, role, page_size=1)
    assert [status.table_path.table_name for status in page.tiering_statuses] == ["orders"]
    return page.next_page_token


def test_a_page_token_is_for_the_caller_who_got_it(service: GuardedService) -> None:
    token = first_page(service, "ann")
    with pytest.raises(InvalidArgument, match="unknown or too old"):
        service.call(STATUSES, "bob", page_size=1, page_token=token)
    (page,) = service.call(STATUSES, "ann", page_size=1, page_token=token)
    assert [status.table_path.table_name for status in page.tiering_statuses] == ["places"]


@pytest.mark.parametrize("policies", [grants(HR), ""])
def test_a_page_token_shows_nothing_of_before_the_policies_changed(service: GuardedService, policies: str) -> None:
    token = first_page(service, "ann")
    change_policies(service, policies)
    with pytest.raises(InvalidArgument, match="unknown or too old"):
        service.call(STATUSES, "ann", page_size=1, page_token=token)


@pytest.mark.parametrize("arguments", [{}, {"timeout_ms": 1}])
@pytest.mark.parametrize("procedure", ["tier_table", "wait_for_tiering"])
def test_a_call_that_waits_tells_no_more_once_its_caller_may_not_know_of_the_table(
    service: GuardedService, procedure: str, arguments: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting CALL checks rights when something changes: here when no tierer comes, or when its time is over."""
    taken_away = change_policies_when_allowed(service, monkeypatch)
    with pytest.raises(UnknownTable) as raised:
        service.call(CALL, "ann", **call_fields(procedure, table="sales.orders", **arguments))
    assert taken_away == ["ann"]
    assert raised.value.message == "there is no table sales.orders"


def change_policies_when_allowed(service: GuardedService, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Takes the rights away between the check of a call and its first step; returns whose call it was."""
    from tiering.coordinator.server import control

    taken_away: list[str] = []
    authorize = control.authorize

    def then_take_away(parts: Any, request: Any) -> Any:
        answer = authorize(parts, request)
        change_policies(service, grants(HR))
        taken_away.append(request.caller)
        return answer

    monkeypatch.setattr(control, "authorize", then_take_away)
    return taken_away


def test_a_database_call_leaves_out_tables_that_were_taken_away_meanwhile(service: GuardedService, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiering.coordinator.calls import tier_database

    end = tier_database._end

    def taking_away(*arguments: Any) -> Any:
        change_policies(service, grants('resource == Table::"sales.places"'))
        return end(*arguments)

    monkeypatch.setattr(tier_database, "_end", taking_away)
    answers = service.call(CALL, "ann", **call_fields("tier_database", database="sales", only_stale=False, wait=False))
    result = b"".join(answer.arrow for answer in answers)
    assert b"places" in result
    assert b"orders" not in result


def test_a_principal_that_looks_like_a_secret_is_authorised_by_what_it_is(service: GuardedService) -> None:
    assert informative(check_principal(SECRETIVE)) != SECRETIVE
    answers = service.call(CALL, SECRETIVE, **call_fields("tier_table", table="sales.orders", dry_run=True))
    assert answers[-1].HasField("arrow")
    with pytest.raises(UnknownTable):
        service.call(CALL, SECRETIVE, **call_fields("tier_table", table="hr.salaries", dry_run=True))
