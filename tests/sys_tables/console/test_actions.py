"""Actions: a form for every procedure, a check before each change, one effect for each checked form, and the caller's own rights."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.services.guarded_service import GuardedService
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.actions import Action, Parameter, call_sql, perform, prefilled
from sys_tables.console.app import console_app
from sys_tables.console.cells import MAX_CHARACTERS, shown
from sys_tables.console.sign_in_pages import Site
from sys_tables.console.signing_in import SignInCodes
from sys_tables.registry import default_registry
from tiering.access.client_access import ClientAccess
from tiering.errors import InvalidArgument, ServiceUnreachable
from tiering.model.tables import TablePath

Browser = Callable[[str], TestClient]
Access = Callable[[str], ClientAccess]
DECLARED = {procedure.name: [parameter.name for parameter in procedure.parameters] for procedure in default_registry().procedures}


def fields_of(page: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that posts to an address."""
    form = re.search(rf'<form[^>]*action="[^"]*{action}">(.*?)</form>', page, re.DOTALL)
    assert form is not None, page
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[1])
    return {name: html.unescape(value) for name, value in fields}


def checked(browser: TestClient, procedure: str, **arguments: str) -> str:
    """The page after the check of these arguments."""
    token = fields_of(browser.get(f"/actions/{procedure}").text, "/check")
    answer = browser.post(f"/actions/{procedure}/check", data=token | {f"argument_{name}": text for name, text in arguments.items()})
    assert answer.status_code == 200
    return answer.text


@pytest.fixture
def paused(service: GuardedService, access: Access) -> Callable[[str], Any]:
    def is_paused(table_name: str) -> Any:
        with SystemCatalog(service.running.uri, access=access("olga")) as catalog:
            [row] = catalog.read("lake_tiering_status", ("paused", "paused_reason"), table_name=table_name)
        return row["paused"], row["paused_reason"]

    return is_paused


def events(service: GuardedService, access: ClientAccess, table_name: str) -> int:
    with SystemCatalog(service.running.uri, access=access) as catalog:
        return len(catalog.read("tiering_events", ("event_id",), table_name=table_name))


def test_every_procedure_has_a_form_with_a_described_field_for_each_parameter(signed_in: Browser) -> None:
    browser = signed_in("olga")
    listed = browser.get("/actions").text
    for procedure in default_registry().procedures:
        assert f"/actions/{procedure.name}" in listed
        page = browser.get(f"/actions/{procedure.name}").text
        shown = set(re.findall(r'<label for="argument_(\w+)"', page))
        assert shown == {parameter.name for parameter in procedure.parameters} - {"dry_run", "idempotency_key"}
        assert shown == set(re.findall(r'aria-describedby="argument_(\w+)_help"', page))
        assert procedure.comment in html.unescape(page)
    assert browser.get("/actions/drop_everything").status_code == 404


def test_a_change_is_checked_and_then_made_once_however_often_it_is_sent(
    service: GuardedService, access: Access, signed_in: Browser, paused: Callable[[str], Any]
) -> None:
    service.ensure_table(TablePath("hr", "twice"))
    browser = signed_in("olga")
    page = checked(browser, "pause_tiering", table="hr.twice", reason="it's late")
    assert ("This is what would change" in page, paused("twice")) == (True, (False, None))
    form, before = fields_of(page, "/perform"), events(service, access("olga"), "twice")
    first, second = (browser.post("/actions/pause_tiering/perform", data=form) for _ in range(2))
    assert paused("twice") == (True, "it's late")
    assert events(service, access("olga"), "twice") == before + 1
    assert [("Result" in answer.text, answer.status_code) for answer in (first, second)] == [(True, 200)] * 2
    assert "Make this change" not in first.text


def test_a_change_that_was_not_checked_with_these_arguments_is_refused(signed_in: Browser, paused: Callable[[str], Any]) -> None:
    browser, other = signed_in("olga"), signed_in("olga")
    form = fields_of(checked(browser, "pause_tiering", table="hr.layoffs"), "/perform")
    others = fields_of(checked(other, "pause_tiering", table="hr.people"), "/perform")
    forged = [form | {"argument_table": "hr.people"}, form | {"key": "x"}, form | {"seal": ""}, others | {"csrf_token": form["csrf_token"]}]
    assert [browser.post("/actions/pause_tiering/perform", data=fields).status_code for fields in forged] == [409] * 4
    assert browser.post("/actions/resume_tiering/perform", data=form).status_code == 409
    assert (paused("people"), paused("layoffs")) == ((False, None), (False, None))


def test_a_procedure_that_changes_nothing_runs_at_once(signed_in: Browser) -> None:
    page = checked(signed_in("olga"), "explain_tiering", table="hr.people")
    assert ("<h2>Result</h2>" in page, "Make this change" in page) == (True, False)
    assert "CALL fluss.sys.explain_tiering(table =&gt; &#39;hr.people&#39;);" in page


def test_a_caller_without_the_privilege_changes_nothing_and_sees_which_one_is_missing(
    signed_in: Browser, paused: Callable[[str], Any]
) -> None:
    page = html.unescape(checked(signed_in("vera"), "pause_tiering", table="hr.people"))
    assert ("AccessDenied" in page, "OPERATE" in page, "Make this change" in page) == (True, True, False)
    assert paused("people") == (False, None)


def test_a_hidden_table_is_unknown_to_an_action(signed_in: Browser) -> None:
    hidden, unknown = (checked(signed_in("ana"), "pause_tiering", table=f"hr.{name}") for name in ("layoffs", "nothing"))
    problems = [re.findall(r'<p class="problem">([^<]*)', page) for page in (hidden, unknown)]
    assert problems[0] == [text.replace("nothing", "layoffs") for text in problems[1]] != []


@pytest.mark.parametrize(
    ("procedure", "arguments"),
    [
        ("skip_record", {"table": "hr.people", "bucket_id": "one", "offset": "1"}),
        ("skip_record", {"table": "hr.people", "bucket_id": "1", "offset": "9" * 25}),
        ("expire_snapshots", {"table": "hr.people", "older_than": "soon"}),
        ("wait_for_tiering", {"table": "hr.people", "offsets": '{"0": "x"}'}),
        ("wait_for_tiering", {"table": "hr.people", "offsets": "[" * 15_000}),
        ("tier_table", {"table": "hr.people", "wait": "maybe"}),
    ],
)
def test_a_value_of_another_type_is_refused_and_stays_in_its_field(signed_in: Browser, procedure: str, arguments: dict[str, str]) -> None:
    page = checked(signed_in("olga"), procedure, **arguments)
    assert "InvalidArgument" in page
    assert 'value="hr.people"' in page


class Recorded:
    """Remembers the arguments of calls."""

    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}

    def call(self, procedure: str, **arguments: Any) -> list[dict[str, Any]]:
        self.arguments = arguments
        return []


def test_texts_become_values_of_the_declared_types() -> None:
    texts = {
        "BIGINT": "-7",
        "INT": "7",
        "BOOLEAN": "false",
        "TIMESTAMP": "2026-12-01 06:30",
        "MAP<STRING, BIGINT>": '{"0": 5}',
        "STRING": "7",
    }
    values = [-7, 7, False, datetime(2026, 12, 1, 6, 30, tzinfo=UTC), {"0": 5}, "7"]
    parameters = [Parameter(f"p{number}", name, False, None, "", text) for number, (name, text) in enumerate(texts.items())]
    calls = Recorded()
    outcome = perform(calls, Action("x", "", "", [*parameters, Parameter("empty", "STRING", False, None, "")], changes=False))
    assert list(calls.arguments.values()) == values
    assert outcome.statement == (
        "CALL fluss.sys.x(p0 => -7, p1 => 7, p2 => false, p3 => TIMESTAMP '2026-12-01 06:30:00.000000Z', p4 => map('0', 5), p5 => '7');"
    )
    with pytest.raises(InvalidArgument, match="p0"):
        perform(calls, Action("x", "", "", [Parameter("p0", "BIGINT", True, None, "")], changes=False))


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("CALL fluss.sys.retry_tiering('hr.people')", ("retry_tiering", {"table": "hr.people"})),
        (
            "CALL fluss.sys.reconcile_lake(table => 'hr.people', action => 'adopt')",
            ("reconcile_lake", {"table": "hr.people", "action": "adopt"}),
        ),
        ("CALL fluss.sys.skip_record('hr.people', 3, 17)", ("skip_record", {"table": "hr.people", "bucket_id": "3", "offset": "17"})),
        ("CALL lake.system.rollback_to_snapshot('hr.people', 7)", None),
        ("CALL fluss.sys.no_such_procedure('hr.people')", None),
        ("CALL fluss.sys.retry_tiering(concat('hr', '.people'))", None),
        ("SELECT 1", None),
        ("GRANT needed", None),
        (None, None),
    ],
)
def test_a_next_action_of_sys_fills_a_form(statement: str | None, call: tuple[str, dict[str, str]] | None) -> None:
    assert prefilled(statement, DECLARED) == call


@pytest.mark.parametrize("text", ["a/b.c", ".people", "hr."])
def test_a_text_that_names_no_table_is_shown_without_a_link(signed_in: Browser, text: str) -> None:
    answer = signed_in("olga").get("/actions/tier_table", params={"table": text})
    assert (answer.status_code, f'value="{text}"' in answer.text, "Page of" in answer.text) == (200, True, False)


def test_a_long_text_is_cut_on_its_page() -> None:
    assert shown("A" * MAX_CHARACTERS, "details") == "A" * MAX_CHARACTERS
    assert shown("A" * 20_000_000, "details") == "A" * MAX_CHARACTERS + " ... (20,000,000 characters)"


def test_a_filled_form_shows_the_texts_of_its_address(signed_in: Browser) -> None:
    page = signed_in("olga").get("/actions/tier_table?table=hr.people").text
    assert 'name="argument_table" value="hr.people"' in page
    assert '<option value="false" selected>' in page


class LosesAnswers:
    """A service that performs a change and whose answer is lost once."""

    def __init__(self, catalog: SystemCatalog) -> None:
        self.rows = catalog.rows
        self._catalog = catalog
        self._losing = True

    def call(self, procedure: str, **arguments: Any) -> list[dict[str, Any]]:
        rows = self._catalog.call(procedure, **arguments)
        if self._losing and "idempotency_key" in arguments:
            self._losing = False
            raise ServiceUnreachable("the connection was lost")
        return rows


def test_after_a_lost_answer_the_same_change_is_sent_again_and_has_one_effect(service: GuardedService, access: Access) -> None:
    service.ensure_table(TablePath("hr", "lost"))
    with SystemCatalog(service.running.uri, access=access("olga")) as catalog:
        code = SignInCodes()
        browser = TestClient(console_app(LosesAnswers(catalog), code, Site(7717)), base_url="http://127.0.0.1:7717")
        browser.post(f"/sign-in/{code.new()}")
        form = fields_of(checked(browser, "pause_tiering", table="hr.lost"), "/perform")
        before = events(service, access("olga"), "lost")
        lost = browser.post("/actions/pause_tiering/perform", data=form).text
        assert ("the connection was lost" in lost, "Try again" in lost) == (True, True)
        again = browser.post("/actions/pause_tiering/perform", data=fields_of(lost, "/perform")).text
    assert "<h2>Result</h2>" in again
    assert events(service, access("olga"), "lost") == before + 1


def test_a_statement_of_a_call_can_be_run() -> None:
    assert call_sql("x", {"table": "a'b\\c", "n": None}) == "CALL fluss.sys.x(table => 'a\\'b\\\\c', n => NULL);"
