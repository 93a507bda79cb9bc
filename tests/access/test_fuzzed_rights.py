"""Drawn requests to every RPC, by a caller with all rights on one table: nothing about any other table comes back.

Two services get the same requests. One has the caller's table alone; the other has hidden tables and a hidden database besides. A word
that no request says stands in their names, columns and rows. The word is in no answer, and the answers of both services are the same: in
text, in the number of rows and in their order. Only numbers differ, such as times, ids and the fingerprints of keys.
"""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from support.depth import examples
from support.services.guarded_service import GuardedService, guarded_service
from support.services.malformed import DATABASE, LOG_TABLE, PRIMARY_KEY_TABLE, Case, cases
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath
from tiering.wire.error_status import error_from_rpc

WORD = "zzsecretzz"
OWN = TablePath(DATABASE, LOG_TABLE)
HIDDEN = (TablePath(DATABASE, PRIMARY_KEY_TABLE), TablePath(DATABASE, f"orders_{WORD}"), TablePath(f"hr_{WORD}", "salaries"))
POLICIES = f'permit (principal == User::"ana", action, resource == Table::"{OWN}");'
CHANGING_NUMBERS = re.compile(r"SHA256:[\w+/]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}|\d+")
PROGRESS = re.compile(r"^progress \{\n.*?^\}\s*", re.MULTILINE | re.DOTALL)
"""Whether a call reports its progress before its end depends on how busy the machine is."""
OPTIONS = {"table.datalake.enabled": "true", "table.datalake.freshness": "30 d"}
"""No table becomes due meanwhile, which one service could see a moment earlier than the other."""
SECONDS = 20.0


def fill(service: GuardedService, paths: tuple[TablePath, ...]) -> None:
    for path in paths:
        service.storage.create_database(path.database_name, True)
        word = "text" if path == OWN else WORD
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field(word, pa.string())])
        key = ("id",) if path.table_name == PRIMARY_KEY_TABLE else ()
        service.storage.create_table(path, TableSpec(schema, 2, primary_key=key, properties=OPTIONS), True)
        rows = pa.table({"id": range(20), word: [word] * 20}, schema=schema)
        (service.storage.upsert if key else service.storage.append)(path, rows, "w", 0)
    service.running.coordinator.discovery.run()


@contextmanager
def running(folder: Path, paths: tuple[TablePath, ...]) -> Iterator[GuardedService]:
    folder.mkdir()
    with guarded_service(folder, POLICIES, {"ana": ()}) as service:
        fill(service, paths)
        yield service


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GuardedService, GuardedService]]:
    """One with the caller's table alone, and one with others.

    Their folders differ in a number only, because settings show the lake's place.
    """
    folder = tmp_path_factory.mktemp("services")
    with ExitStack() as stack:
        alone = stack.enter_context(running(folder / "1", (OWN,)))
        yield alone, stack.enter_context(running(folder / "2", (OWN, *HIDDEN)))


def settle(service: GuardedService) -> None:
    """Does what the service's background loops do with tables, so that an answer does not depend on how far they came."""
    parts = service.running.coordinator
    parts.discovery.run_quietly()
    parts.observer.observe_all()
    parts.observer.measure_lakes()
    parts.advance()
    parts.idle_checks.run()


def answer(service: GuardedService, channel: grpc.Channel, case: Case) -> str:
    """All that comes back: messages, rows of Arrow, or the error with its hint and its ids."""
    settle(service)
    metadata = (("authorization", f"Bearer {service.tokens['ana']}"),)
    call = channel.unary_stream(case.path, lambda body: body, lambda body: body)
    try:
        parts = list(call(case.body, metadata=metadata, timeout=SECONDS))
    except grpc.RpcError as error:
        refusal = error_from_rpc(error, service.running.uri)
        return f"{refusal.error_class}: {refusal.message} {refusal.hint} {refusal.ids}"
    messages = [GetMessageClass(case.method.output_type).FromString(part) for part in parts]
    pieces: dict[str, bytes] = {}
    texts = []
    for message in messages:
        arrow = getattr(message, "arrow", b"")
        if arrow:
            name = getattr(message, "name", "")
            pieces[name] = pieces.get(name, b"") + arrow
            message.ClearField("arrow")
        texts.append(str(message))
    return "\n".join([*dict.fromkeys(texts), *(f"{name} {rows_of(piece)}" for name, piece in pieces.items())])


def rows_of(stream: bytes) -> list[dict[str, Any]]:
    table: pa.Table = pa.ipc.open_stream(io.BytesIO(stream)).read_all()
    return table.to_pylist()


def comparable(text: str) -> str:
    return CHANGING_NUMBERS.sub("#", PROGRESS.sub("", text).strip())


def says_the_word(case: Case) -> bool:
    return WORD.encode() in case.body


def aimed_at_hidden_tables(chance: random.Random, case: Case) -> Case:
    """Some cases name a hidden table where they named another one."""
    if chance.random() < 0.8:
        return case
    try:
        request = GetMessageClass(case.method.input_type).FromString(case.body)
    except DecodeError:
        return case
    path = chance.choice(HIDDEN)
    fields = case.method.input_type.fields_by_name
    if "table_path" in fields:
        request.table_path.database_name, request.table_path.table_name = path.database_name, path.table_name
    for name, value in (("table_id", chance.randrange(6)), ("database_name", path.database_name), ("namespace", path.database_name)):
        if name in fields:
            setattr(request, name, value)
    return Case(case.method, request.SerializeToString(), f"{case.kind}, of a hidden table")


@pytest.mark.parametrize("seed", range(examples(3)))
def test_nothing_about_another_table_comes_back(services: tuple[GuardedService, GuardedService], seed: int) -> None:
    chance = random.Random(seed)
    with ExitStack() as stack:
        channels = [stack.enter_context(grpc.insecure_channel(service.running.uri)) for service in services]
        for number, drawn in enumerate(cases(seed, 400)):
            case = aimed_at_hidden_tables(chance, drawn)
            alone, beside = (answer(service, channel, case) for service, channel in zip(services, channels, strict=True))
            drawn_case = f"case {number} of seed {seed}, {case.path}, {case.kind}"
            if not says_the_word(case):
                assert WORD not in beside, drawn_case
            assert comparable(beside) == comparable(alone), drawn_case
