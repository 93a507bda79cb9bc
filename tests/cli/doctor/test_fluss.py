"""`lakeward doctor --fluss` on a real cluster, and on none."""

from __future__ import annotations

import pytest

from tiering.cli.doctor.findings import Verdict, findings
from tiering.cli.doctor.fluss import fluss_cluster, shared_lake
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster


def test_each_server_is_reached(fluss: LocalFlussCluster) -> None:
    results = list(findings([("fluss", lambda: fluss_cluster(fluss.bootstrap_servers))]))
    assert [finding.verdict for finding in results if "lake" not in finding.result] == [Verdict.OK] * 2
    assert fluss.bootstrap_servers in results[0].result
    assert fluss.tablet_server_address(0) in results[1].result


def test_a_cluster_that_is_not_there_is_a_finding_that_names_it() -> None:
    [finding] = findings([("fluss", lambda: fluss_cluster("127.0.0.1:1"))])
    assert finding.verdict is Verdict.FAIL
    assert "127.0.0.1:1" in finding.result


@pytest.mark.parametrize(
    ("properties", "verdict", "text"),
    [
        ({"type": "hadoop", "warehouse": "/x"}, Verdict.WARN, "hadoop"),
        ({"type": "sql", "uri": "sqlite:////x.db"}, Verdict.WARN, "SQLite"),
        ({"type": "sql", "uri": "postgresql+psycopg://db/lake"}, Verdict.OK, "type sql"),
        ({"type": "rest", "uri": "http://c"}, Verdict.OK, "type rest"),
    ],
)
def test_what_to_mind_of_a_lake_that_is_shared_with_jvms(properties: dict[str, str], verdict: Verdict, text: str) -> None:
    [finding] = shared_lake(properties)
    assert (finding.verdict, text in finding.result) == (verdict, True)
    assert bool(finding.mend) == (verdict is not Verdict.OK)
