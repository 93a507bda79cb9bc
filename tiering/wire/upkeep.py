"""The order of an upkeep round, and what upkeep did, as messages."""

from __future__ import annotations

from dataclasses import asdict, fields

from tiering.model.upkeep import ExpiryOrder, UpkeepOrder, UpkeepStats
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.common import time_from_pb, time_to_pb


def upkeep_order_to_pb(order: UpkeepOrder) -> pb.PbUpkeepOrder:
    """The order as a message. Partitions are sorted, so that the same order is the same bytes."""
    partitions = None if order.partitions is None else pb.PbUpkeepOrder.PbPartitions(names=sorted(order.partitions))
    return pb.PbUpkeepOrder(
        rewrite=order.rewrite,
        full=order.full,
        partitions=partitions,
        manifests=order.manifests,
        expiry=None if order.expiry is None else _expiry_to_pb(order.expiry),
        budget_bytes=order.budget_bytes,
    )


def upkeep_order_from_pb(message: pb.PbUpkeepOrder) -> UpkeepOrder:
    """The order that `upkeep_order_to_pb` made the message of."""
    return UpkeepOrder(
        rewrite=message.rewrite,
        full=message.full,
        partitions=frozenset(message.partitions.names) if message.HasField("partitions") else None,
        manifests=message.manifests,
        expiry=_expiry_from_pb(message.expiry) if message.HasField("expiry") else None,
        budget_bytes=message.budget_bytes,
    )


def _expiry_to_pb(expiry: ExpiryOrder) -> pb.PbUpkeepOrder.PbExpiry:
    older_than = None if expiry.older_than is None else time_to_pb(expiry.older_than)
    return pb.PbUpkeepOrder.PbExpiry(older_than=older_than, retain_last=expiry.retain_last)


def _expiry_from_pb(message: pb.PbUpkeepOrder.PbExpiry) -> ExpiryOrder:
    return ExpiryOrder(
        older_than=time_from_pb(message.older_than) if message.HasField("older_than") else None,
        retain_last=message.retain_last if message.HasField("retain_last") else None,
    )


def upkeep_stats_to_pb(stats: UpkeepStats) -> pb.PbUpkeepStats:
    """What upkeep did as a message."""
    return pb.PbUpkeepStats(**asdict(stats))


def upkeep_stats_from_pb(message: pb.PbUpkeepStats) -> UpkeepStats:
    """What upkeep did as the tierer reports it. Numbers below 0 are taken for 0: they are shown, and decide only when upkeep goes on."""
    present = {descriptor.name: value for descriptor, value in message.ListFields()}
    return UpkeepStats(**{number.name: max(present[number.name], 0) for number in fields(UpkeepStats) if number.name in present})
