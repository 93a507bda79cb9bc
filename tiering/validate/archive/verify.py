"""Checks again a proof of Lakeward that a lake table equals its log. It needs nothing of Lakeward.

    python verify.py PROOF.zip           checks the archive, and the lake's files at the paths that it names
    python verify.py                     the same in the folder into which the archive was unpacked
    python verify.py PROOF.zip --files DIR          the lake's files, or a copy of them, are below DIR
    python verify.py PROOF.zip --archive-only       checks the archive alone: no files, no DuckDB
    python verify.py PROOF.zip --fingerprint KEY    fails unless the key with this fingerprint signed it

It needs Python 3.11 or newer and, unless --archive-only is given, the package duckdb. It reads only the archive and the lake's Parquet
files, and changes no file. The exit status is 0 if everything holds, 1 if anything does not, and 2 if it cannot tell.

A signature shows who signed only if the fingerprint comes from elsewhere, such as from the service itself.
"""

import os
import sys

if __name__ == "__main__":  # A file beside this program, such as a json.py from an archive, does not replace a module of Python.
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != os.path.dirname(os.path.realpath(__file__))]

import argparse
import base64
import hashlib
import json
import re
import struct
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

FORMAT = "lakeward-proof/1"
PROGRAM, DOCUMENT, MANIFEST, SIGNATURE = MEMBERS = ("verify.py", "proof.json", "manifest.json", "signature.json")
"""The members of an archive, in order. The manifest has the checksums of the first two; the signature is that of the manifest."""
EQUAL, PARTLY, DIFFERS = "equal", "partly", "differs"
"""Verdicts. `partly`: no difference was found, but not all rows could be compared, for a reason that the proof gives."""
TOKEN = "lakeward-file:"
"""Beginning of the text that stands for the path of a file in the statements of a proof."""
MODULUS = 1 << 64
LARGEST_BYTES = 128 << 20
"""Largest archive. An answer of the service has it as text, a third longer, and its clients refuse answers above 256 MiB."""
NOTE = "note"

Document = Mapping[str, Any]


class ProofError(Exception):
    """The archive or the proof is not what was signed, or does not hold."""


@contextmanager
def parsed(name: str) -> Iterator[None]:
    """Raises ProofError if the block meets a value that a proof does not have there."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ProofError(f"{name} does not have the form of {FORMAT}: {type(error).__name__}: {error}") from error


def canonical_json(value: object) -> bytes:
    """Returns JSON in the only form that an archive may have for a value."""
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode("ascii")


def canonical_zip(members: Mapping[str, bytes]) -> bytes:
    """Returns the only ZIP archive that there may be of these members: uncompressed, without times, comments or other fields."""
    parts: list[bytes] = []
    directory: list[bytes] = []
    position = 0
    for name, content in members.items():
        raw = name.encode("ascii")
        common = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 0x21, zlib.crc32(content), len(content), len(content), len(raw), 0)
        directory.append(b"PK\x01\x02\x14\x03" + common + struct.pack("<HHHII", 0, 0, 0, 0o100644 << 16, position) + raw)
        parts += [b"PK\x03\x04" + common + raw, content]
        position += 30 + len(raw) + len(content)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, len(directory), len(directory), sum(map(len, directory)), position, 0)
    return b"".join([*parts, *directory, end])


def members_of(archive: bytes) -> dict[str, bytes]:
    """Returns the members of an archive. Raises ProofError unless it is the canonical archive of exactly these members."""
    members: dict[str, bytes] = {}
    position = 0
    try:
        while archive[position : position + 4] == b"PK\x03\x04":
            size, length = struct.unpack_from("<I4xH", archive, position + 18)
            begin = position + 30 + length
            members[archive[position + 30 : begin].decode("ascii")] = archive[begin : begin + size]
            position = begin + size
    except (struct.error, UnicodeDecodeError) as error:
        raise ProofError(f"the file is not an archive of a proof: {error}") from error
    if tuple(members) != MEMBERS:
        raise ProofError(f"an archive has the members {', '.join(MEMBERS)} in this order, and this file has {', '.join(members) or 'none'}")
    if canonical_zip(members) != archive:
        raise ProofError("bytes of the archive outside of its members were changed or added")
    return members


def check_members(members: Mapping[str, bytes]) -> tuple[Document, str]:
    """Returns the proof and the fingerprint of the key that signed it. Raises ProofError if a byte of a member was changed."""
    with parsed(SIGNATURE):
        signature = json.loads(members[SIGNATURE])
        key, signed = bytes.fromhex(signature["public_key"]), bytes.fromhex(signature["signature"])
    if members[SIGNATURE] != canonical_json(signature_of(key, signed)) or not is_signed(key, members[MANIFEST], signed):
        raise ProofError(f"{SIGNATURE} is not the signature of {MANIFEST}")
    with parsed(MANIFEST):
        listed = {name: (entry["sha256"], entry["bytes"]) for name, entry in json.loads(members[MANIFEST])["members"].items()}
    for name in (PROGRAM, DOCUMENT):
        if listed.get(name) != (hashlib.sha256(members[name]).hexdigest(), len(members[name])):
            raise ProofError(f"{name} is not the file that was signed")
    with parsed(DOCUMENT):
        document = json.loads(members[DOCUMENT])
        if document["format"] != FORMAT:
            raise ProofError(f"the format of the proof is {document['format']!r}, and this program checks {FORMAT!r}")
    return document, fingerprint_of(key)


def signature_of(public_key: bytes, signature: bytes) -> dict[str, str]:
    """Returns the content of the signature's member."""
    return {"algorithm": "Ed25519", "fingerprint": fingerprint_of(public_key), "public_key": public_key.hex(), "signature": signature.hex()}


def fingerprint_of(public_key: bytes) -> str:
    """Returns the short name of a key: `SHA256:` and base64 of the SHA-256 of its 32 bytes."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_key).digest()).decode("ascii").rstrip("=")


# Ed25519 (RFC 8032, section 5.1), in Python alone

_PRIME = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
_ROOT = pow(2, (_PRIME - 1) // 4, _PRIME)
_BASE_POINT = b"\x58" + b"\x66" * 31


def _decoded(encoded: bytes) -> Any:
    number = int.from_bytes(encoded, "little")
    y, sign = number & ((1 << 255) - 1), number >> 255
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _PRIME) % _PRIME
    x = pow(square, (_PRIME + 3) // 8, _PRIME)
    if (x * x - square) % _PRIME:
        x = x * _ROOT % _PRIME
    if (x * x - square) % _PRIME or (x == 0 and sign) or y >= _PRIME:
        return None
    x = _PRIME - x if x & 1 != sign else x
    return x, y, 1, x * y % _PRIME


def _added(p: Any, q: Any) -> Any:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % _PRIME, (p[1] + p[0]) * (q[1] + q[0]) % _PRIME
    c, d = 2 * p[3] * q[3] * _D % _PRIME, 2 * p[2] * q[2] % _PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _PRIME, g * h % _PRIME, f * g % _PRIME, e * h % _PRIME


def _times(number: int, point: Any) -> Any:
    if not number:
        return 0, 1, 1, 0
    doubled = _times(number >> 1, _added(point, point))
    return _added(point, doubled) if number & 1 else doubled


def is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Returns whether `signature` is the Ed25519 signature of `message` by this key. Accepts no second form of a signature."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    key, point, scalar = _decoded(public_key), _decoded(signature[:32]), int.from_bytes(signature[32:], "little")
    if key is None or point is None or scalar >= _ORDER:
        return False
    hashed = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % _ORDER
    left, right = _times(scalar, _decoded(_BASE_POINT)), _added(point, _times(hashed, key))
    return all((left[i] * right[2] - right[i] * left[2]) % _PRIME == 0 for i in (0, 1))


def totals_of(members: Sequence[Mapping[str, Any]], is_whole: bool, totals: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Returns the rows and the checksum that the lake has of these buckets. `is_whole`: all rows of their partition are theirs."""
    places = {(bucket["partition"], bucket["bucket_id"]) for bucket in members}
    partitions = {bucket["partition"] for bucket in members}
    own = [row for row in totals if (row[0], row[1]) in places or (is_whole and row[0] in partitions)]
    return {"rows": sum(row[2] for row in own), "checksum": f"{sum(int(row[3], 16) for row in own) % MODULUS:016x}"}


def verdict_of(scope: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]) -> str:
    """Returns the verdict on a scope: the service's checks of it, then the log's rows against those of the lake."""
    names = {"table", scope["scope"], *scope["buckets"]}
    answers = [check["ok"] for check in checks if check["scope"] in names]
    part = scope["part"]
    if False in answers or (part is not None and part["log"] != part["lake"]):
        return DIFFERS
    if scope["log"] is None:
        return PARTLY
    if scope["log"] == scope["lake"]:
        return PARTLY if any(check["ok"] is None for check in checks if check["scope"] in names - {"table"}) else EQUAL
    return PARTLY if None in answers else DIFFERS


def overall(document: Document) -> str:
    """Returns the verdict on the table: the worst of its scopes and checks, and of what readers counted."""
    verdicts = {scope["verdict"] for scope in document["scopes"]}
    if DIFFERS in verdicts or any(check["ok"] is False for check in document["checks"]) or wrong_reader(document) is not None:
        return DIFFERS
    return PARTLY if PARTLY in verdicts or rows_outside(document) else EQUAL


def wrong_reader(document: Document) -> str | None:
    """Returns which reader counted another number of rows than DuckDB; None if all counted the same."""
    rows = document["stored_rows"]
    wrong = [reader for reader in document["readers"] if reader["rows"] not in (None, rows)]
    return f"{wrong[0]['reader']} counted {wrong[0]['rows']} rows, and the files have {rows}" if wrong else None


def rows_outside(document: Document) -> int:
    """Returns how many rows of the lake belong to no scope: those of partitions that were dropped."""
    return int(sum(row[2] for row in document["totals"]) - sum(scope["lake"]["rows"] for scope in document["scopes"]))


def reason_of(document: Document) -> str | None:
    """Returns the first difference, or why not all rows could be compared; None if all rows are equal."""
    wrong = [check for check in document["checks"] if check["ok"] is False]
    if document["verdict"] == DIFFERS:
        if wrong:
            return f"{wrong[0]['check']} of {wrong[0]['scope']}: {wrong[0]['details']}"
        names = ", ".join(scope["scope"] for scope in document["scopes"] if scope["verdict"] == DIFFERS)
        return f"other rows than in the log: {names}" if names else wrong_reader(document)
    reasons = [scope["why_not_compared"] for scope in document["scopes"] if scope["why_not_compared"] is not None]
    reasons += [check["details"] for check in document["checks"] if check["ok"] is None]
    if rows := rows_outside(document):
        reasons.append(f"{rows} rows belong to partitions that were dropped")
    return reasons[0] if reasons and document["verdict"] == PARTLY else None


def check_verdicts(document: Document) -> str:
    """Checks that the verdicts follow from the numbers of the proof. Returns what was checked."""
    buckets = {bucket["bucket"]: bucket for bucket in document["buckets"]}
    for scope in document["scopes"]:
        members = [buckets[name] for name in scope["buckets"]]
        if scope["lake"] != totals_of(members, scope["is_whole_partition"], document["totals"]):
            raise ProofError(f"the rows of the scope {scope['scope']} are not the sum of those of its buckets")
        if scope["verdict"] != verdict_of(scope, document["checks"]):
            raise ProofError(f"the verdict on the scope {scope['scope']} does not follow from the checks")
    if document["verdict"] != overall(document):
        raise ProofError("the verdict on the table does not follow from those on its buckets, and from what readers counted")
    if document["verdict"] == DIFFERS:
        raise ProofError(f"the service found a difference: {reason_of(document)}")
    return f"{len(document['scopes'])} scopes: {document['verdict']}"


def check_chain(document: Document) -> str:
    """Checks that each round's marker continues the chain of digests of the round before it. Returns what was checked."""
    markers = {marker["round_id"]: marker for marker in document["chain"]}
    for marker in document["chain"]:
        base = marker["base_round_id"]
        if base is not None and base not in markers:
            continue  # the snapshot of that round expired
        before = {} if base is None else markers[base]["proofs"]
        others = [other["proofs"] for other in [*document["chain"], *document["former_rounds"]] if other is not marker]
        for bucket, proof in marker["proofs"].items():
            since, rows, checksum, chain, empty = proof
            if bucket not in marker["ends"] or proof == before.get(bucket) or any(other.get(bucket) == proof for other in others):
                continue
            former = before[bucket][3] if bucket in before and before[bucket][0] == since else ""
            text = f"{former}|{marker['round_id']}|{marker['ends'][bucket]}|{rows}|{checksum}|{empty}"
            if hashlib.sha256(text.encode("ascii")).hexdigest()[:32] != chain:
                raise ProofError(f"the marker of round {marker['round_id']} does not continue that of round {base} in bucket {bucket}")
    return f"{len(document['chain'])} rounds"


def check_cover(document: Document) -> str:
    """Checks that the footers name each tiered offset exactly once. Returns what was checked."""
    newest = document["chain"][0]["proofs"] if document["chain"] else {}
    buckets = [bucket for bucket in document["buckets"] if bucket["offsets_in_footers"]]
    for bucket in buckets:
        files = [file for file in document["files"] if file["written_for"] == bucket["id"]]
        reached = bucket["start"]
        for start, stop in sorted([run for file in files for run in file["offsets"]] + bucket["offsets_without_rows"]):
            if start != reached:
                fault = f"two files have the offset {start}" if start < reached else f"no file has the offset {reached}"
                raise ProofError(f"bucket {bucket['bucket']}: {fault}")
            reached = stop
        if reached != bucket["tiered"]:
            raise ProofError(f"bucket {bucket['bucket']}: no file has the offset {reached}, or one has an offset behind the marker")
        proof = newest.get(bucket["id"])
        if proof is not None and proof[0] == bucket["start"]:
            footers = [file["footer"] for file in files]
            sums = sum(int(footer.get("lakeward.folded", footer["lakeward.checksum"])[3:], 16) for footer in footers) % MODULUS
            if (sum(int(footer["lakeward.rows"]) for footer in footers), f"{sums:016x}") != (proof[1], proof[2]):
                raise ProofError(f"the files of bucket {bucket['bucket']} do not add up to the rows and the checksum of the marker")
    return f"{len(buckets)} buckets, each offset once" if buckets else "the table has no offsets in footers"


# The lake's files


def paths_of(document: Document, folder: Path | None) -> list[str]:
    """Returns where each file of the proof is on this machine. Raises ProofError."""
    locations = [file["location"] for file in document["files"]]
    elsewhere = [location for location in locations if urlparse(location).scheme not in ("", "file")]
    if folder is None and elsewhere:
        raise ProofError(f"the file {elsewhere[0]} is not on this machine: name a folder with a copy of the lake's files with --files")
    if folder is None:
        return [unquote(urlparse(location).path) if location.startswith("file:") else location for location in locations]
    by_name = {path.name: path for path in sorted(folder.rglob("*"), reverse=True) if path.is_file()}
    return [_path_in_copy(location, document["lake"]["location"], folder, by_name) for location in locations]


def _path_in_copy(location: str, table: str | None, folder: Path, by_name: Mapping[str, Path]) -> str:
    """Returns the place of a file in a folder: below the table's location if it is there, or else the file of its name."""
    inside, name = location[len(table) :].lstrip("/") if table and location.startswith(table) else "", location.rpartition("/")[2]
    if ".." in (name, *inside.split("/")):
        raise ProofError(f"the file {location} is not below the location of its table")
    path = folder / (inside or name)
    return str(path if path.is_file() else by_name.get(name, path))


def check_files(document: Document, paths: Sequence[str]) -> str:
    """Checks that all files are there, byte for byte. Returns what was checked."""
    twice = [location for location, count in Counter(file["location"] for file in document["files"]).items() if count > 1]
    if twice:
        raise ProofError(f"the snapshot has the file {twice[0]} twice")
    for file, path in zip(document["files"], paths, strict=True):
        if not os.path.isfile(path):
            raise ProofError(f"the file {path} is not there: --files DIR names a folder with a copy of the lake's files")
        with open(path, "rb") as content:
            if os.path.getsize(path) != file["bytes"] or hashlib.file_digest(content, "sha256").hexdigest() != file["sha256"]:
                raise ProofError(f"the file {path} was changed since the proof was made")
    return f"{len(paths)} files, {sum(file['bytes'] for file in document['files'])} bytes"


def check_rows(document: Document, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Reads the lake's rows with DuckDB again, and yields what was checked. Raises ProofError."""
    if not paths:
        if document["stored_rows"]:
            raise ProofError(f"the proof has {document['stored_rows']} rows, but no files")
        yield "rows", "the lake has no files"
        return
    import duckdb

    harmless = {duckdb.StatementType.SELECT, duckdb.StatementType.CREATE, duckdb.StatementType.INSERT}
    with tempfile.TemporaryDirectory() as spilled, duckdb.connect() as connection:
        lock(connection, paths, spilled)

        def run(sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
            statement = with_paths(sql, paths)  # the name of a file may end a text of the statement, too
            if not {part.type for part in connection.extract_statements(statement)} <= harmless:
                raise ProofError(f"a statement of the proof does more than read the lake's files: {sql}")
            return connection.execute(statement, with_paths(dict(parameters or {}), paths)).fetchall()

        try:
            yield "footers", _compare_footers(document, paths, run)
            for sql, parameters in document["sql"]["setup"]:
                run(sql, parameters)
            yield "rows", _compare_rows(document, run)
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise ProofError(f"DuckDB {duckdb.__version__} cannot read the lake's files: {reason}") from error


def lock(connection: Any, paths: Sequence[str], spilled: str) -> None:
    """Limits the connection to these files and a folder for what does not fit into memory: the statements come from the archive."""
    connection.execute("SET temp_directory = $folder", {"folder": spilled})
    connection.execute("SET allowed_paths = $paths", {"paths": sorted(set(paths))})
    off = ["python_enable_replacements", "autoinstall_known_extensions", "autoload_known_extensions", "allow_persistent_secrets"]
    off += ["preserve_insertion_order", "enable_external_access"]
    connection.execute(";".join(["SET TimeZone = 'UTC'", *(f"SET {name} = false" for name in off), "SET lock_configuration = true"]))


def with_paths(value: Any, paths: Sequence[str]) -> Any:
    """Returns a statement or its parameters with the paths of files in the place of TOKEN and their numbers."""
    places = {f"{TOKEN}{number}": path for number, path in enumerate(paths)}
    return replaced(value, lambda text: places.get(text, text))


def replaced(value: Any, new: Callable[[str], str], *, is_sql: bool = True) -> Any:
    """Returns `value` with other texts: a statement with other literals, or parameters with other values."""
    if isinstance(value, dict):
        return {name: replaced(item, new, is_sql=False) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [replaced(item, new, is_sql=False) for item in value]
    if not isinstance(value, str):
        return value
    if not is_sql:
        return new(value)

    def literal(text: str) -> str:
        return "'" + new(text.replace("''", "'")).replace("'", "''") + "'"

    # A name in double quotes may have a quote of a literal in it.
    return re.sub(r"""("(?:[^"]|"")*")|'((?:[^']|'')*)'""", lambda match: match[1] or literal(match[2]), value)


def _compare_footers(document: Document, paths: Sequence[str], run: Callable[..., Any]) -> str:
    stored: dict[str, dict[str, str]] = {}
    sql = "SELECT file_name, decode(key), decode(value) FROM parquet_kv_metadata($paths) WHERE decode(key) LIKE 'lakeward.%'"
    for path, key, value in run(sql, {"paths": list(paths)}):
        stored.setdefault(path, {})[key] = value
    for file, path in zip(document["files"], paths, strict=True):
        if stored.get(path, {}) != file["footer"]:
            raise ProofError(f"the footer of the file {path} is not the one of the proof")
    return f"{len(stored)} files have a footer of Lakeward"


def _compare_rows(document: Document, run: Callable[..., Any]) -> str:
    import duckdb

    used, own = document["versions"]["duckdb"], duckdb.__version__
    hint = "" if used == own else f" (DuckDB {used} made the proof, and this is {own}: try that version)"
    totals = [[place, bucket, rows, f"{int(checksum) % MODULUS:016x}"] for place, bucket, rows, checksum in run(document["sql"]["totals"])]
    if sorted(totals, key=repr) != sorted(document["totals"], key=repr):
        raise ProofError(f"the lake's rows are not those of the proof{hint}")
    for scope in document["scopes"]:
        if scope["part"] is not None:
            [(rows, checksum)] = run(scope["part"]["sql"], scope["part"]["parameters"])
            if scope["part"]["lake"] != {"rows": rows, "checksum": f"{int(checksum) % MODULUS:016x}"}:
                raise ProofError(f"the rows of the scope {scope['scope']} that the log has are not those of the proof{hint}")
    [(stored,)] = run(document["sql"]["stored_rows"])
    if stored != document["stored_rows"]:
        raise ProofError(f"the lake has {stored} rows, and the proof {document['stored_rows']}{hint}")
    return f"{stored} rows, with the checksums of the proof"


def read_members(source: Path) -> dict[str, bytes]:
    """Returns the members of an archive, or of the folder into which it was unpacked. Raises ProofError, OSError."""
    return {name: _read(source / name) for name in MEMBERS} if source.is_dir() else members_of(_read(source))


def _read(file: Path) -> bytes:
    with open(file, "rb") as stream:
        content = stream.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise ProofError(f"the file {file} has more than {LARGEST_BYTES} bytes, the most that an archive may have")
    return content


def checked(source: Path, arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yields the name of each check, and what it checked. Raises ProofError, OSError, ImportError."""
    members = read_members(source)
    document, fingerprint = check_members(members)
    if arguments.fingerprint not in (None, fingerprint, fingerprint.removeprefix("SHA256:")):
        raise ProofError(f"the key {fingerprint} signed the archive, and not {arguments.fingerprint}")
    with parsed(DOCUMENT):
        table = document["table"]["path"]
        yield "archive", f"{table}, lake snapshot {document['lake']['snapshot_id']}, proved at {document['made_at']}"
        yield "signature", f"by the key {fingerprint}" + ("" if arguments.fingerprint else " (compare it with that of the service)")
        if members[PROGRAM] != Path(__file__).read_bytes():
            yield NOTE, f"{PROGRAM} of the archive is another program or version than this one, which checks the archive"
        yield "verdicts", check_verdicts(document)
        yield "chain", check_chain(document)
        yield "offsets", check_cover(document)
        for reader in document["readers"]:
            name = " ".join(filter(None, (reader["reader"], reader["version"])))
            yield (NOTE, f"{name}: {reader['note']}") if reader["rows"] is None else ("reader", f"{name}: {reader['rows']}")
        if arguments.archive_only:
            yield NOTE, "the lake's files were not read"
        else:
            paths = paths_of(document, arguments.files)
            yield "files", check_files(document, paths)
            yield from check_rows(document, paths)
        is_equal = document["verdict"] == EQUAL
        yield "verdict", f"the lake table {table} is equal to its log" if is_equal else f"{PARTLY} compared: {reason_of(document)}"


def printable(value: object) -> str:
    """Returns a text of one line. Control characters of a hostile archive could hide or imitate lines on a terminal."""
    text = str(value) if len(str(value)) <= 500 else f"{str(value)[:500]} ..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def main() -> int:
    """Runs the command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", nargs="?", help="the archive, or the folder with its members")
    parser.add_argument("--files", type=Path, metavar="DIR", help="folder with the lake's files")
    parser.add_argument("--archive-only", action="store_true", help="check the archive alone")
    parser.add_argument("--fingerprint", metavar="SHA256:...", help="fingerprint of the key that must have signed it")
    arguments = parser.parse_args()
    source = Path(arguments.archive or Path(__file__).parent)
    if source.is_dir() and not (source / DOCUMENT).exists():
        parser.error(f"name the archive: the folder {source} has no {DOCUMENT}")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        for name, text in checked(source, arguments):
            print(f"note   {printable(text)}" if name == NOTE else f"ok     {name:<10}{printable(text)}")
    except ProofError as error:
        print(f"WRONG  {printable(error)}")
        return 1
    except (Exception, KeyboardInterrupt) as error:
        hint = ": run `pip install duckdb`, or check the archive alone with --archive-only" if isinstance(error, ImportError) else ""
        print(f"ERROR  {type(error).__name__}: {printable(error)}{hint}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
