"""A standby passes on the calls of every service that the contract has, but the one that only its own process can answer."""

from __future__ import annotations

import re

from support.repository import ROOT
from tiering.cli.processes.forwarding import SERVICES

DECLARED = re.compile(r"^package ([a-z0-9_.]+);.*?^service ([A-Za-z]+)", re.MULTILINE | re.DOTALL)
HEALTH = "grpc.health.v1.Health"


def test_a_standby_forwards_every_service_of_the_contract() -> None:
    texts = [file.read_text() for file in (ROOT / "proto").rglob("*.proto")]
    declared = {f"{package}.{service}" for text in texts for package, service in DECLARED.findall(text)}
    assert "tiering.rpc.v1.TableWrites" in declared
    assert {service.full_name for service in SERVICES} == {*declared, HEALTH} - {"tiering.rpc.v1.EmbeddedCluster"}
