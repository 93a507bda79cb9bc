"""Runs in Airflow's environment, which has OpenLineage's own client: checks events against the classes made from the published schema.

Standard input is a JSON list of events. Ends with an error for an event with an unknown field, without a required one, or with a value or a
schema URL that is not that of its class. Standard output is a JSON list of the names of Lakeward's own facets.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import types
import typing
from typing import Any

import attr
from openlineage.client import generated
from openlineage.client.generated.base import BaseFacet, RunEvent

MODULES = [importlib.import_module(f"{generated.__name__}.{module.name}") for module in pkgutil.iter_modules(generated.__path__)]
FACETS = {
    kind._get_schema(): kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, BaseFacet)
}
"""The standard facets by the URLs of their schemas."""
OWN_SCHEMES = ("urn:lakeward:",)


def built(kind: Any, value: Any, own: set[str]) -> Any:
    """The value as an object of the kind, which checks it."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        [kind] = [choice for choice in typing.get_args(kind) if choice is not type(None)]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return [built(arguments[0], entry, own) for entry in value]
    if origin is dict:
        return {
            name: facet(name, entry, own) if "_schemaURL" in entry else built(arguments[1], entry, own) for name, entry in value.items()
        }
    if attr.has(kind):
        return instance(kind, value, own)
    if isinstance(kind, type) and not issubclass(kind, str) and hasattr(kind, "__members__"):
        return kind(value)
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind}")
    return value


def facet(name: str, value: dict[str, Any], own: set[str]) -> Any:
    url = value["_schemaURL"]
    if url.startswith(OWN_SCHEMES):
        own.add(name)
        return value
    return instance(FACETS[url], value, own)


def instance(kind: Any, value: dict[str, Any], own: set[str]) -> Any:
    hints = typing.get_type_hints(kind)
    fields = {name: built(hints[name], entry, own) for name, entry in value.items() if not name.startswith("_") and name != "schemaURL"}
    url = value.get("schemaURL", value.get("_schemaURL"))
    if url is not None and url != kind._get_schema():
        raise ValueError(f"{url} is not {kind._get_schema()}")
    return kind(**fields)


if __name__ == "__main__":
    own_facets: set[str] = set()
    for event in json.load(sys.stdin):
        instance(RunEvent, event, own_facets)
    print(json.dumps(sorted(own_facets)))
