"""Archives that were made to harm their reader: `verify.py` refuses them, without a traceback, and changes no file."""

from __future__ import annotations

import copy
import random
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.proofs.prover import Prover
from support.worlds.lake_world import LakeWorld
from tiering.model.tables import TableInfo
from tiering.validate.archive import verify
from tiering.validate.archive.sealing import sealed
from tiering.validate.archive.signing_key import SigningKey

SEED = 41
CHANGES = 120
"""Documents with a changed value, each signed and checked."""
ODD_VALUES = (
    None,
    [],
    {},
    "",
    "x",
    "\ud800\x1b[2J",
    "../../etc/passwd",
    "/dev/zero",
    "http://[",
    -1,
    10**400,
    1.5,
    True,
    [[]],
    [None],
    {"a": 1},
)


def signed_with(key: SigningKey, document: bytes, program: bytes | None = None) -> bytes:
    """Returns an archive with any document, and any program, which the key signed."""
    content = {verify.PROGRAM: program or Path(verify.__file__).read_bytes(), verify.DOCUMENT: document}
    members = {name: {"sha256": verify.hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in content.items()}
    manifest = verify.canonical_json({"format": verify.FORMAT, "members": members})
    signature = verify.canonical_json(verify.signature_of(key.public, key.sign(manifest)))
    return verify.canonical_zip({**content, verify.MANIFEST: manifest, verify.SIGNATURE: signature})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of each value in a document."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def changed(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Returns the document with another value at the path, or without a value if `value` is `deleted`."""
    other = copy.deepcopy(document)
    parent = other
    for key in path[:-1]:
        parent = parent[key]
    if value == "deleted":
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return other


def listed(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_value_in_a_signed_document_ends_in_another_error_than_a_problem_of_the_proof(
    prover: Prover, table: TableInfo, tmp_path: Path
) -> None:
    document = verify.json.loads(verify.canonical_json(prover.document(table)))
    drawn = random.Random(SEED)
    paths = list(places(document))
    ended = set()
    for path in drawn.sample(paths, CHANGES):
        archive = sealed(changed(document, path, drawn.choice((*ODD_VALUES, "deleted"))), prover.key)
        try:
            lines = list(verify.checked(prover.save(archive), Namespace(fingerprint=None, archive_only=False, files=None)))
            ended.add(lines[-1][0])
        except verify.ProofError:
            ended.add("refused")
        except OSError:
            ended.add("unreadable")
    assert ended >= {"refused", "verdict"}


@pytest.mark.parametrize("document", [b"", b"[" * 100_000, b"[]", b"null", b"{}", b"\xff", b'{"format": "lakeward-proof/1"}', b"1" * 5_000])
def test_a_document_of_another_form_is_refused(prover: Prover, table: TableInfo, document: bytes) -> None:
    status, printed = prover.verified(signed_with(prover.key, document))
    assert (status, "WRONG  proof.json does not have the form of lakeward-proof/1" in printed, "Traceback" in printed) == (1, True, False)


@pytest.mark.parametrize("member", [verify.MANIFEST, verify.SIGNATURE])
@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"[]", b'{"members": [], "public_key": 1}', b"\xff"])
def test_a_manifest_or_a_signature_of_another_form_is_refused(prover: Prover, table: TableInfo, member: str, content: bytes) -> None:
    archive = verify.canonical_zip({**verify.members_of(prover.archive(table)), member: content})
    status, printed = prover.verified(archive)
    assert (status, printed.startswith("WRONG"), "Traceback" in printed) == (1, True, False)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04", b"PK\x03\x04" + b"\xff" * 60, b"PK\x03\x04" * 10_000])
def test_a_file_that_is_no_archive_is_refused(prover: Prover, content: bytes) -> None:
    status, printed = prover.verified(content)
    assert (status, printed.startswith("WRONG"), "Traceback" in printed) == (1, True, False)


def test_a_file_that_is_too_large_is_not_read_to_its_end(prover: Prover) -> None:
    with open(prover.save(b""), "r+b") as file:
        file.truncate(verify.LARGEST_BYTES + 1)
    status, printed = prover.run("proof.zip")
    assert (status, "has more than 134217728 bytes" in printed) == (1, True)


@pytest.mark.parametrize("place", ["nothing.zip", "", "."])
def test_a_missing_archive_ends_in_a_message(prover: Prover, place: str) -> None:
    prover.save(b"")
    status, printed = prover.run(*([place] if place else []))
    assert (status, "Traceback" in printed, "nothing.zip" in printed or "name the archive" in printed) == (2, False, True)


def test_texts_of_an_archive_cannot_imitate_lines_of_the_program(prover: Prover, table: TableInfo) -> None:
    document = prover.document(table)
    hostile = "x\nok     verdict   the lake table sales.orders is equal to its log\x1b[2K\u202e"
    document["readers"].append({"reader": "other", "version": None, "rows": None, "note": hostile})
    document["table"]["path"] = hostile
    status, printed = prover.verified(sealed(document, prover.key))
    assert status == 0
    assert sum(line.startswith("ok     verdict ") for line in printed.splitlines()) == 1
    assert not {"\x1b", "\u202e"} & set(printed)


def test_modules_beside_the_program_are_not_imported(prover: Prover, table: TableInfo) -> None:
    archive = prover.save(prover.archive(table))
    for name in ("__future__", "argparse", "json", "duckdb", "zlib", "typing"):
        (prover.folder / f"{name}.py").write_text("raise SystemExit(f'{__name__} was imported')")
    status, printed = prover.run(str(archive), python=())
    assert status == 0, printed


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1 AS id) TO 'lakeward-file:0' (FORMAT parquet, USE_TMP_FILE false)",
        "SELECT 1; COPY (SELECT 1 AS id) TO 'lakeward-file:0' (FORMAT parquet, USE_TMP_FILE false)",
        "ATTACH 'lakeward-file:0' AS other",
        "EXPORT DATABASE 'lakeward-file:0'",
        "PRAGMA enable_profiling",
    ],
)
def test_statements_of_a_proof_do_no_more_than_read(
    world: LakeWorld, prover: Prover, table: TableInfo, tmp_path: Path, statement: str
) -> None:
    document = prover.document(table)
    document["sql"]["setup"].append([statement, {}])
    archive, before = sealed(document, prover.key), listed(tmp_path / "lake")
    status, printed = prover.verified(archive)
    assert listed(tmp_path / "lake") == before
    assert (status, "a statement of the proof does more than read the lake's files" in printed) == (1, True), printed


def test_the_name_of_a_file_adds_no_statement(prover: Prover, table: TableInfo, tmp_path: Path) -> None:
    document = prover.document(table)
    own, other = verify.paths_of(document, None)[:2]
    named = Path(f"{tmp_path}/a$$; COPY (SELECT 1 AS id) TO $b${other}$b$ (FORMAT parquet, USE_TMP_FILE false); SELECT $$.parquet")
    named.parent.mkdir(parents=True)
    Path(own).rename(named)
    document["files"][0]["location"] = str(named)
    document["sql"]["setup"].append(["SELECT $$'lakeward-file:0'$$", {}])
    before = Path(other).read_bytes()
    status, printed = prover.verified(sealed(document, prover.key))
    assert Path(other).read_bytes() == before
    assert (status, "a statement of the proof does more than read the lake's files" in printed) == (1, True), printed


def test_secrets_of_the_reader_are_not_replaced(prover: Prover, table: TableInfo) -> None:
    document = prover.document(table)
    document["sql"]["setup"].append(["CREATE PERSISTENT SECRET stolen (TYPE http, BEARER_TOKEN 'x')", {}])
    status, printed = prover.verified(sealed(document, prover.key))
    assert (status, "Persistent secrets are disabled" in printed) == (1, True), printed


@pytest.mark.parametrize("location", ["/dev/zero", "/proc/self/mem", "file:///etc", "\0", "http://["])
def test_a_file_of_a_proof_that_is_no_file_is_not_read(prover: Prover, table: TableInfo, location: str) -> None:
    document = prover.document(table)
    document["files"][0]["location"] = location
    status, printed = prover.verified(sealed(document, prover.key))
    assert (status, printed.splitlines()[-1].startswith("WRONG")) == (1, True), printed


def test_a_copy_is_searched_only_in_its_folder(prover: Prover, table: TableInfo, tmp_path: Path) -> None:
    document = prover.document(table)
    document["files"][0]["location"] = document["lake"]["location"] + "/../../../etc/passwd"
    status, printed = prover.verified(sealed(document, prover.key), "--files", str(tmp_path / "lake"))
    assert (status, "is not below the location of its table" in printed) == (1, True), printed


def test_a_check_writes_nothing_beside_the_archive(prover: Prover, table: TableInfo, tmp_path: Path) -> None:
    members = verify.members_of(prover.archive(table))
    for archive in (verify.canonical_zip(members), verify.canonical_zip({**members, "../verify.py": b"import os"})):
        prover.save(archive)
        before = listed(tmp_path)
        prover.run("proof.zip", python=())
        assert listed(tmp_path) == before


def test_another_program_in_the_archive_is_named(prover: Prover, table: TableInfo) -> None:
    content = verify.canonical_json(prover.document(table))
    status, printed = prover.verified(signed_with(prover.key, content, b"print('ok     verdict   all is well')"))
    assert (status, "note   verify.py of the archive is another program or version than this one" in printed) == (0, True), printed
    assert "is another program" not in prover.verified(signed_with(prover.key, content))[1]


def test_a_reader_without_duckdb_learns_what_to_install(prover: Prover, table: TableInfo) -> None:
    archive = prover.save(prover.archive(table))
    status, printed = prover.run(str(archive), python=("-I", "-S"))
    assert (status, "run `pip install duckdb`" in printed, "Traceback" in printed) == (2, True, False)
    assert prover.run(str(archive), "--archive-only", python=("-I", "-S"))[0] == 0


def test_a_proof_of_rows_without_files_is_refused(prover: Prover, table: TableInfo) -> None:
    document = prover.document(table)
    document["files"], document["chain"] = [], []
    for bucket in document["buckets"]:
        bucket["offsets_in_footers"] = False
    status, printed = prover.verified(sealed(document, prover.key))
    assert (status, "the proof has 60 rows, but no files" in printed) == (1, True), printed


def test_a_changed_byte_of_a_lake_file_is_found(world: LakeWorld, prover: Prover, table: TableInfo) -> None:
    archive, drawn = prover.save(prover.archive(table)), random.Random(SEED)
    for file in sorted(world.by_hand.data_files(table.path)):
        content = file.read_bytes()
        for place in (0, len(content) - 1, drawn.randrange(len(content))):
            file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            status, printed = prover.run(str(archive))
            assert (status, f"the file {file} was changed since the proof was made" in printed) == (1, True), printed
        file.write_bytes(content)
    assert prover.run(str(archive))[0] == 0
