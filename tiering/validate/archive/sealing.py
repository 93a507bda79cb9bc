"""Puts a proof into its archive and signs it. `verify.py`, which is a part of the archive, defines both."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiering.errors import InvalidArgument, SetupError
from tiering.model.names import parse_table_path
from tiering.procedures.prove_table import ProveTable, ProveTableResult, ReaderRows
from tiering.procedures.validate_table import CheckResult
from tiering.validate.archive import verify
from tiering.validate.archive.signing_key import SigningKey, read_key
from tiering.validate.archive.spark_reader import LARGEST_BYTES, NOT_ASKED, SparkReader
from tiering.validate.child import ClusterValidation


@dataclass(frozen=True)
class TableProver:
    """Proves tables, and signs the proofs with the key in a file. It reads the key for each proof."""

    validation: ClusterValidation
    key_file: Path
    spark: Callable[[], SparkReader] = lambda: NOT_ASKED

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the key; None if it cannot be used."""
        try:
            return read_key(self.key_file).fingerprint
        except (SetupError, OSError):
            return None

    def __call__(
        self, request: ProveTable, started: Callable[[subprocess.Popen[str]], None]
    ) -> tuple[Sequence[CheckResult], ProveTableResult]:
        """Returns the checks and the signed proof. Raises the errors of the validation, SetupError for a key that cannot be used."""
        spark = NOT_ASKED if request.spark is False else self.spark()
        if request.spark is None:
            spark = replace(spark, largest_bytes=LARGEST_BYTES)
        return proof_of(self.validation.prove(request.path, request.snapshot_id, started, spark), read_key(self.key_file))


def proof_of(document: Mapping[str, Any], key: SigningKey) -> tuple[Sequence[CheckResult], ProveTableResult]:
    """Returns the checks of a proof, and its signed archive with what it says. Raises InvalidArgument for one that is too large."""
    archive = sealed(document, key)
    result = ProveTableResult(
        parse_table_path(document["table"]["path"]),
        document["lake"]["snapshot_id"],
        document["verdict"],
        verify.reason_of(document),
        len(document["files"]),
        document["stored_rows"],
        tuple(ReaderRows(**reader) for reader in document["readers"]),
        key.fingerprint,
        hashlib.sha256(archive).hexdigest(),
        len(archive),
        base64.b64encode(archive).decode("ascii"),
    )
    return [CheckResult.from_plain(check) for check in document["checks"]], result


def sealed(document: Mapping[str, Any], key: SigningKey) -> bytes:
    """Returns the signed archive of a proof. Raises InvalidArgument for one that is too large."""
    members = {verify.PROGRAM: Path(verify.__file__).read_bytes(), verify.DOCUMENT: verify.canonical_json(document)}
    manifest = verify.canonical_json(_manifest(members))
    signature = verify.canonical_json(verify.signature_of(key.public, key.sign(manifest)))
    archive = verify.canonical_zip({**members, verify.MANIFEST: manifest, verify.SIGNATURE: signature})
    if len(archive) > verify.LARGEST_BYTES:
        raise InvalidArgument(
            f"the proof would have {len(archive)} bytes, and an archive has at most {verify.LARGEST_BYTES}: the lake table has "
            f"{len(document['files'])} files",
            hint="Merge its small files first, for instance with CALL sys.rewrite_data_files.",
        )
    return archive


def _manifest(members: Mapping[str, bytes]) -> dict[str, object]:
    return {
        "format": verify.FORMAT,
        "members": {name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)} for name, content in members.items()},
    }
