"""Policies: what they allow, how many tables are filtered, and what becomes of a file with an error."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest

from support.other_user import acting_as_another_user, change_rights
from tiering.access.grants import RELOAD_SECONDS, Access, Grants
from tiering.access.identity import UNCHECKED, Authentication, Identity, acting_as
from tiering.access.policies.engine import CedarEngine
from tiering.access.privileges import SERVICE, Privilege, Resource
from tiering.errors import AccessDenied, InvalidArgument, UnknownTable
from tiering.model.tables import TablePath

ANA = Identity("ana", Authentication.TOKEN)
OPS = Identity("otto", Authentication.TOKEN, frozenset({"ops"}))

POLICIES = """
@id("analysts")
permit (principal == User::"ana", action in Action::"read", resource in Database::"sales");
@id("marts")
permit (principal == User::"ana", action == Action::"DESCRIBE", resource is Table)
  when { resource.database like "mart*" && resource.name like "*_public" };
@id("ops")
permit (principal in Group::"ops", action, resource);
@id("never")
forbid (principal, action, resource == Table::"sales.salaries") unless { principal in Group::"hr" };
"""

DATABASES = ("sales", "mart_a", "mart", "hr", "xmart")
NAMES = ("orders", "salaries", "x_public", "x_public_", "_public", "secret")


def access(identity: Identity, text: str = POLICIES) -> Access:
    return Access(identity, CedarEngine(text))


def engine_says(identity: Identity, database: str, name: str, text: str = POLICIES) -> bool:
    return CedarEngine(text).allows(identity, Privilege.DESCRIBE, Resource(database, name))


@pytest.mark.parametrize(
    "identity", [ANA, OPS, Identity("eve", Authentication.TOKEN), Identity("h", Authentication.OIDC, frozenset({"hr"}))]
)
def test_a_filter_of_many_tables_says_what_the_engine_says_of_each(identity: Identity) -> None:
    paths = list(itertools.product(DATABASES, NAMES))
    databases, names = (pa.array([path[at] for path in paths], pa.string()) for at in (0, 1))
    expected = [engine_says(identity, *path) for path in paths]
    assert access(identity).visible(databases, names).tolist() == expected
    assert [access(identity).sees_name(*path) for path in paths] == expected


def test_two_tables_named_one_by_one_do_not_stand_for_each_other() -> None:
    text = """permit (principal, action, resource in Database::"hr");
    forbid (principal, action, resource == Table::"hr.x");
    forbid (principal, action, resource == Table::"sales.y");"""
    databases, names = pa.array(["hr", "hr", "sales"]), pa.array(["x", "y", "y"])
    assert access(ANA, text).visible(databases, names).tolist() == [False, True, False]
    assert access(ANA, text).visible(databases.take(pa.array([1, 0])), names.take(pa.array([1, 0]))).tolist() == [True, False]


def test_policies_that_differ_in_the_resource_of_their_scope_are_asked_together() -> None:
    text = "".join(f'permit (principal, action, resource == Table::"sales.t{number}");' for number in range(9))
    assert len(CedarEngine(text).applying(ANA, Privilege.DESCRIBE)) == 1


@pytest.mark.parametrize("test", ['resource.name == "\\u{e000}"', 'resource.name like "*\\u{e000}*"', 'resource in Database::"\\u{e000}"'])
def test_a_forbid_counts_whichever_characters_it_names(test: str) -> None:
    text = f"permit (principal, action, resource); forbid (principal, action, resource is Table) unless {{ {test} }};"
    assert not access(ANA, text).sees_name("sales", "orders")
    assert access(ANA, text).visible(pa.array(["sales", "\ue000"]), pa.array(["orders", "\ue000"])).tolist() == [False, True]


@pytest.mark.parametrize("joint", ["||", "&&"])
@pytest.mark.parametrize("parts", [100, 3_000])
def test_a_condition_that_is_too_deep_for_the_engine_is_refused_and_stays_a_problem(tmp_path: Path, parts: int, joint: str) -> None:
    file, clock = tmp_path / "policy.cedar", Seconds()
    file.write_text(POLICIES)
    grants = Grants(file, clock)
    condition = f" {joint} ".join(f'resource.name == "t{number}"' for number in range(parts))
    file.write_text(f"permit (principal, action, resource is Table) when {{ {condition} }};")
    for _ in range(2):
        clock.now += RELOAD_SECONDS
        assert not grants.access_of(ANA).sees(TablePath("hr", "t1"))
        assert "too many parts" in (grants.state().problem or "")


def test_a_policy_that_cannot_be_evaluated_for_a_table_denies_that_table_alone() -> None:
    text = """permit (principal, action, resource);
    permit (principal, action, resource is Table) when { resource.name == "orders" && 9223372036854775807 + 1 > 0 };
    permit (principal, action, resource is Table) when { resource.name like "x*" };"""
    paths = list(itertools.product(DATABASES, NAMES))
    databases, names = (pa.array([path[at] for path in paths], pa.string()) for at in (0, 1))
    expected = [name != "orders" for _, name in paths]
    assert [engine_says(ANA, *path, text=text) for path in paths] == expected
    assert access(ANA, text).visible(databases, names).tolist() == expected
    assert [access(ANA, text).sees_name(*path) for path in paths] == expected


def test_no_tables_are_filtered_to_none() -> None:
    nothing = pa.array([], pa.string())
    assert access(ANA).visible(nothing, nothing).tolist() == []


def test_a_hidden_table_is_unknown_and_another_privilege_is_named() -> None:
    with pytest.raises(UnknownTable, match=r"there is no table sales\.salaries"):
        access(ANA).require(Privilege.TIER, Resource("sales", "salaries"))
    with pytest.raises(AccessDenied, match=r"ana lacks TIER on sales\.orders") as denied:
        access(ANA).require(Privilege.TIER, Resource("sales", "orders"))
    granted = denied.value.hint.partition(": ")[2]
    assert 'resource == Table::"sales.orders"' in granted
    access(ANA, POLICIES + granted).require(Privilege.TIER, Resource("sales", "orders"))


def test_service_privileges_are_of_the_service_alone() -> None:
    assert access(OPS).may(Privilege.ADMIN, SERVICE)
    assert not access(ANA).may(Privilege.ADMIN, SERVICE)
    assert not access(OPS).may(Privilege.ADMIN, Resource("sales", "orders"))
    assert not access(OPS).may(Privilege.SELECT, SERVICE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("permit (principal, action, resource", "cannot be read"),
        ('permit (principal, action == Action::"FLY", resource);', "FLY"),
        ('permit (principal, action, resource) when { resource.database like "a*" };', "database"),
        ('permit (principal, action, resource == Table::"orders");', "the policy number 1 names 'orders' as a table"),
        (
            '@id("mine") permit (principal, action, resource == Table::"a.b");permit (principal, action, resource == Table::"b.");',
            "number 2",
        ),
        ('@id("mine") permit (principal, action, resource) when { resource == Table::".a" };', "the policy mine names"),
        ("permit (principal == ?principal, action, resource);", "template"),
        ("permit (principal, action, resource is Table) when { resource.database == resource.name };", "more than names"),
        ('permit (principal, action, resource is Table) when { [resource.name].containsAny(["a"]) };', "more than names"),
        ('permit (principal, action, resource is Table) when { Table::"a.b" in Database::"a" };', "more than names"),
        ('forbid (principal, action, resource) when { Database::"a".database == "a" };', "more than names"),
        ('forbid (principal, action, resource is Table) when { resource.name == Table::"a.b".name };', "more than names"),
        ('forbid (principal, action, resource is Table) when { Table::"a.b" is Table in Database::"a" };', "more than names"),
        (
            'permit (principal, action, resource) when { resource in (if Table::"a.b" has name then Database::"a" else Database::"b") };',
            "more than names",
        ),
        ("permit (principal, action, resource) when { principal in resource };", "."),
    ],
)
def test_policies_of_which_no_filter_can_be_made_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        CedarEngine(text)


@pytest.mark.parametrize(
    "condition",
    [
        'resource.name == "orders"',
        '"orders" == resource.name',
        'resource.name != "orders"',
        '["orders", "Var"].contains(resource.name)',
        'resource == Table::"sales.orders"',
        '[Table::"hr.secret", Table::"mart.orders"].contains(resource)',
        'resource in [Database::"hr", Database::"sales"]',
        'resource is Table in Database::"sales" && !(resource.name like "*\\**")',
        'if resource.database like "mart*" then resource.name like "*public" else principal == User::"ana"',
    ],
)
def test_every_accepted_condition_is_filtered_as_the_engine_decides(condition: str) -> None:
    text = f"permit (principal, action, resource is Table) when {{ {condition} }};"
    paths = list(itertools.product(DATABASES, (*NAMES, "Var")))
    databases, names = (pa.array([path[at] for path in paths], pa.string()) for at in (0, 1))
    assert access(ANA, text).visible(databases, names).tolist() == [engine_says(ANA, *path, text=text) for path in paths]


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_change_of_the_file_counts_and_an_error_leaves_the_policies_before_it(tmp_path: Path) -> None:
    file, clock = tmp_path / "policy.cedar", Seconds()
    file.write_text(POLICIES)
    grants = Grants(file, clock)
    orders = TablePath("hr", "orders")
    assert not grants.access_of(ANA).sees(orders)

    file.write_text(POLICIES + 'permit (principal == User::"ana", action, resource in Database::"hr");')
    clock.now += RELOAD_SECONDS
    assert grants.access_of(ANA).sees(orders)

    file.write_text("permit (principal, action, resource);\npermit (")
    clock.now += RELOAD_SECONDS
    assert grants.access_of(ANA).sees(orders)
    assert not grants.access_of(Identity("eve", Authentication.TOKEN)).sees(orders)
    assert "cannot be read" in (grants.state().problem or "")

    file.unlink()
    clock.now += RELOAD_SECONDS
    assert not grants.access_of(Identity("eve", Authentication.TOKEN)).sees(orders)
    assert "cannot be read" in (grants.state().problem or "")

    file.write_text(POLICIES)
    clock.now += RELOAD_SECONDS
    assert not grants.access_of(ANA).sees(orders)
    assert grants.state().problem is None
    assert [statement.policy_id for statement in grants.state().statements] == ["analysts", "marts", "ops", "never"]


def test_a_file_that_is_mended_by_its_rights_alone_is_read_again(open_folder: Path) -> None:
    file, clock = open_folder / "policy.cedar", Seconds()
    file.write_text("")
    grants = Grants(file, clock)
    file.write_text(POLICIES)
    file.chmod(0)
    clock.now += RELOAD_SECONDS
    with acting_as_another_user():
        assert "cannot be read" in (grants.state().problem or "")
    change_rights(file, 0o644)
    clock.now += RELOAD_SECONDS
    with acting_as_another_user():
        assert grants.state().problem is None
        assert len(grants.state().statements) == 4


def test_a_first_file_with_an_error_is_refused(tmp_path: Path) -> None:
    (tmp_path / "policy.cedar").write_text("permit (")
    with pytest.raises(InvalidArgument, match=r"policy\.cedar"):
        Grants(tmp_path / "policy.cedar")


def test_who_was_not_checked_is_refused_nothing(tmp_path: Path) -> None:
    (tmp_path / "policy.cedar").write_text("")
    grants = Grants(tmp_path / "policy.cedar")
    assert grants.current().is_unrestricted
    assert grants.access_of(UNCHECKED).may(Privilege.ADMIN, SERVICE)
    with acting_as(ANA):
        assert not grants.current().may(Privilege.ADMIN, SERVICE)


@pytest.mark.parametrize(
    ("policies", "allowed"),
    [
        ('permit (principal == User::"ana", action, resource in Database::"sales");', True),
        ('permit (principal in Group::"ops", action, resource);', False),
        ('permit (principal, action, resource); forbid (principal in Group::"contractors", action, resource);', False),
        ('permit (principal, action, resource); forbid (principal is User in Group::"contractors", action, resource);', False),
        ('permit (principal, action, resource); forbid (principal, action, resource) when { principal in Group::"contractors" };', False),
        ('permit (principal, action, resource); forbid (principal, action, resource) unless { principal in Group::"hr" };', False),
        ('permit (principal, action, resource) unless { principal in Group::"contractors" };', False),
        ('permit (principal, action, resource) when { !(principal in Group::"contractors") };', False),
        ('permit (principal, action, resource) when { principal in Group::"hr" || principal == User::"ana" };', True),
        ('permit (principal, action, resource); forbid (principal in Group::"x", action, resource in Database::"hr");', True),
    ],
)
def test_of_a_user_for_whom_a_service_acts_only_the_name_is_known_and_a_forbid_for_a_group_holds(policies: str, allowed: bool) -> None:
    user = Identity("ana", Authentication.TOKEN, has_unknown_groups=True)
    assert access(user, policies).may(Privilege.SELECT, Resource("sales", "orders")) is allowed
