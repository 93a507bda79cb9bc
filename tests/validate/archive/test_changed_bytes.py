"""No byte of an archive can be changed, added or taken away without `verify.py` finding it."""

from __future__ import annotations

import io
import random
import warnings
import zipfile

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.proofs.prover import Prover
from tiering.model.tables import TableInfo
from tiering.validate.archive import verify
from tiering.validate.archive.sealing import sealed
from tiering.validate.archive.signing_key import SigningKey

SEED = 41
DRAWN = 10
"""Bytes that are changed for a process of its own each, beside the first and the last of each member."""


@pytest.fixture
def archive(prover: Prover, table: TableInfo) -> bytes:
    return prover.archive(table)


def changed(content: bytes, place: int, bit: int = 1) -> bytes:
    return content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]


def with_members(archive: bytes, names: list[str]) -> bytes:
    """Returns a ZIP file with these members of the archive, in this order."""
    members, buffer = verify.members_of(archive), io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed, warnings.catch_warnings(action="ignore"):
        for name in names:
            packed.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), members[name])
    return buffer.getvalue()


def problem(archive: bytes) -> str | None:
    try:
        verify.check_members(verify.members_of(archive))
    except verify.ProofError as error:
        return str(error)
    return None


def test_any_reader_of_zip_files_opens_an_archive(archive: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert opened.testzip() is None
        assert {name: opened.read(name) for name in opened.namelist()} == verify.members_of(archive)
        assert tuple(opened.namelist()) == verify.MEMBERS


def test_every_single_changed_byte_is_found(archive: bytes) -> None:
    assert problem(archive) is None
    drawn = random.Random(SEED)
    missed = [place for place in range(len(archive)) if problem(changed(archive, place, 1 << drawn.randrange(8))) is None]
    assert missed == []


def test_a_changed_byte_is_found_even_if_the_checksums_of_the_zip_file_fit(archive: bytes) -> None:
    members = verify.members_of(archive)
    drawn = random.Random(SEED)
    for name, content in members.items():
        is_small = name in (verify.MANIFEST, verify.SIGNATURE)
        for place in range(len(content)) if is_small else [0, len(content) - 1, *(drawn.randrange(len(content)) for _ in range(50))]:
            forged = verify.canonical_zip({**members, name: changed(content, place)})
            assert problem(forged) is not None, (name, place)


def test_verify_py_fails_for_a_changed_byte_of_each_part(prover: Prover, archive: bytes) -> None:
    members = verify.members_of(archive)
    drawn = random.Random(SEED)
    places = {0, len(archive) - 1, *(drawn.randrange(len(archive)) for _ in range(DRAWN))}
    for content in members.values():
        begin = archive.index(content)
        places |= {begin, begin + len(content) - 1}
    assert prover.verified(archive)[0] == 0
    for place in sorted(places):
        status, printed = prover.verified(changed(archive, place))
        assert (status, printed.startswith("WRONG")) == (1, True), (place, printed)


@pytest.mark.parametrize(
    "change",
    [
        lambda archive: archive + b"\n",
        lambda archive: archive[:-1],
        lambda archive: b"\n" + archive,
        lambda archive: archive + archive,
        lambda archive: archive[:-2] + b"\x02\x00hi",
        lambda archive: archive.replace(b"proof.json", b"prove.json"),
        lambda archive: archive.replace(b"proof.json", b"verify.py\0"),
        lambda archive: with_members(archive, [*verify.MEMBERS, verify.PROGRAM]),
        lambda archive: with_members(archive, [verify.PROGRAM, *verify.MEMBERS]),
        lambda archive: verify.canonical_zip({**verify.members_of(archive), "../verify.py": b"import os"}),
        lambda archive: archive[:1000],
        lambda archive: b"",
        lambda archive: verify.canonical_zip({**verify.members_of(archive), "more.txt": b"more"}),
        lambda archive: verify.canonical_zip(dict(sorted(verify.members_of(archive).items()))),
        lambda archive: verify.canonical_zip({"verify.py": verify.members_of(archive)["verify.py"]}),
    ],
    ids=[
        "a byte behind",
        "a byte less",
        "a byte before",
        "twice",
        "a comment",
        "a renamed member",
        "a name with a zero",
        "the program again at the end",
        "the program twice",
        "a member above the folder",
        "cut",
        "empty",
        "one more member",
        "another order",
        "one member",
    ],
)
def test_another_archive_is_refused(archive: bytes, change: object) -> None:
    assert callable(change)
    assert problem(change(archive)) is not None


def test_an_archive_that_was_cut_anywhere_is_refused(archive: bytes) -> None:
    drawn = random.Random(SEED)
    missed = [length for length in (drawn.randrange(len(archive)) for _ in range(100)) if problem(archive[:length]) is None]
    assert missed == []


def test_another_program_that_writes_zip_files_cannot_write_the_archive(archive: bytes) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in verify.members_of(archive).items():
            packed.writestr(name, content)
    assert problem(buffer.getvalue()) is not None


def test_an_archive_that_another_key_signed_has_another_fingerprint(prover: Prover, table: TableInfo) -> None:
    other = SigningKey(Ed25519PrivateKey.generate())
    status, printed = prover.verified(sealed(prover.document(table), other), "--fingerprint", prover.key.fingerprint)
    assert (status, f"the key {other.fingerprint} signed the archive, and not {prover.key.fingerprint}" in printed) == (1, True)


def test_signatures_are_those_of_another_implementation() -> None:
    drawn = random.Random(SEED)
    for length in (0, 1, 32, 1000):
        private = Ed25519PrivateKey.from_private_bytes(drawn.randbytes(32))
        public, message = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw), drawn.randbytes(length)
        signature = private.sign(message)
        assert verify.is_signed(public, message, signature)
        assert not verify.is_signed(public, message + b"x", signature)
        assert not verify.is_signed(public, message, changed(signature, drawn.randrange(64)))
        assert not verify.is_signed(changed(public, drawn.randrange(32)), message, signature)


def test_a_signature_has_no_second_form() -> None:
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public, signature = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw), private.sign(b"proof")
    order = 2**252 + 27742317777372353535851937790883648493
    scalar = int.from_bytes(signature[32:], "little") + order
    assert verify.is_signed(public, b"proof", signature)
    assert not verify.is_signed(public, b"proof", signature[:32] + scalar.to_bytes(32, "little"))
    assert not verify.is_signed(public[:31], b"proof", signature)
