"""Documentation that is checked against the code."""

from __future__ import annotations

import re

from support.repository import ROOT
from sys_tables.reference import render
from sys_tables.registry import default_registry


def test_the_reference_is_that_of_the_code() -> None:
    assert (ROOT / "docs" / "reference.md").read_text() == render(default_registry())


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"`[^`\n]*`", "", page.read_text())  # code has brackets of its own
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


FOREIGN_NAMES = {"rollback_to", "compact"}
"""Procedures of Paimon, in a `sys` of its own."""
PLACEHOLDERS = {"x", "nope"}


def test_each_system_table_and_procedure_that_a_page_names_is_there() -> None:
    registry = default_registry()
    known = {table.name for table in registry.tables} | {procedure.name for procedure in registry.procedures}
    pages = [page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"]  # it tells of what is gone, too
    pages += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "sql_examples").glob("*.md"), *(ROOT / "bench").glob("*.md")]
    named = {(page.name, name) for page in pages for name in re.findall(r"(?<![\w/])(?:\w+\.)?sys\.([a-z_]+)\b(?!\.)", page.read_text())}
    assert len(named) > len(known)
    assert {(page, name) for page, name in named if name not in known | FOREIGN_NAMES | PLACEHOLDERS} == set()


def test_nobody_is_told_to_install_what_is_not_published() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "tiering").rglob("*.py"), *(ROOT / "sys_tables").rglob("*.py")]
    published = re.compile(r"pip install ['\"]?lakeward(?!-)(?!.*another package)|lakeward\[")
    assert [str(page.relative_to(ROOT)) for page in pages if page.name != "CHANGELOG.md" and published.search(page.read_text())] == []


def test_what_code_cites_is_in_the_repository() -> None:
    """`DESIGN 6` is section 6 of docs/design.md; facts about Fluss and rules beside its tiering have pages, too."""
    rooms = ("tiering", "sys_tables", "tests", "bench", "proto", "catalog/src", "docs")
    endings = {".py", ".java", ".proto", ".md"}
    files = [file for room in rooms for file in (ROOT / room).rglob("*") if file.suffix in endings and file.name != "test_docs.py"]
    texts = {file.relative_to(ROOT): file.read_text() for file in files if file.parent.parent.name != "rpc"}
    sections = set(re.findall(r"^## (\d+)\. ", (ROOT / "docs" / "design.md").read_text(), re.MULTILINE))
    cited = {number for text in texts.values() for number in re.findall(r"DESIGN (\d+)", text)}
    assert (len(cited) > 5, cited - sections) == (True, set())
    elsewhere = re.compile(r"\b(?:FLUSS|LAKE|SYS|BESIDE-FLINK|DESIGN|STYLE|DEPENDENCIES)\.md")
    assert sorted(str(file) for file, text in texts.items() if elsewhere.search(text)) == []
    hazards = set(re.findall(r"fluss-facts\.md,? (H\d)", "".join(texts.values())))
    facts = (ROOT / "docs" / "fluss-facts.md").read_text()
    assert (bool(hazards), [hazard for hazard in hazards if not re.search(rf"^#+ {hazard}\b", facts, re.MULTILINE)]) == (True, [])


def test_figures_for_sizing_stand_in_the_section_of_the_bench_that_they_name() -> None:
    sizing = (ROOT / "docs" / "deploy.md").read_text().split("\n## To size it\n", 1)[1]
    sections = (ROOT / "docs" / "benchmarks.md").read_text().split("\n## ")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| `(bench/\w+\.py)` \|$", sizing, re.MULTILINE)
    assert len(rows) > 5
    for subject, takes, bench in rows:
        [section] = [text for text in sections if bench in text.split("\n", 1)[0]]
        figures = re.findall(r"\d[\d,.]*\d|\d", f"{subject} {takes}")
        assert [figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d]|[.,]\d)", section)] == [], bench


def test_every_command_program_and_statement_of_the_page_on_clients_is_run_by_a_test() -> None:
    page = (ROOT / "docs" / "connect.md").read_text()
    tests = "".join(file.read_text() for file in (ROOT / "tests" / "integration" / "clients").glob("*.py"))
    opened = re.findall(r"^```(\w+)(?: (\S+))?$", page, re.MULTILINE)

    assert [language for language, name in opened if not name] == [], "a block without a name is not run"
    assert [name for _, name in opened if f'blocks["{name}"]' not in tests and f'blocks.statements("{name}")' not in tests] == []
