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


ALL = {procedure.name for procedure in default_registry().procedures}
NEEDS = {procedure.name: procedure.privilege for procedure in default_registry().procedures}


def listed(page: str) -> set[str]:
    return set(re.findall(r'<th scope="row"[^>]*><a href="[^"]*/actions/(\w+)"', page))


@pytest.mark.parametrize(
    ("user", "privileges"),
    [
        ("nina", {"NONE"}),
        ("vera", {"NONE", "DESCRIBE"}),
        ("theo", {"NONE", "DESCRIBE", "OPERATE"}),
        ("ana", {"NONE", "DESCRIBE", "SELECT", "TIER", "OPERATE"}),
    ],
)
def test_a_user_sees_the_procedures_that_he_or_she_may_run_and_the_number_of_the_others(
    signed_in: Browser, user: str, privileges: set[str]
) -> None:
    browser = signed_in(user)
    page = browser.get("/actions").text
    allowed = {name for name, need in NEEDS.items() if need.partition(" on ")[0] in privileges and not need.endswith("the service")}
    assert listed(page) == allowed
    assert f"{len(ALL - allowed)} more procedures need a privilege that you do not have." in page
    every = browser.get("/actions?all=yes").text
    assert (listed(every), every.count("(you do not have it)"), "more procedures need" in every) == (ALL, len(ALL - allowed), False)
    for name in sorted(ALL):
        form = html.unescape(browser.get(f"/actions/{name}").text)
        assert (f"You may not run this procedure: it needs {NEEDS[name]}, which you do not have." in form) == (name not in allowed)


def test_a_user_without_limits_sees_all_procedures_and_no_number(signed_in: Browser) -> None:
    page = signed_in("olga").get("/actions").text
    assert (listed(page), "more procedure" in page) == (ALL, False)


def test_a_form_says_for_which_table_the_user_lacks_the_privilege_and_nothing_of_a_hidden_one(signed_in: Browser) -> None:
    def text_of(user: str, table: str) -> str:
        return html.unescape(signed_in(user).get(f"/actions/pause_tiering?table={table}").text)

    missing = "You may not run this procedure for hr.layoffs: it needs OPERATE on the table, which you do not have."
    assert [missing in text_of("theo", table) for table in ("hr.layoffs", "hr.people")] == [True, False]
    hidden, unknown = (
        re.sub(r'value="\w{43,}"|hr.layoffs|hr.nothing', "", text_of("ana", table)) for table in ("hr.layoffs", "hr.nothing")
    )
    assert hidden == unknown
    assert "You may not run" not in text_of("ana", "hr.layoffs")


def test_a_form_suggests_the_tables_on_which_the_user_has_the_privilege(signed_in: Browser) -> None:
    theo = signed_in("theo")
    form = html.unescape(theo.get("/actions/pause_tiering").text)
    [address] = re.findall(r'id="argument_table"[^>]* hx-get="([^"]+)"', form)
    names = [re.findall(r'value="([^"]+)"', theo.get(f"{address}&argument_table={text}").text) for text in ("", "lay")]
    assert address.endswith("/table-names?privilege=OPERATE")
    assert names == [["hr.people"], []]
    explained = html.unescape(theo.get("/actions/explain_tiering").text)
    [address] = re.findall(r'id="argument_table"[^>]* hx-get="([^"]+)"', explained)
    assert {"hr.layoffs", "hr.people"} <= set(re.findall(r'value="([^"]+)"', theo.get(address).text))
    assert re.findall(r'value="hr.layoffs"', signed_in("ana").get(address).text) == []


def test_the_page_of_a_table_has_the_actions_that_the_user_may_run_for_it(signed_in: Browser) -> None:
    theo = signed_in("theo")
    assert ["/actions/pause_tiering?" in theo.get(f"/tables/hr/{name}").text for name in ("people", "layoffs")] == [True, False]
    assert ["/actions/explain_tiering?" in theo.get(f"/tables/hr/{name}").text for name in ("people", "layoffs")] == [True, True]


def test_a_next_action_is_a_button_for_those_who_may_run_it_and_names_the_privilege_to_the_others(
    service: GuardedService, access: Access, signed_in: Browser
) -> None:
    service.ensure_table(TablePath("hr", "waiting"))
    with SystemCatalog(service.running.uri, access=access("olga")) as catalog:
        catalog.call("pause_tiering", table="hr.waiting")
    for user, is_button in (("olga", True), ("vera", False)):
        browser = signed_in(user)
        for address in ("/tables/hr/waiting", "/?q=waiting"):
            page = html.unescape(browser.get(address).text)
            assert ("Do this" in page, "ask for OPERATE on hr.waiting" in page) == (is_button, not is_button)


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
