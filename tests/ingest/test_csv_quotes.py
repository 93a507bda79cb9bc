"""A file with wrong quotes is refused, and every other file is read: Python's csv module decides."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.running.ingested import parse, write
from tiering.errors import InvalidData
from tiering.ingest.formats import FileFormat, Reading

_PIECES = st.sampled_from(['"', '""', '"""', "a", ",", ";", "\n", "\r\n", "\r", "é", '5" disk', '"x"'])


def _is_regular(text: str, delimiter: str) -> bool:
    try:
        list(csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter))
    except csv.Error:
        return False
    return True


@given(pieces=st.lists(_PIECES, max_size=25), delimiter=st.sampled_from([",", ";"]), marked=st.booleans())
@example(pieces=['"a"', "\n", '"', "b"], delimiter=",", marked=True)
@example(pieces=['"', '""', '"', "\n"], delimiter=",", marked=False)
def test_wrong_quotes_are_refused_and_only_these(tmp_path: Path, pieces: list[str], delimiter: str, marked: bool) -> None:
    text = "id\n" + "".join(pieces)
    file = write(tmp_path, "x.csv", text.encode("utf-8-sig" if marked else "utf-8"))
    refusal = ""
    try:
        parse(file, reading=Reading(FileFormat.CSV, delimiter))
    except InvalidData as error:
        refusal = error.message
    assert ("a quote that is never closed" in refusal or "text behind a closing quote" in refusal) != _is_regular(text, delimiter)


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("text", ['id,disk\n1,5" disk\n' + '2,3.5" disk\n' * 50, '\ufeff"id","disk"\n' + '1,"a ""b"", c"\n' * 50])
def test_a_quote_in_unquoted_text_and_a_byte_order_mark_before_a_quote_are_regular(tmp_path: Path, text: str) -> None:
    assert parse(write(tmp_path, "x.csv", text)).num_rows > 40
