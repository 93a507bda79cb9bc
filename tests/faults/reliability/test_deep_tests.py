"""A soak runs every test of drawn examples, with more examples than CI."""

from __future__ import annotations

import re

from faults.reliability.deep_tests import LAKE_TABLES, VALUES
from faults.reliability.soak import HARNESSES

from support.depth import taking_turns
from support.repository import ROOT

DRAWS = re.compile(r"^from hypothesis|^from support.depth import .*examples", re.MULTILINE)


def test_every_test_that_draws_examples_is_drawn_deep_in_a_soak() -> None:
    modules = {harness.module.replace(".", "/") for harness in HARNESSES}
    drawing = [str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py") if DRAWS.search(file.read_text())]
    of_harnesses = (*(f"tests/{module}" for module in modules), "tests/faults/simulated/")
    assert [name for name in drawing if not name.startswith((*LAKE_TABLES, *VALUES, *of_harnesses))] == []
    assert [name for name in (*LAKE_TABLES, *VALUES) if not (ROOT / name).exists()] == []


def test_each_case_has_its_turn_and_none_is_lost() -> None:
    cases = ["iceberg", "paimon", "fluss"]
    for turn in range(6):
        parameters = taking_turns(cases, turn, lambda case: case == "fluss")
        of_ci = [case for case in parameters if isinstance(case, str)]
        assert of_ci == [cases[turn % 2], "fluss"]
        assert sorted(case if isinstance(case, str) else case.values[0] for case in parameters) == sorted(cases)
