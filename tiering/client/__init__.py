"""The public Python client of a Lakeward service, synchronous and for asyncio.

    with LakewardClient("127.0.0.1:7707") as client:
        for status in client.list_tiering_statuses(statuses=["Failed"]):
            print(status.database_name, status.table_name, status.error_class, status.error_hint)
        client.tier_table("sales.orders")

Errors are those of `tiering.errors`: ServiceUnreachable if no service answers at the uri, UnknownTable, TablePaused, the
error of a failed round, and so on, each with its hint. Clients connect on first use and may be shared by threads (or by
the coroutines of one event loop).
"""

from tiering.access.client_access import ClientAccess
from tiering.client.clients import AsyncLakewardClient, LakewardClient

__all__ = ["AsyncLakewardClient", "ClientAccess", "LakewardClient"]
