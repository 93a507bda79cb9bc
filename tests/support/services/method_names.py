"""Every RPC that a server of a coordinator offers, from the descriptors of the services that are added to it."""

from __future__ import annotations

from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from sys_tables.rpc.v1 import sys_catalog_pb2
from tiering.rpc.v1 import control_pb2, coordinator_pb2, definitions_pb2, embedded_pb2, reads_pb2, status_pb2, writes_pb2

FILES = (
    sys_catalog_pb2,
    status_pb2,
    coordinator_pb2,
    control_pb2,
    reads_pb2,
    writes_pb2,
    definitions_pb2,
    embedded_pb2,
    health_pb2,
    reflection_pb2,
)


def method_names() -> list[str]:
    """By `/package.Service/Method`; reflection has a second name, which is no file's (`coordinator.server.serving`)."""
    services = [service for file in FILES for service in file.DESCRIPTOR.services_by_name.values()]
    names = [f"/{service.full_name}/{method.name}" for service in services for method in service.methods]
    return sorted([*names, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"])
