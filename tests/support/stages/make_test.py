"""The one table of what `make test` runs: unit tests that take seconds, and one journey each through the real thing.

`make test-all` runs every other test that CI runs. A test of this table needs nothing that `./setup.sh` does not fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from support.dealt_out import is_integration

MARK = "make_test"
JOURNEYS: Mapping[str, tuple[str, ...]] = {
    "rounds on Spark executors": ("tests/integration/spark/test_spark_rounds.py",),
    "SQL through the plugin, CALL, the command line": ("tests/integration/test_sql_end_to_end.py",),
    "JDBC": ("tests/integration/clients/test_sql_clients.py::test_a_jdbc_connection_over_the_thrift_server",),
    "a real Fluss": (
        "tests/integration/fluss/test_fluss_rounds.py::test_a_log_table_is_tiered_exactly_and_the_cluster_knows_how_far",
        "tests/integration/fluss/test_fluss_rounds.py::test_keys_are_tiered_from_their_changes",
    ),
    "Paimon": ("tests/integration/test_paimon_end_to_end.py",),
    "kill -9": ("tests/faults/test_crashes.py::test_a_tierer_killed_anywhere_in_its_round_leaves_every_offset_once",),
    "validate": ("tests/validate/test_validate_command.py",),
}
"""Files and tests by what they show. Each starts processes, as a user does."""
UNIT = (
    "tests/access",
    "tests/cluster",
    "tests/conformance",
    "tests/coordinator",
    "tests/files",
    "tests/ingest",
    "tests/lake",
    "tests/library_guards",
    "tests/model",
    "tests/planning",
    "tests/redaction",
    "tests/round",
    "tests/sys_tables",
    "tests/telemetry",
    "tests/wire",
    "tests/test_client.py",
    "tests/test_docs.py",
    "tests/test_durations.py",
    "tests/test_lake_table_options.py",
    "tests/test_pace.py",
    "tests/test_round_bytes.py",
    "tests/test_stages.py",
)
"""Folders and files of unit tests, but for LEFT_TO_TEST_ALL."""
LEFT_TO_TEST_ALL = ()
"""Files and tests of UNIT that take seconds of CPU each (cells of a matrix, drawn values, whole stories), or a server of their own."""
NEEDS_OF_TEST_ALL = ("postgresql",)
"""Words in the fixtures or parameters of tests that need what only `./setup.sh all-tests` installs."""


def journeys() -> list[str]:
    """All files and tests of JOURNEYS."""
    return [name for names in JOURNEYS.values() for name in names]


def is_in_make_test(item: pytest.Item) -> bool:
    """Whether `make test` runs a test. `make test-all` runs the others."""
    if is_below(item.nodeid, journeys()):
        return True
    needs = (item.nodeid, *getattr(item, "fixturenames", ()))
    return (
        is_below(item.nodeid, UNIT)
        and not is_below(item.nodeid, LEFT_TO_TEST_ALL)
        and not is_integration(item)
        and not any(word in need for word in NEEDS_OF_TEST_ALL for need in needs)
    )


def is_below(nodeid: str, places: Iterable[str]) -> bool:
    """Whether a test is one of `places`, or is in a folder or file of these, or is a case of a test of these."""
    return any(nodeid.startswith(place) and nodeid[len(place) :][:1] in ("", "/", ":", "[") for place in places)
