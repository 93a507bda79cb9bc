"""The numbers of our messages' fields are those of Fluss 1.0's own client."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from support.fluss_client.client_jar import class_path
from support.scripted.cluster import INVALID_BUCKET_ROUTING
from tiering.cli.spark.java import require_java
from tiering.cluster.fluss.wire.api import ALTER_DATABASE_KEY, APIS
from tiering.cluster.fluss.wire.errors import AUTHORIZATION, LAKE_SNAPSHOT_NOT_EXIST, TABLE_NOT_EXIST
from tiering.rpc.fluss import fluss_pb2 as pb

MESSAGES = "org.apache.fluss.rpc.messages."
WIRE_TYPES = {FieldDescriptor.TYPE_STRING: 2, FieldDescriptor.TYPE_BYTES: 2, FieldDescriptor.TYPE_MESSAGE: 2}
"""Wire types of fields; any other type here is a number, with wire type 0."""


GET_TABLE_STATS = 1059
"""The highest key of 0.9.1."""


def _javap(option: str, *classes: str) -> str:
    """The declarations or the code of classes of the jar, as the JDK prints them."""
    javap = Path(require_java()).with_name("javap")
    return subprocess.run([str(javap), "-p", option, "-cp", class_path(), *classes], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def declared() -> dict[str, dict[str, tuple[int, int]]]:
    """Number and wire type by field, by message, of the classes in the jar."""
    text = _javap("-constants", *(f"{MESSAGES}{name}" for name in pb.DESCRIPTOR.message_types_by_name))
    messages: dict[str, dict[str, tuple[int, int]]] = {}
    for part in re.split(r"^Compiled from .*$", text, flags=re.MULTILINE)[1:]:
        (name,) = re.findall(r"class org\.apache\.fluss\.rpc\.messages\.(\w+) ", part)
        tags = {field: int(tag) for field, tag in re.findall(r" _(\w+)_TAG = (\d+);", part)}
        numbers = re.findall(r" _(\w+)_FIELD_NUMBER = (\d+);", part)
        messages[name] = {field.lower(): (int(number), tags[field] & 7) for field, number in numbers}
    return messages


@pytest.mark.parametrize("name", sorted(pb.DESCRIPTOR.message_types_by_name))
def test_each_field_has_the_number_and_the_wire_type_of_the_client(name: str, declared: dict[str, dict[str, tuple[int, int]]]) -> None:
    fields = {field.name: (field.number, WIRE_TYPES.get(field.type, 0)) for field in pb.DESCRIPTOR.message_types_by_name[name].fields}
    assert {field: declared[name].get(field) for field in fields} == fields


def _constants(enum: str) -> dict[str, int]:
    """The first number that the constructor of each constant of an enum gets, by name."""
    text = _javap("-c", f"org.apache.fluss.rpc.protocol.{enum}")
    constants = re.findall(r"// String (\w+)\n *\d+: (?:[bs]ipush +|iconst_)\w+\n *\d+: (?:[bs]ipush +|iconst_)(\w+|-\d+)\n", text)
    return {name: -1 if number == "m1" else int(number) for name, number in constants}


def test_each_call_and_error_has_the_number_of_the_client() -> None:
    keys, codes = _constants("ApiKeys"), _constants("Errors")
    ours = {re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).upper(): api.key for api in APIS}
    ours["GET_METADATA"] = ours.pop("METADATA")
    assert {name: keys.get(name) for name in ours} == ours
    assert keys["ALTER_DATABASE"] == ALTER_DATABASE_KEY == min(key for name, key in keys.items() if key > GET_TABLE_STATS)
    assert codes["AUTHORIZATION_EXCEPTION"] == AUTHORIZATION
    assert codes["TABLE_NOT_EXIST"] == TABLE_NOT_EXIST
    assert codes["LAKE_SNAPSHOT_NOT_EXIST"] == LAKE_SNAPSHOT_NOT_EXIST
    assert codes["INVALID_BUCKET_ROUTING"] == INVALID_BUCKET_ROUTING
