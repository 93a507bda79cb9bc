"""Writes properties as files for other programs, which read back exactly the same names and values."""

from __future__ import annotations

from collections.abc import Mapping

from tiering.cli.spark.properties import lake_catalog_name
from tiering.redaction.redact import redact_property

_ESCAPED_IN_KEYS = " =:#!"
_SHORT_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def as_properties_file(properties: Mapping[str, str]) -> str:
    """Returns a file for `spark-submit --properties-file` and `spark-defaults.conf`, which `java.util.Properties.load` reads.

    Spark drops blanks around a value, also escaped ones.
    """
    escaped = {_java_key(name): _java_value(value) for name, value in properties.items()}
    width = max(map(len, escaped), default=0)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in escaped.items())


def as_pyiceberg_yaml(properties: Mapping[str, str]) -> str:
    """Returns the text of a `.pyiceberg.yaml`. Secrets are hidden, and have to come from the environment."""
    lines = [f"    {_yaml_text(name)}: {_yaml_text(redact_property(name, value))}" for name, value in properties.items()]
    return "\n".join(["catalog:", f"  {lake_catalog_name(properties)}:", *lines, ""])


def _java_key(text: str) -> str:
    return "".join(f"\\{character}" if character in _ESCAPED_IN_KEYS else _java_escaped(character) for character in text)


def _java_value(text: str) -> str:
    """Returns an escaped value. Blanks and `=` or `:` at its beginning would otherwise belong to the separator after the name."""
    if text[:1] in ("=", ":"):
        return "\\" + text[0] + "".join(map(_java_escaped, text[1:]))
    blanks = len(text) - len(text.lstrip(" "))
    return "\\ " * blanks + "".join(map(_java_escaped, text[blanks:]))


def _java_escaped(character: str) -> str:
    """Returns ASCII unchanged, and other characters as escaped UTF-16 units, so that the encoding of the file does not matter."""
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))


def _yaml_text(text: str) -> str:
    """Returns a double-quoted scalar (YAML 1.2, 7.3.1), which is always a string."""
    return '"' + "".join(map(_yaml_escaped, text)) + '"'


def _yaml_escaped(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    return character if " " <= character <= "~" else f"\\U{ord(character):08X}"
