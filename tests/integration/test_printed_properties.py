"""The output of `lakeward spark-conf` and `lake-conf` is read back as exactly the same properties, by their real readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import strictyaml
from hypothesis import given
from hypothesis import strategies as st
from pyspark.java_gateway import launch_gateway
from strictyaml.ruamel import YAML

from tiering.cli.spark.conf_files import as_properties_file, as_pyiceberg_yaml
from tiering.cli.terminal.options import check_property, read_pairs
from tiering.errors import InvalidArgument

JVM_END_SECONDS = 60
ATTACKS = [
    "x\nspark.driver.extraJavaOptions -javaagent:/evil.jar",
    "x\r\nspark.jars /evil.jar",
    "x\\\nspark.jars /evil.jar",
    "x\u2028y",
    "x\u0085y",
    "x\x1b[2Jy",
    "x\n  other:\n    py-io-impl: evil.Evil",
    '"\n    py-io-impl: "evil.Evil',
    "\u202egpj.x",
]
SHAPES = [
    "",
    " ",
    "\\",
    "a\\",
    "\\n",
    "\\u0041",
    "# no comment",
    "!x",
    "a=b",
    "a:b",
    "a b",
    "true",
    "null",
    "1",
    "0x1f",
    "2026-01-01",
    "- x",
]
SHAPES += [
    "{a: b}",
    "[a]",
    "*a",
    "&a",
    "!!python/object:os.system",
    "'x'",
    '"x"',
    "%x",
    "@x",
    "`x`",
    "a: b",
    "a #b",
    "~",
    "...",
    "---",
    "😀",
    "ß",
]
texts = st.one_of(st.text(max_size=20), st.sampled_from([*SHAPES, *ATTACKS]))
properties = st.dictionaries(texts.filter(lambda name: name != ""), texts, min_size=1, max_size=4)


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    gateway = launch_gateway()
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(JVM_END_SECONDS)


def loaded(jvm: Any, text: str) -> dict[str, str]:
    """Returns the properties as Spark loads a properties file. The names come as an array: py4j ends an iteration with an exception, and
    pyspark, once it was used in this process, translates exceptions with the help of a running SparkContext."""
    table = jvm.java.util.Properties()
    table.load(jvm.java.io.StringReader(text))
    return {str(name): str(table.getProperty(name)) for name in table.stringPropertyNames().toArray()}


def test_java_reads_back_the_properties_that_were_printed(jvm: Any) -> None:
    @given(properties)
    def check(printed: dict[str, str]) -> None:
        text = as_properties_file(printed)
        assert text.count("\n") == len(printed)
        assert loaded(jvm, text) == printed

    check()


@given(properties)
def test_pyiceberg_and_any_reader_of_yaml_read_back_the_properties_that_were_printed(printed: dict[str, str]) -> None:
    public = {f"p.{name}": value for name, value in printed.items()}
    text = as_pyiceberg_yaml(public)
    shown = YAML(typ="safe", pure=True).load(text)

    assert strictyaml.load(text).data == shown
    assert list(shown) == ["catalog"]
    assert list(shown["catalog"]) == ["lake"]
    assert list(shown["catalog"]["lake"]) == list(public)
    kept = {name: value for name, value in public.items() if shown["catalog"]["lake"][name] == value}
    assert [value for name, value in shown["catalog"]["lake"].items() if name not in kept and "***" not in value] == []


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_property_with_a_line_end_or_a_control_character_is_taken(attack: str) -> None:
    for pair in (f"warehouse={attack}", f"{attack}=x"):
        with pytest.raises(InvalidArgument, match="--lake-property"):
            read_pairs([pair], "--lake-property")
    with pytest.raises(InvalidArgument, match="the service at h:1 has the lake property"):
        check_property("the service at h:1 has the lake property", "warehouse", attack)


def test_what_people_write_is_taken() -> None:
    pairs = ["s3.endpoint=https://h:9000/a?b=c", "warehouse = file:///data/für alle/lake", "uri=", "adls.x_y-z=C:\\temp"]

    assert read_pairs(pairs, "--lake-property") == {
        "s3.endpoint": "https://h:9000/a?b=c",
        "warehouse": "file:///data/für alle/lake",
        "uri": "",
        "adls.x_y-z": "C:\\temp",
    }
