"""Documentation that is checked against the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from support.reference.system_tables_page import render
from support.repository import ROOT
from sys_tables.registry import default_registry
from tiering.cli.main import app
from tiering.model.rounds import RoundState
from tiering.model.states import TRANSITIONS


def test_the_reference_is_that_of_the_code() -> None:
    assert (ROOT / "docs" / "reference.md").read_text() == render(default_registry())


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def anchors(page: Path) -> set[str]:
    """Returns the anchors that GitHub gives to the headings of a page; a repeated heading gets a number."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    named: list[str] = []
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        named.append(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return {name if index == named.index(name) else f"{name}-{named[:index].count(name)}" for index, name in enumerate(named)}


def test_links_between_pages_lead_to_a_file_and_a_heading() -> None:
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", page.read_text())  # code has brackets of its own
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
            file = page.parent / target if target else page
            assert file.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(file), f"{page.name}: {target}#{anchor}"


FOREIGN_NAMES = {"rollback_to", "compact", "add_acl"}
"""Procedures of Paimon and of Fluss, in a `sys` of their own."""
PLACEHOLDERS = {"x", "nope"}


def test_each_system_table_and_procedure_that_a_page_names_is_there() -> None:
    registry = default_registry()
    known = {table.name for table in registry.tables} | {procedure.name for procedure in registry.procedures}
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "sql_examples").glob("*.md"), *(ROOT / "bench").glob("*.md")]
    named = {(page.name, name) for page in pages for name in re.findall(r"(?<![\w/])(?:\w+\.)?sys\.([a-z_]+)\b(?!\.)", page.read_text())}
    assert len(named) > len(known)
    assert {(page, name) for page, name in named if name not in known | FOREIGN_NAMES | PLACEHOLDERS} == set()


def test_no_page_tells_a_user_to_install_what_is_not_published() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "tiering").rglob("*.py"), *(ROOT / "sys_tables").rglob("*.py")]
    published = re.compile(r"pip install ['\"]?lakeward(?!-)(?!.*another package)|lakeward\[")
    assert [str(page.relative_to(ROOT)) for page in pages if published.search(page.read_text())] == []


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


@pytest.mark.parametrize(("page", "heading"), [("deploy.md", "To size it"), ("freshness.md", "What was measured")])
def test_figures_stand_in_the_section_of_the_bench_that_they_name(page: str, heading: str) -> None:
    figures_of_page = (ROOT / "docs" / page).read_text().split(f"\n## {heading}\n", 1)[1]
    sections = (ROOT / "docs" / "benchmarks.md").read_text().split("\n## ")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| `(bench/\w+\.py)` \|$", figures_of_page, re.MULTILINE)
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


def links_of(page: Path) -> set[Path]:
    """Returns the files that a page links to."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    return {(page.parent / target).resolve() for target in targets}


def test_the_index_links_to_every_page() -> None:
    linked = links_of(ROOT / "docs" / "index.md")
    assert ROOT / "docs" / "index.md" in links_of(ROOT / "README.md")
    assert {page.name for page in (ROOT / "docs").glob("*.md") if page.name != "index.md" and page not in linked} == set()


def arrows(diagram: str) -> set[tuple[str, str]]:
    """Returns the pairs of states that a diagram of Mermaid connects."""
    return set(re.findall(r"^ +(\S+) --> ([^\s:]+)", diagram, re.MULTILINE))


def test_the_diagrams_of_states_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "concepts.md").read_text()
    of_tables, of_rounds = re.findall(r"^```mermaid\nstateDiagram-v2\n(.*?)^```", page, re.MULTILINE | re.DOTALL)

    assert arrows(of_tables) == {("[*]" if source is None else source.value, target.value) for source, target in TRANSITIONS if target}

    ends = {state.value for state in RoundState if state.is_final}
    assert {target for source, target in arrows(of_rounds) if source == RoundState.RUNNING.value} == ends
    assert {source for source, target in arrows(of_rounds) if target == "[*]"} == ends
    assert {state for pair in arrows(of_rounds) for state in pair} == {"[*]", *RoundState}


def test_what_python_programs_of_pages_import_is_there() -> None:
    programs = [
        program
        for page in (ROOT / "docs").glob("*.md")
        for program in re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text(), re.M | re.S)
    ]
    imports = {line for program in programs for line in re.findall(r"^from (?:tiering|sys_tables)\S* import .+$", program, re.MULTILINE)}
    assert len(imports) > 3
    for line in sorted(imports):
        exec(line, {})


FOREIGN_FILES = {"job.py", "write.py", "superset_config.py", "FlussApi.proto"}
"""A program of the user, the end of an option's name, a file of Superset, and a file of Fluss."""


def test_each_file_that_a_page_names_is_there() -> None:
    rooms = [
        ROOT / room
        for room in ("tiering", "sys_tables", "proto", "catalog/src", "tests", "bench", "docs", "deploy", "integrations", "sql_examples")
    ]
    names = {file.name for room in rooms for file in room.rglob("*.*")} | {file.name for file in ROOT.iterdir()} | FOREIGN_FILES
    pages = [*PAGES, *(ROOT / "tests").rglob("*.md"), *(ROOT / "bench").glob("*.md"), *(ROOT / "sql_examples").glob("*.md")]
    codes = [(page.name, code) for page in pages for code in re.findall(r"`([^`\n]+)`", page.read_text())]
    paths = re.compile(r"(?<![\w./-])(?:tiering|sys_tables|proto|catalog|tests|bench|deploy)/[\w./@-]*\w")
    named_paths = {(page, path) for page, code in codes for path in paths.findall(code)}
    assert len(named_paths) > 100
    assert {(page, path) for page, path in named_paths if not (ROOT / path).exists()} == set()
    assert {(page, name) for page, code in codes for name in re.findall(r"[\w-]+\.(?:py|java|proto)\b", code) if name not in names} == set()


def test_each_rpc_and_message_that_the_design_names_is_in_the_contract() -> None:
    contract = "".join(file.read_text() for file in (ROOT / "proto").rglob("*.proto"))
    declared = set(re.findall(r"(?:message|rpc) (\w+)", contract))
    section = (ROOT / "docs" / "design.md").read_text().split("\n## 4. ", 1)[1].split("\n## 5. ", 1)[0]
    begun = "|".join(
        (
            "Pb",
            "List",
            "Get",
            "Describe",
            "Acquire",
            "Release",
            "Drop",
            "Record",
            "Begin",
            "Commit",
            "Report",
            "Read",
            "Call",
            "LakeTiering",
        )
    )
    named = set(re.findall(rf"\b(?:{begun})[A-Z]\w+", section))
    assert (len(named) > 20, named - declared) == (True, set())


def test_the_modules_that_the_docstring_of_a_package_lists_are_there() -> None:
    """A list is a line `name.py   text` or `name/   text`."""
    packages = [file for room in ("tiering", "sys_tables") for file in (ROOT / room).rglob("__init__.py")]
    listed = [
        (file.parent, name) for file in packages for name in re.findall(r"^ *([\w/]+(?:\.py|/))  +\w", file.read_text(), re.MULTILINE)
    ]
    assert len(listed) > 10
    assert [str((folder / name).relative_to(ROOT)) for folder, name in listed if not (folder / name).exists()] == []


CONTRIBUTING = ROOT / "CONTRIBUTING.md"
TABLE_HEADER = "| to do this | go to this file |\n|---|---|\n"
FEWEST_ROWS = 20
_PLACE = re.compile(r"`(?P<file>[^`\s]+)`(?: \((?P<names>`[^`]+`(?:, `[^`]+`)*)\))?")
"""A file or folder, and the names in parentheses that it contains."""
_COMMAND = re.compile(r"`(?:PYTHONPATH=\S+ )?\.venv/bin/python (?P<file>bench/\S+\.py)")


def where_to_change(page: str) -> list[tuple[str, str]]:
    """The rows of the table: what to do, and where."""
    table = page.split(TABLE_HEADER, 1)[1].split("\n\n", 1)[0]
    return [(row.split(" | ")[0].strip("| "), row.split(" | ", 1)[1].removesuffix(" |")) for row in table.splitlines()]


def problems(places: str, root: Path) -> Iterator[str]:
    """Yields the problems of the second cell of a row."""
    files = [match for match in _PLACE.finditer(places) if "/" in match["file"] or "." in match["file"] or match["names"]]
    if not files:
        yield "no file"
    for match in files:
        path = root / match["file"]
        if match["file"] == "package-info.java":
            continue
        if not path.exists():
            yield f"{match['file']} does not exist"
        elif match["names"] and path.is_dir():
            yield f"{match['file']} is a folder"
        elif match["names"]:
            text = path.read_text(encoding="utf-8")
            yield from (
                f"{match['file']} has no {name}"
                for name in re.findall(r"`([^`]+)`", match["names"])
                if not re.search(rf"\b{re.escape(name)}\b", text)
            )


def test_every_row_of_contributing_names_files_that_exist_and_names_in_them() -> None:
    table = where_to_change(CONTRIBUTING.read_text(encoding="utf-8"))
    assert len(table) >= FEWEST_ROWS
    assert {question: wrong for question, places in table if (wrong := list(problems(places, ROOT)))} == {}


@pytest.mark.parametrize(
    ("places", "wrong"),
    [
        ("the rules", ["no file"]),
        ("`tiering/nowhere.py` (`Thing`)", ["tiering/nowhere.py does not exist"]),
        ("`tiering/errors.py` (`LakewardError`, `NoSuchError`)", ["tiering/errors.py has no NoSuchError"]),
        ("`tiering/lake` (`Lake`)", ["tiering/lake is a folder"]),
        ("`tiering/errors.py` (`LakewardError`); a page: `docs/nope.md`", ["docs/nope.md does not exist"]),
        ("`tiering/errors.py`", []),
    ],
)
def test_a_row_that_names_a_missing_thing_is_found(places: str, wrong: list[str]) -> None:
    assert list(problems(places, ROOT)) == wrong


def test_every_benchmark_of_the_list_exists() -> None:
    files = _COMMAND.findall((ROOT / "bench" / "README.md").read_text(encoding="utf-8"))
    assert len(files) > 10
    assert [file for file in files if not (ROOT / file).is_file()] == []


GENERATED = {"errors.md", "options.md", "reference.md", "security-grants.md"}
"""Pages whose sentences are in the code."""
LONGEST_LINE = 200
LONGEST_README = 100
"""Lines: two screens."""


def prose(page: Path) -> str:
    """Returns a page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def test_the_readme_has_two_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= LONGEST_README


def test_pages_have_short_lines_and_say_who_acts() -> None:
    pages = [page for page in PAGES if page.name not in GENERATED]
    long = [page.name for page in pages for line in prose(page).splitlines() if len(line) > LONGEST_LINE and not line.startswith("|")]
    vague = [
        (page.name, word)
        for page in pages
        for word in re.findall(r"\b(?:whoever|somebody|nobody|anybody)\b", re.sub(r"`[^`\n]*`", "", prose(page)))
    ]
    assert (long, vague) == ([], [])


WITHOUT_LIMITS = GENERATED | {"index.md", "design.md", "fluss-facts.md"}
"""Pages of reference: they have no example and no limits of their own. (`security-grants.md` has both.)"""
FIRST_LINES = 30


def test_a_page_begins_with_its_purpose_and_an_example_and_states_its_limits() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        lines = page.read_text().splitlines()
        assert lines[0].startswith("# "), page.name
        assert re.match(r"[`\w[]", lines[2]), f"{page.name}: no purpose below the title"
        if page.name not in WITHOUT_LIMITS:
            start = lines[:FIRST_LINES]
            assert any(line.startswith(("```", "## Example", "|")) for line in start), f"{page.name}: no example at the beginning"
            assert any(re.match(r"#+ .*[Ll]imits|Limits\b", line) for line in lines), f"{page.name}: no limits"


def command_of(words: list[str]) -> Any:
    """Returns the command that a line of the docs calls, or None if its first word is no command."""
    root = command = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    return None if command is root else command


def test_commands_of_pages_have_the_options_that_pages_show() -> None:
    shown: set[tuple[str, str]] = set()
    unknown: set[tuple[str, str, str]] = set()
    for page in [*PAGES, ROOT / "sql_examples" / "README.md"]:
        text = page.read_text().replace("\\\n", " ")
        for words, remainder in re.findall(r"(?:^|`|\$ )lakeward ([a-z-]+(?: [a-z]+)?)([^\n`|#]*)", text, re.MULTILINE):
            command = command_of(words.split())
            options = re.findall(r"(?<!\S)--[a-z][a-z0-9-]*(?![\w.-])", f"{words}{remainder}")
            if command is not None:
                known_options = {"--help", *(name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts))}
                shown |= {(command.name or "", option) for option in options}
                unknown |= {(page.name, command.name or "", option) for option in options if option not in known_options}
    assert len(shown) > 50
    assert unknown == set()
