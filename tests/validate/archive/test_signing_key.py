"""The key with which a service signs its proofs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tiering.errors import SetupError
from tiering.validate.archive.sealing import TableProver
from tiering.validate.archive.signing_key import ensure_key, read_key
from tiering.validate.child import ClusterValidation


def test_it_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "proof-key.pem"
    before = os.umask(0)
    try:
        ensure_key(file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    key = read_key(file)
    ensure_key(file)
    assert read_key(file).public == key.public
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert "private" not in repr(key)


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "proof-key.pem"
    ensure_key(file)
    file.chmod(0o640)
    with pytest.raises(SetupError, match="other users may read the key"):
        read_key(file)


def test_a_file_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "proof-key.pem"
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content in (b"", b"no key", other):
        file.write_bytes(content)
        file.chmod(0o600)
        ensure_key(file)
        with pytest.raises(SetupError, match="has no Ed25519 key without a password"):
            read_key(file)
        assert file.read_bytes() == content


def test_a_replaced_key_signs_the_next_proofs(tmp_path: Path) -> None:
    prover = TableProver(ClusterValidation("embedded", tmp_path, "iceberg", {}), tmp_path / "proof-key.pem")
    assert prover.fingerprint is None
    ensure_key(prover.key_file)
    first = prover.fingerprint
    assert first == read_key(prover.key_file).fingerprint
    prover.key_file.unlink()
    ensure_key(prover.key_file)
    assert prover.fingerprint not in (None, first)
    prover.key_file.chmod(0o644)
    assert prover.fingerprint is None


def test_a_key_that_was_removed_under_a_running_service_is_not_made_again_by_a_call(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="is missing"):
        read_key(tmp_path / "proof-key.pem")
