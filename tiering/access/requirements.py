"""The privilege that each RPC needs. The service refuses a call without a line here.

The privilege for a system table is in the table's own module (`sys_tables/tables`), and that for a procedure in its declaration
(`tiering/procedures`). `docs/security-grants.md` is generated from all three. Tests compare this table with the services that exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tiering.access.privileges import Privilege


class PrivilegeTarget(StrEnum):
    """The object on which a privilege is needed."""

    NOTHING = "nothing: every identified caller may do it"
    SERVICE = "the service"
    TABLE = "the table"
    NEW_TABLE = "the table that is made"
    TABLE_OR_SERVICE = "the table; without one, the service"
    DATABASE = "the database"
    EVERY_TABLE = "each table of the answer"
    ROUND = "the round's table"
    TICKET = "nothing but the ticket of the call"
    PROCEDURE = "what the procedure's line says"
    SYSTEM_TABLE = "what the system table's line says"


@dataclass(frozen=True)
class Requirement:
    """The requirement of one RPC, table or procedure. `privilege` is None only for `PrivilegeTarget.NOTHING`. `tierer`: the role TIERER on
    the service is enough."""

    privilege: Privilege | None
    on: PrivilegeTarget
    tierer: bool = False
    audited: bool = False
    """Whether allowed calls get a row in sys.audit. Refused calls always get a row, up to a limit per minute. Calls above the limit are
    only counted."""
    identified: bool = True
    """False: the call needs no identity."""

    def __str__(self) -> str:
        if not self.identified and self.on is PrivilegeTarget.NOTHING:
            return "no identity"
        if self.privilege is None:
            return str(self.on)
        return f"{self.privilege} on {self.on}" + ("; or TIERER on the service" if self.tierer else "")


EVERY_CALLER = Requirement(None, PrivilegeTarget.NOTHING)
DESCRIBE_EACH_TABLE = Requirement(Privilege.DESCRIBE, PrivilegeTarget.EVERY_TABLE)
SELECT_ON_TABLE = Requirement(Privilege.SELECT, PrivilegeTarget.TABLE)
OPERATE_ON_SERVICE = Requirement(Privilege.OPERATE, PrivilegeTarget.SERVICE)
ADMIN_ON_SERVICE = Requirement(Privilege.ADMIN, PrivilegeTarget.SERVICE)
"""Requirements that several system tables name."""

_FREE = Requirement(None, PrivilegeTarget.NOTHING, identified=False)
_BY_PROCEDURE = Requirement(None, PrivilegeTarget.PROCEDURE, audited=True)
_BY_TABLE = Requirement(None, PrivilegeTarget.SYSTEM_TABLE)
_AS_TIERER = Requirement(Privilege.TIERER, PrivilegeTarget.SERVICE)
_CREATE_DATABASE = Requirement(Privilege.WRITE, PrivilegeTarget.DATABASE, audited=True)
_CREATE_TABLE = Requirement(Privilege.WRITE, PrivilegeTarget.NEW_TABLE, audited=True)
_WRITE_ROWS = Requirement(Privilege.WRITE, PrivilegeTarget.TABLE)
_CHANGE_TABLE = Requirement(Privilege.OPERATE, PrivilegeTarget.TABLE, audited=True)
_DESCRIBE_TABLE = Requirement(Privilege.DESCRIBE, PrivilegeTarget.TABLE, tierer=True)
_READ_ROWS = Requirement(Privilege.SELECT, PrivilegeTarget.TABLE, tierer=True)
_OPEN_READ = Requirement(Privilege.SELECT, PrivilegeTarget.TABLE, audited=True)
_BY_TICKET = Requirement(None, PrivilegeTarget.TICKET)
_BY_TICKET_ALONE = Requirement(None, PrivilegeTarget.TICKET, identified=False)

_OF_SERVICES: Mapping[str, Mapping[str, Requirement]] = {
    "sys_tables.rpc.v1.SysCatalog": {
        "Describe": DESCRIBE_EACH_TABLE,
        "ListTables": DESCRIBE_EACH_TABLE,
        "DescribeTable": DESCRIBE_EACH_TABLE,
        "ReadTable": _BY_TABLE,
        "ReadAllTables": _BY_TABLE,
        "OpenConsole": Requirement(None, PrivilegeTarget.NOTHING, audited=True),
    },
    "tiering.rpc.v1.TieringStatus": {"ListTieringStatuses": DESCRIBE_EACH_TABLE, "ListKvSnapshotLeases": DESCRIBE_EACH_TABLE},
    "tiering.rpc.v1.TieringControl": {
        "CallProcedure": _BY_PROCEDURE,
    },
    "tiering.rpc.v1.TieringCoordinator": {
        "LakeTieringHeartbeat": _AS_TIERER,
        "RecordPlan": _AS_TIERER,
        "BeginLakeCommit": _AS_TIERER,
        "CommitLakeSnapshot": _AS_TIERER,
        "ReportProgress": _AS_TIERER,
        "AcquireKvSnapshotLease": _AS_TIERER,
        "ReleaseKvSnapshotLease": _AS_TIERER,
        "DropKvSnapshotLease": _AS_TIERER,
        "GetServiceConfig": EVERY_CALLER,
    },
    "tiering.rpc.v1.TableReads": {
        "OpenRead": _OPEN_READ,
        "RenewRead": _BY_TICKET,
        "CloseRead": _BY_TICKET,
        "PlanRead": _BY_TICKET,
        "NextBatch": SELECT_ON_TABLE,
        "PlanBatch": SELECT_ON_TABLE,
    },
    "tiering.rpc.v1.TableDefinitions": {
        "CreateDatabase": _CREATE_DATABASE,
        "DropDatabase": Requirement(Privilege.OPERATE, PrivilegeTarget.DATABASE, audited=True),
        "CreateTable": _CREATE_TABLE,
        "AlterTable": _CHANGE_TABLE,
        "DropTable": _CHANGE_TABLE,
        "AddPartitions": Requirement(Privilege.WRITE, PrivilegeTarget.TABLE, audited=True),
        "DropPartitions": _CHANGE_TABLE,
        "ShowPartitions": Requirement(Privilege.DESCRIBE, PrivilegeTarget.TABLE),
    },
    "tiering.rpc.v1.TableWrites": {
        "OpenWrite": Requirement(Privilege.WRITE, PrivilegeTarget.TABLE, audited=True),
        "WriteRows": _BY_TICKET_ALONE,
        "CountWritten": _BY_TICKET_ALONE,
    },
    "tiering.rpc.v1.EmbeddedCluster": {
        "DescribeCluster": EVERY_CALLER,
        "CreateDatabase": _CREATE_DATABASE,
        "ListDatabases": Requirement(Privilege.DESCRIBE, PrivilegeTarget.EVERY_TABLE, tierer=True),
        "CreateTable": _CREATE_TABLE,
        "DropTable": _CHANGE_TABLE,
        "AlterTable": _CHANGE_TABLE,
        "SetTableOption": _CHANGE_TABLE,
        "ListTables": Requirement(Privilege.DESCRIBE, PrivilegeTarget.EVERY_TABLE, tierer=True),
        "GetTable": _DESCRIBE_TABLE,
        "GetTableSchema": _DESCRIBE_TABLE,
        "ListPartitions": _DESCRIBE_TABLE,
        "DropPartition": _CHANGE_TABLE,
        "Append": _WRITE_ROWS,
        "Upsert": _WRITE_ROWS,
        "Delete": _WRITE_ROWS,
        "SnapshotKv": _CHANGE_TABLE,
        "ListKvSnapshots": _DESCRIBE_TABLE,
        "GetKvSnapshot": _READ_ROWS,
        "ListOffsets": _DESCRIBE_TABLE,
        "ListOldestTimestamps": _DESCRIBE_TABLE,
        "ListRecordTraces": _DESCRIBE_TABLE,
        "ListSegments": _READ_ROWS,
        "GetLakeSnapshot": _DESCRIBE_TABLE,
    },
    "grpc.health.v1.Health": {"Check": _FREE, "List": _FREE, "Watch": _FREE},
    "grpc.reflection.v1alpha.ServerReflection": {"ServerReflectionInfo": EVERY_CALLER},
    "grpc.reflection.v1.ServerReflection": {"ServerReflectionInfo": EVERY_CALLER},
}

RPCS: Mapping[str, Requirement] = {
    f"/{service}/{method}": requirement for service, methods in _OF_SERVICES.items() for method, requirement in methods.items()
}
"""Requirements by `/package.Service/Method`."""
