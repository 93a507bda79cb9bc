"""Random policies: what is worked out by classes of names is what Cedar says of each table, asked about it alone with all policies."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import examples
from tiering.access.grants import Access
from tiering.access.identity import Authentication, Identity
from tiering.access.policies.engine import CedarEngine
from tiering.access.privileges import Privilege, Resource

DATABASES = ("sales", "mart_a", "mart", "hr")
NAMES = ("orders", "a_orders", "orders_a", "a", "Ä_b")
PATHS = list(itertools.product(DATABASES, NAMES))
PATTERNS = ("*", "a*", "*a", "*_*", "or*s", "mart*", "*a*", "*r*_*", "orders", "Ä*")
IDENTITIES = [
    Identity("ana", Authentication.TOKEN),
    Identity("bob", Authentication.TOKEN, frozenset({"ops"})),
    Identity("eve", Authentication.TOKEN),
]

databases, names = st.sampled_from(DATABASES), st.sampled_from(NAMES)
tables = st.tuples(databases, names).map(lambda path: f'Table::"{path[0]}.{path[1]}"')
comparisons = st.one_of(
    st.tuples(st.sampled_from(("database", "name")), st.sampled_from(PATTERNS)).map(lambda test: f'resource.{test[0]} like "{test[1]}"'),
    databases.map(lambda name: f'resource.database == "{name}"'),
    names.map(lambda name: f'resource.name != "{name}"'),
    st.lists(names, min_size=1, max_size=3).map(lambda some: "[" + ", ".join(f'"{name}"' for name in some) + "].contains(resource.name)"),
    st.lists(tables, min_size=1, max_size=3).map(lambda some: f"[{', '.join(some)}].contains(resource)"),
    databases.map(lambda name: f'resource in Database::"{name}"'),
    st.sampled_from(('principal in Group::"ops"', 'principal in Group::"hr"', 'principal in [Group::"ops", Group::"hr"]')),
    st.just('(if principal in Group::"ops" then resource.name == "a" else resource.name == "orders")'),
    names.map(lambda name: f'resource.name == (if 1 < 2 then "{name}" else "a")'),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        inner.map(lambda part: f"!({part})"),
        st.tuples(inner, st.sampled_from(("&&", "||")), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
    ),
    max_leaves=4,
)
principals = st.sampled_from(("principal", 'principal == User::"ana"', 'principal in Group::"ops"'))
actions = st.sampled_from(("action", 'action == Action::"DESCRIBE"', 'action in Action::"read"', 'action == Action::"WRITE"'))
effects = st.sampled_from(("permit", "permit", "forbid"))
by_scope = st.tuples(
    effects,
    principals,
    actions,
    st.one_of(
        st.just("resource"),
        databases.map(lambda name: f'resource in Database::"{name}"'),
        databases.map(lambda name: f'resource == Database::"{name}"'),
        databases.map(lambda name: f'resource is Table in Database::"{name}"'),
        tables.map(lambda table: f"resource == {table}"),
    ),
).map(lambda parts: f"{parts[0]} ({', '.join(parts[1:])});")
by_condition = st.tuples(effects, principals, actions, conditions).map(
    lambda parts: f"{parts[0]} ({parts[1]}, {parts[2]}, resource is Table) when {{ {parts[3]} }};"
)
by_name = st.tuples(
    effects,
    principals,
    st.one_of(st.just("resource is Table"), databases.map(lambda name: f'resource is Table in Database::"{name}"')),
    st.sampled_from(("when", "when", "unless")),
    st.lists(
        st.one_of(
            names.map(lambda name: f'resource.name == "{name}"'),
            names.map(lambda name: f'"{name}" == resource.name'),
            databases.map(lambda name: f'resource.database == "{name}"'),
        ),
        min_size=1,
        max_size=3,
    ),
).map(lambda parts: f"{parts[0]} ({parts[1]}, action, {parts[2]}) {parts[3]} {{ {' && '.join(parts[4])} }};")
"""Privileges and objects that are requested together."""
policies = st.lists(st.one_of(by_scope, by_condition, by_name), max_size=8).map("\n".join)


@settings(max_examples=examples(40), deadline=None)
@given(policies)
def test_classes_of_names_are_decided_as_cedar_decides_each_table(text: str) -> None:
    engine = CedarEngine(text)
    columns = [pa.array([path[at] for path in PATHS], pa.string()) for at in (0, 1)]
    for identity in IDENTITIES:
        expected = [engine.allows(identity, Privilege.DESCRIBE, Resource(*path)) for path in PATHS]
        assert Access(identity, engine).visible(*columns).tolist() == expected
        one_by_one, then_all = Access(identity, engine), Access(identity, engine)
        assert [one_by_one.sees_name(*path) for path in PATHS] == expected
        assert then_all.sees_name(*PATHS[-1]) == expected[-1]
        assert then_all.visible(*columns).tolist() == expected
        for privilege in (Privilege.SELECT, Privilege.WRITE, Privilege.ADMIN):
            resources = [*(Resource(*path) for path in PATHS[::3]), *map(Resource, DATABASES)]
            access = Access(identity, engine)
            assert [access.may(privilege, resource) for resource in resources] == [
                engine.allows(identity, privilege, resource) for resource in resources
            ]


@settings(max_examples=examples(40), deadline=None)
@given(policies)
def test_a_user_whose_groups_are_unknown_may_do_only_what_every_membership_would_allow(text: str) -> None:
    engine = CedarEngine(text)
    columns = [pa.array([path[at] for path in PATHS], pa.string()) for at in (0, 1)]
    memberships = [frozenset(groups) for groups in (set(), {"ops"}, {"hr"}, {"ops", "hr"})]
    members = [Access(Identity("ana", Authentication.TOKEN, groups), engine).visible(*columns).tolist() for groups in memberships]
    unknown = Access(Identity("ana", Authentication.TOKEN, has_unknown_groups=True), engine).visible(*columns).tolist()
    assert not [path for path, allowed, known in zip(PATHS, unknown, zip(*members, strict=True), strict=True) if allowed and not all(known)]
    if "Group" not in text:
        assert unknown == members[0]
