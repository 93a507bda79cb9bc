"""A real coordinator with tokens and policies, in the process of the test: each role has a token, and calls as itself over gRPC."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
from google.protobuf import message_factory

from support.services.method_names import FILES
from tiering.access.acting_for import USER_HEADER
from tiering.access.client_access import ClientAccess
from tiering.access.tokens import add_token, new_token
from tiering.cli.processes.coordinator import RunningCoordinator, running_coordinator
from tiering.cli.terminal.access_options import AccessOptions, Auth, GrantOptions
from tiering.cli.terminal.console_options import ConsoleOptions
from tiering.cli.terminal.service_options import ServiceOptions
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TableInfo, TablePath
from tiering.wire.error_status import error_from_rpc

SECONDS = 20.0


@dataclass
class GuardedService:
    """A guarded service. `storage` is the embedded cluster's own, which needs no caller's name."""

    running: RunningCoordinator
    storage: EmbeddedStorage
    tokens: Mapping[str, str]
    policy: Path
    data: Path

    def call(self, method: str, role: str, acting_for: bytes = b"", **fields: Any) -> list[Any]:
        """All answers to one request of `role`, for the user whom its header names. Raises the service's error."""
        _, service_name, name = method.split("/")
        service = next(
            s
            for file in FILES
            for s in file.DESCRIPTOR.services_by_name.values()
            if s.full_name == service_name.replace("v1.Server", "v1alpha.Server")
        )
        descriptor = service.methods_by_name[name]
        request = message_factory.GetMessageClass(descriptor.input_type)(**fields)
        with grpc.insecure_channel(self.running.uri) as channel:
            take = message_factory.GetMessageClass(descriptor.output_type).FromString
            serialize = type(request).SerializeToString
            metadata: list[tuple[str, str | bytes]] = [("authorization", f"Bearer {self.tokens[role]}")]
            metadata += [(USER_HEADER, acting_for)] if acting_for else []
            try:
                if descriptor.client_streaming:
                    return list(channel.stream_stream(method, serialize, take)(iter([request]), metadata=metadata, timeout=SECONDS))
                return list(channel.unary_stream(method, serialize, take)(request, metadata=metadata, timeout=SECONDS))
            except grpc.RpcError as error:
                raise error_from_rpc(error, self.running.uri) from None

    def access(self, role: str, folder: Path) -> ClientAccess:
        """The access of a client with the role's token, which it reads from a file in the folder."""
        token = folder / f"{role}.token"
        token.write_text(self.tokens[role])
        return ClientAccess(token_file=token)

    def ensure_table(self, path: TablePath) -> TableInfo:
        """The table, made if need be."""
        self.storage.create_database(path.database_name, True)
        table = self.storage.create_table(path, TableSpec(pa.schema([pa.field("id", pa.int64())]), 1, properties=_LAKE), True)
        self.running.coordinator.discovery.run()
        return table


_LAKE = {"table.datalake.enabled": "true"}


@contextmanager
def guarded_service(
    folder: Path,
    policies: str,
    roles: Mapping[str, tuple[str, ...]],
    console: ConsoleOptions | None = None,
    access: AccessOptions | None = None,
) -> Iterator[GuardedService]:
    """Runs one in a thread; `roles`: each user's groups. `console` None: the service has no console. `access` None: tokens of the roles."""
    policy, tokens_file, tokens = folder / "policies.cedar", folder / "tokens.json", {}
    policy.write_text(policies)
    for role, groups in roles.items():
        tokens[role], stored = new_token(role, datetime.now(UTC), groups=groups)
        add_token(tokens_file, stored)
    access = access or AccessOptions(Auth.TOKEN, tokens=tokens_file)
    settings = ServiceOptions(
        folder / "data", port=0, access=access, grants=GrantOptions(policy), console=console or ConsoleOptions(bound_port=None)
    )
    loop, ready, ended = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    started: list[RunningCoordinator] = []

    async def serve() -> None:
        try:
            async with running_coordinator(settings, ended) as running:
                assert running is not None
                started.append(running)
                ready.set()
                await ended.wait()
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    ready.wait()
    assert started, "the service did not start"
    storage = started[0].coordinator.cluster
    assert isinstance(storage, EmbeddedStorage)
    try:
        yield GuardedService(started[0], storage, tokens, policy, folder / "data")
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(30)
        loop.close()
