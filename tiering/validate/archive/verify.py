"""Checks again a proof of Lakeward that a lake table equals its log. It needs nothing of Lakeward.

    python verify.py PROOF.zip           checks the archive, and the lake's files at the paths that it names
    python verify.py                     the same in the folder into which the archive was unpacked
    python verify.py PROOF.zip --files DIR          the lake's files, or a copy of them, are below DIR
    python verify.py PROOF.zip --archive-only       checks the archive alone: no files, no DuckDB
    python verify.py PROOF.zip --fingerprint KEY    fails unless the key with this fingerprint signed it

It needs Python 3.10 or newer and, unless --archive-only is given, the package duckdb. It reads only the archive and the lake's Parquet
files, and writes nothing. The exit status is 0 if everything holds, 1 if anything does not, and 2 if it cannot tell.

A signature shows who signed only if the fingerprint comes from elsewhere, such as from the service itself.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
READ_BYTES = 1 << 20

Document = Mapping[str, Any]


class ProofError(Exception):
    """The archive or the proof is not what was signed, or does not hold."""


# The archive


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
    size = sum(map(len, directory))
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, len(directory), len(directory), size, position, 0)
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
        raise ProofError(f"it is not an archive of a proof: {error}") from error
    if tuple(members) != MEMBERS:
        raise ProofError(f"its members are {', '.join(members) or 'none'}, and not {', '.join(MEMBERS)}")
    if canonical_zip(members) != archive:
        raise ProofError("bytes outside of its members were changed or added")
    return members


def check_members(members: Mapping[str, bytes]) -> tuple[Document, str]:
    """Returns the proof and the fingerprint of the key that signed it. Raises ProofError if a byte of a member was changed."""
    try:
        manifest, signature = (json.loads(members[name]) for name in (MANIFEST, SIGNATURE))
        listed = {name: (entry["sha256"], entry["bytes"]) for name, entry in manifest["members"].items()}
        key, signed = bytes.fromhex(signature["public_key"]), bytes.fromhex(signature["signature"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProofError(f"{MANIFEST} or {SIGNATURE} cannot be read: {error!r}") from error
    if members[SIGNATURE] != canonical_json(signature_of(key, signed)) or not is_signed(key, members[MANIFEST], signed):
        raise ProofError(f"{SIGNATURE} is not the signature of {MANIFEST}")
    for name in (PROGRAM, DOCUMENT):
        if listed.get(name) != (hashlib.sha256(members[name]).hexdigest(), len(members[name])):
            raise ProofError(f"{name} is not the file that was signed")
    document = json.loads(members[DOCUMENT])
    if manifest["format"] != FORMAT or document["format"] != FORMAT:
        raise ProofError(f"its format is {document['format']!r}, and this program checks {FORMAT!r}")
    return document, fingerprint_of(key)


def manifest_of(members: Mapping[str, bytes]) -> dict[str, object]:
    """Returns the content of the manifest for these members."""
    return {
        "format": FORMAT,
        "members": {name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)} for name, content in members.items()},
    }


def signature_of(public_key: bytes, signature: bytes) -> dict[str, str]:
    """Returns the content of the signature's member."""
    return {
        "algorithm": "Ed25519",
        "fingerprint": fingerprint_of(public_key),
        "public_key": public_key.hex(),
        "signature": signature.hex(),
    }


def fingerprint_of(public_key: bytes) -> str:
    """Returns the short name of a key: `SHA256:` and base64 of the SHA-256 of its 32 bytes."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_key).digest()).decode("ascii").rstrip("=")


# Ed25519 (RFC 8032, section 5.1), in Python alone

_PRIME = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
_ROOT = pow(2, (_PRIME - 1) // 4, _PRIME)


def _recovered_x(y: int, sign: int) -> int | None:
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _PRIME) % _PRIME
    x = pow(square, (_PRIME + 3) // 8, _PRIME)
    if (x * x - square) % _PRIME:
        x = x * _ROOT % _PRIME
    if (x * x - square) % _PRIME or (x == 0 and sign):
        return None
    return _PRIME - x if x & 1 != sign else x


def _decoded(encoded: bytes) -> Any:
    y = int.from_bytes(encoded, "little")
    y, sign = y & ((1 << 255) - 1), y >> 255
    x = _recovered_x(y, sign) if y < _PRIME else None
    return None if x is None else (x, y, 1, x * y % _PRIME)


def _added(p: Any, q: Any) -> Any:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % _PRIME, (p[1] + p[0]) * (q[1] + q[0]) % _PRIME
    c, d = 2 * p[3] * q[3] * _D % _PRIME, 2 * p[2] * q[2] % _PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _PRIME, g * h % _PRIME, f * g % _PRIME, e * h % _PRIME


def _times(number: int, point: Any) -> Any:
    total: Any = (0, 1, 1, 0)
    while number:
        if number & 1:
            total = _added(total, point)
        point = _added(point, point)
        number >>= 1
    return total


def is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Returns whether `signature` is the Ed25519 signature of `message` by this key. Accepts no second form of a signature."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    key, point, scalar = _decoded(public_key), _decoded(signature[:32]), int.from_bytes(signature[32:], "little")
    if key is None or point is None or scalar >= _ORDER:
        return False
    hashed = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % _ORDER
    y = 4 * pow(5, -1, _PRIME) % _PRIME
    x = _recovered_x(y, 0)
    assert x is not None
    left, right = _times(scalar, (x, y, 1, x * y % _PRIME)), _added(point, _times(hashed, key))
    return all((left[i] * right[2] - right[i] * left[2]) % _PRIME == 0 for i in (0, 1))


# The proof, without the lake's files


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


def overall(scopes: Sequence[Mapping[str, Any]], checks: Sequence[Mapping[str, Any]]) -> str:
    """Returns the verdict on the table: the worst of its scopes and checks."""
    verdicts = {scope["verdict"] for scope in scopes}
    if DIFFERS in verdicts or not verdicts or any(check["ok"] is False for check in checks):
        return DIFFERS
    return PARTLY if PARTLY in verdicts else EQUAL


def reason_of(document: Document) -> str | None:
    """Returns the first difference, or why not all rows could be compared; None if all rows are equal."""
    if document["verdict"] == EQUAL:
        return None
    wrong = [check for check in document["checks"] if check["ok"] is False]
    if document["verdict"] == DIFFERS:
        names = ", ".join(scope["scope"] for scope in document["scopes"] if scope["verdict"] == DIFFERS)
        return f"{wrong[0]['check']} of {wrong[0]['scope']}: {wrong[0]['details']}" if wrong else f"other rows than in the log: {names}"
    reasons = [scope["why_not_compared"] for scope in document["scopes"] if scope["why_not_compared"] is not None]
    reasons += [check["details"] for check in document["checks"] if check["ok"] is None]
    return reasons[0] if reasons else None


def check_verdicts(document: Document) -> str:
    """Checks that the verdicts follow from the numbers of the proof. Returns what was checked."""
    buckets = {bucket["bucket"]: bucket for bucket in document["buckets"]}
    for scope in document["scopes"]:
        members = [buckets[name] for name in scope["buckets"]]
        if scope["lake"] != totals_of(members, scope["is_whole_partition"], document["totals"]):
            raise ProofError(f"the rows of the scope {scope['scope']} are not the sum of those of its buckets")
        if scope["verdict"] != verdict_of(scope, document["checks"]):
            raise ProofError(f"the verdict on the scope {scope['scope']} does not follow from the checks")
    if document["verdict"] != overall(document["scopes"], document["checks"]):
        raise ProofError("the verdict on the table does not follow from those on its buckets")
    wrong = [reader for reader in document["readers"] if reader["rows"] not in (None, document["stored_rows"])]
    if wrong:
        raise ProofError(f"{wrong[0]['reader']} counted {wrong[0]['rows']} rows, and the files have {document['stored_rows']}")
    if document["verdict"] == DIFFERS:
        raise ProofError(f"the service found a difference: {reason_of(document)}")
    return f"{len(document['scopes'])} scopes: {document['verdict']}"


def check_chain(document: Document) -> str:
    """Checks that each round's marker continues the chain of digests of the round before it. Returns what was checked."""
    markers = {marker["round_id"]: marker for marker in document["chain"]}
    for marker in document["chain"]:
        base = marker["base_round_id"]
        if base is not None and base not in markers:
            continue  # its snapshot had expired
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
            sums = sum(int(footer.get("lakeward.folded", footer["lakeward.checksum"])[3:], 16) for footer in _footers(files)) % MODULUS
            if (sum(int(footer["lakeward.rows"]) for footer in _footers(files)), f"{sums:016x}") != (proof[1], proof[2]):
                raise ProofError(f"bucket {bucket['bucket']}: its files do not add up to the rows and the checksum of the marker")
    return f"{len(buckets)} buckets, each offset once" if buckets else "the table has no offsets in footers"


def _footers(files: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, str]]:
    yield from (file["footer"] for file in files)


# The lake's files


def paths_of(document: Document, folder: Path | None) -> list[str]:
    """Returns where each file of the proof is on this machine. Raises ProofError."""
    locations = [file["location"] for file in document["files"]]
    if folder is None:
        return [str(_path_here(location)) for location in locations]
    copies = [_path_in_copy(location, document["lake"]["location"] or "", folder) for location in locations]
    if all(path.is_file() for path in copies):
        return [str(path) for path in copies]
    by_name: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            by_name.setdefault(path.name, path)
    return [str(path if path.is_file() else by_name.get(path.name, path)) for path in copies]


def _path_here(location: str) -> Path:
    if urlparse(location).scheme not in ("", "file"):
        raise ProofError(f"the file {location} is not on this machine: name a folder with a copy of the lake's files with --files")
    return Path(unquote(urlparse(location).path) if location.startswith("file:") else location)


def _path_in_copy(location: str, table: str, folder: Path) -> Path:
    """Returns the place of a file below the table's location if it is there, or else directly in the folder; the first if in neither."""
    inside = location[len(table) :].lstrip("/") if table and location.startswith(table) else ""
    candidates = [*([folder / inside] if inside else []), folder / location.rpartition("/")[2]]
    return next((path for path in candidates if path.is_file()), candidates[0])


def check_files(document: Document, paths: Sequence[str]) -> str:
    """Checks that all files are there, byte for byte. Returns what was checked."""
    twice = [location for location, count in Counter(file["location"] for file in document["files"]).items() if count > 1]
    if twice:
        raise ProofError(f"the snapshot has the file {twice[0]} twice")
    size = 0
    for file, path in zip(document["files"], paths, strict=True):
        digest = hashlib.sha256()
        try:
            with open(path, "rb") as content:
                for piece in iter(lambda: content.read(READ_BYTES), b""):
                    digest.update(piece)
                    size += len(piece)
        except OSError as error:
            raise ProofError(f"the file {path} cannot be read: {error.strerror or error}") from error
        if digest.hexdigest() != file["sha256"]:
            raise ProofError(f"the file {path} was changed since the proof was made")
    return f"{len(paths)} files, {size} bytes"


def check_rows(document: Document, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Reads the lake's rows with DuckDB again, and yields what was checked. Raises ProofError."""
    import duckdb

    if not paths:
        yield "rows", "the lake has no files"
        return
    with tempfile.TemporaryDirectory() as spilled, duckdb.connect() as connection:
        lock(connection, paths, spilled)

        def run(sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
            return connection.execute(with_paths(sql, paths), with_paths(dict(parameters or {}), paths)).fetchall()

        try:
            yield "footers", _compare_footers(document, paths, run)
            for sql, parameters in document["sql"]["setup"]:
                run(sql, parameters)
            yield "rows", _compare_rows(document, run)
        except duckdb.Error as error:
            raise ProofError(f"DuckDB {duckdb.__version__} cannot read the lake's files: {error}") from error


def lock(connection: Any, paths: Sequence[str], spilled: str) -> None:
    """Limits the connection to these files and a folder for what does not fit into memory: the statements come from the archive."""
    connection.execute("SET temp_directory = $folder", {"folder": spilled})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET allowed_paths = $paths", {"paths": sorted(set(paths))})
    for name in ("python_enable_replacements", "autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"):
        connection.execute(f"SET {name} = false")
    connection.execute("SET lock_configuration = true")


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
    # A name in double quotes may have a quote of a literal in it.
    return re.sub(r"""("(?:[^"]|"")*")|'((?:[^']|'')*)'""", lambda match: match[1] or _literal(new(match[2].replace("''", "'"))), value)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


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


# The command


def checked(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yields the name of each check, and what it checked. Raises ProofError, OSError."""
    source = Path(__file__).parent if arguments.archive is None else Path(arguments.archive)
    is_folder = source.is_dir()
    members = {name: (source / name).read_bytes() for name in MEMBERS} if is_folder else members_of(source.read_bytes())
    document, fingerprint = check_members(members)
    table = document["table"]["path"]
    yield "archive", f"{table}, lake snapshot {document['lake']['snapshot_id']}, proved at {document['made_at']}"
    if arguments.fingerprint not in (None, fingerprint):
        raise ProofError(f"the key {fingerprint} signed it, and not {arguments.fingerprint}")
    yield "signature", f"by the key {fingerprint}" + ("" if arguments.fingerprint else " (compare it with that of the service)")
    yield "verdicts", check_verdicts(document)
    yield "chain", check_chain(document)
    yield "offsets", check_cover(document)
    for reader in document["readers"]:
        yield "reader", f"{reader['reader']} {reader['version'] or ''}: {reader['rows'] if reader['rows'] is not None else reader['note']}"
    if not arguments.archive_only:
        paths = paths_of(document, arguments.files)
        yield "files", check_files(document, paths)
        yield from check_rows(document, paths)
    is_equal = document["verdict"] == EQUAL
    yield "verdict", f"the lake table {table} is equal to its log" if is_equal else f"{PARTLY} compared: {reason_of(document)}"


def main() -> int:
    """Runs the command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", nargs="?", help="the archive, or the folder with its members")
    parser.add_argument("--files", type=Path, metavar="DIR", help="folder with the lake's files")
    parser.add_argument("--archive-only", action="store_true", help="check the archive alone")
    parser.add_argument("--fingerprint", metavar="SHA256:...", help="fingerprint of the key that must have signed it")
    arguments = parser.parse_args()
    try:
        for name, text in checked(arguments):
            print(f"ok     {name:<10}{text}")
    except ProofError as error:
        print(f"WRONG  {error}")
        return 1
    except (OSError, ImportError, KeyError, TypeError, ValueError) as error:
        print(f"ERROR  {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
