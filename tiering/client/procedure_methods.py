"""The methods of the clients that call a procedure by its name: `CALL sys.pause_tiering` is `pause_tiering`.

A method takes the arguments of its declaration in `tiering/procedures`; docs/reference.md describes them. A table is the argument
`table_path`, as a path or as `database.table`. Further arguments: `dry_run` only answers, a repeat under one `idempotency_key` has one
effect, `caller` is by default the user of this process, and `on_progress` gets the progress of the call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, overload

from tiering.model.tables import TablePath
from tiering.procedures.acquire_kv_snapshot_lease import AcquireKvSnapshotLease
from tiering.procedures.adopt_table import AdoptTable
from tiering.procedures.backfill_table import BackfillTable
from tiering.procedures.base import CallRequest, ResultT
from tiering.procedures.cancel_tiering import CancelTiering
from tiering.procedures.discard_dead_letters import DiscardDeadLetters
from tiering.procedures.drop_kv_snapshot_lease import DropKvSnapshotLease
from tiering.procedures.expire_snapshots import ExpireSnapshots
from tiering.procedures.explain_tiering import ExplainTiering
from tiering.procedures.explain_upkeep import ExplainUpkeep
from tiering.procedures.fence_tierer import FenceTierer
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.pause_upkeep import PauseUpkeep
from tiering.procedures.prove_table import ProveTable
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.release_kv_snapshot_lease import ReleaseKvSnapshotLease
from tiering.procedures.remove_orphan_files import RemoveOrphanFiles
from tiering.procedures.renew_kv_snapshot_lease import RenewKvSnapshotLease
from tiering.procedures.replay_dead_letters import ReplayDeadLetters
from tiering.procedures.reset_errors import ResetErrors
from tiering.procedures.resume_tiering import ResumeTiering
from tiering.procedures.resume_upkeep import ResumeUpkeep
from tiering.procedures.retry_tiering import RetryTiering
from tiering.procedures.rewrite_data_files import RewriteDataFiles
from tiering.procedures.rewrite_manifests import RewriteManifests
from tiering.procedures.set_freshness import SetFreshness
from tiering.procedures.set_table_option import SetTableOption
from tiering.procedures.skip_record import SkipRecord
from tiering.procedures.take_kv_snapshot import TakeKvSnapshot
from tiering.procedures.tier_table import TierTable
from tiering.procedures.validate_table import ValidateTable
from tiering.procedures.wait_for_tiering import WaitForTiering
from tiering.wire.procedure_calls import TableName, path_of

P = ParamSpec("P")


class RequestSender(Protocol):
    """Sends requests and waits for their results."""

    def perform(self, request: CallRequest[ResultT]) -> ResultT:
        """Returns the result. Raises the errors of the procedure, ServiceUnreachable and InvalidAnswer."""


class AsyncRequestSender(Protocol):
    """Sends requests and waits for their results in an event loop."""

    async def perform(self, request: CallRequest[ResultT]) -> ResultT:
        """Returns the result. Raises the errors of the procedure, ServiceUnreachable and InvalidAnswer."""


class Method(Generic[P, ResultT]):
    """A method of both clients that performs a request with the given arguments."""

    def __init__(self, request_class: Callable[..., CallRequest[ResultT]]) -> None:
        self._request_class = request_class
        self._comment: str = getattr(request_class, "comment", "")
        signature = inspect.signature(request_class)
        in_client = [p.replace(name="table_path") if p.name == "path" else p for p in signature.parameters.values()]
        self._signature = signature.replace(parameters=in_client)

    @overload
    def __get__(self, client: RequestSender, owner: type[RequestSender]) -> Callable[P, ResultT]: ...
    @overload
    def __get__(self, client: AsyncRequestSender, owner: type[AsyncRequestSender]) -> Callable[P, Coroutine[Any, Any, ResultT]]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        def perform(*args: object, **kwargs: object) -> Any:
            arguments = self._signature.bind(*args, **kwargs).arguments
            if "table_path" in arguments:
                arguments["path"] = path_of(arguments.pop("table_path"))
            return client.perform(self._request_class(**arguments))

        perform.__doc__, perform.__signature__ = self._comment, self._signature  # type: ignore[attr-defined]
        return perform


def method(request_class: Callable[P, CallRequest[ResultT]]) -> Method[P, ResultT]:
    """Returns the method of a procedure without a table."""
    return Method(request_class)


def table_method(request_class: Callable[Concatenate[TablePath, P], CallRequest[ResultT]]) -> Method[Concatenate[TableName, P], ResultT]:
    """Returns the method of a procedure whose first argument is a table."""
    return Method(request_class)


def lease_table_method(
    request_class: Callable[Concatenate[str, TablePath, P], CallRequest[ResultT]],
) -> Method[Concatenate[str, TableName, P], ResultT]:
    """Returns the method of a procedure whose first arguments are a lease and a table."""
    return Method(request_class)


class ProcedureMethods:
    """A method per procedure. Cancelling a method of the asyncio client ends the wait, not the work of the service."""

    acquire_kv_snapshot_lease = lease_table_method(AcquireKvSnapshotLease)
    adopt_table = table_method(AdoptTable)
    backfill_table = table_method(BackfillTable)
    cancel_tiering = method(CancelTiering)
    discard_dead_letters = table_method(DiscardDeadLetters)
    drop_kv_snapshot_lease = method(DropKvSnapshotLease)
    expire_snapshots = table_method(ExpireSnapshots)
    explain_tiering = table_method(ExplainTiering)
    explain_upkeep = table_method(ExplainUpkeep)
    fence_tierer = method(FenceTierer)
    pause_tiering = table_method(PauseTiering)
    pause_upkeep = table_method(PauseUpkeep)
    prove_table = table_method(ProveTable)
    reconcile_lake = table_method(ReconcileLake)
    release_kv_snapshot_lease = lease_table_method(ReleaseKvSnapshotLease)
    remove_orphan_files = table_method(RemoveOrphanFiles)
    renew_kv_snapshot_lease = method(RenewKvSnapshotLease)
    replay_dead_letters = table_method(ReplayDeadLetters)
    reset_errors = table_method(ResetErrors)
    resume_tiering = table_method(ResumeTiering)
    resume_upkeep = table_method(ResumeUpkeep)
    retry_tiering = table_method(RetryTiering)
    rewrite_data_files = table_method(RewriteDataFiles)
    rewrite_manifests = table_method(RewriteManifests)
    set_freshness = table_method(SetFreshness)
    set_table_option = table_method(SetTableOption)
    skip_record = table_method(SkipRecord)
    take_kv_snapshot = table_method(TakeKvSnapshot)
    tier_table = table_method(TierTable)
    validate_table = table_method(ValidateTable)
    wait_for_tiering = table_method(WaitForTiering)
