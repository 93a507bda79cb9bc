"""Every call that names a table is answered alike for a hidden table and for one that is not there; the bench of that name times them."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from support.services.guarded_service import GuardedService, guarded_service
from support.services.naming_calls import KNOWN_DATABASE, NO_TABLE_ID, PAIRS, POLICIES, naming_calls, without_names
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedService]:
    with guarded_service(tmp_path_factory.mktemp("service"), POLICIES, {"ana": ()}) as running:
        for path in (ORDERS, *(hidden for hidden, _ in PAIRS.values())):
            running.ensure_table(path)
        yield running


def differing(service: GuardedService, where: str) -> dict[str, tuple[str, str]]:
    """The answers that are not the same, by call."""
    hidden, unknown = PAIRS[where]
    pair = ((hidden, service.ensure_table(hidden).table_id), (unknown, NO_TABLE_ID))
    with grpc.insecure_channel(service.running.uri) as channel:
        answers = {name: tuple(without_names(call(named), named) for named in pair) for name, call in naming_calls(service, channel, where)}
    assert len(answers) > 40
    return {name: (texts[0], texts[1]) for name, texts in answers.items() if texts[0] != texts[1]}


@pytest.mark.parametrize("where", PAIRS)
def test_a_hidden_table_is_answered_as_an_unknown_one(service: GuardedService, where: str) -> None:
    assert differing(service, where) == {}


def test_a_table_that_is_known_is_answered_otherwise(service: GuardedService) -> None:
    """The calls are about the table at all."""
    known, unknown = (ORDERS, service.ensure_table(ORDERS).table_id), (TablePath("sales", "nothing"), NO_TABLE_ID)
    with grpc.insecure_channel(service.running.uri) as channel:
        calls = dict(naming_calls(service, channel, KNOWN_DATABASE))
        for name in ("EmbeddedCluster/GetTable", "EmbeddedCluster/ListOffsets", "CALL pause_tiering", "CALL pause_tiering (SQL)"):
            assert "UnknownTable" in calls[name](unknown)
            assert "UnknownTable" not in calls[name](known)


def test_who_lacks_a_privilege_hears_first_that_a_table_is_not_there(service: GuardedService) -> None:
    service.policy.write_text('permit (principal == User::"ana", action == Action::"DESCRIBE", resource in Database::"sales");')
    service.running.coordinator.grants._looked_at -= 10  # as if the second had passed in which the file is not read again
    with grpc.insecure_channel(service.running.uri) as channel:
        calls = dict(naming_calls(service, channel, KNOWN_DATABASE))
        for name in ("EmbeddedCluster/DropTable", "CALL pause_tiering", "CALL tier_table"):
            assert "there is no table sales.nothing" in calls[name]((TablePath("sales", "nothing"), NO_TABLE_ID))
            assert "AccessDenied" in calls[name]((ORDERS, 0))
    service.policy.write_text(POLICIES)
    service.running.coordinator.grants._looked_at -= 10
