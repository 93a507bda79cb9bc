"""The options in force: those of the coordinator, those that it sends to tierers, and those of tables."""

from __future__ import annotations

from collections.abc import Iterator

from tiering.coordinator.options import CoordinatorOptions
from tiering.lake.catalog_timeouts import TIMEOUTS
from tiering.lake.iceberg_options import LAKE_TABLE_OPTIONS, PREFIX
from tiering.lake.table_options import TABLE_OPTIONS
from tiering.model.option import EffectiveOption, options_of
from tiering.redaction.redact import outside_text

DEFAULT, SET = "default", "set"

_TIMEOUTS = frozenset(timeout.name for timeout in TIMEOUTS)


def effective_options(options: CoordinatorOptions | None) -> list[EffectiveOption]:
    """Returns all options, by scope and name. `options` is None if no coordinator runs, so that the set values are unknown."""
    return [*_of_coordinator(options), *_told_to_tierers(options), *_timeouts(options), *_of_tables()]


def _of_coordinator(options: CoordinatorOptions | None) -> Iterator[EffectiveOption]:
    for name, option in sorted(options_of(CoordinatorOptions).items()):
        default = getattr(CoordinatorOptions, name)
        value = None if options is None else getattr(options, name)
        source = None if options is None else DEFAULT if value == default else SET
        shown = None if value is None else outside_text(str(value))
        yield EffectiveOption("coordinator", name, shown, str(default), source, option.meaning)


def _told_to_tierers(options: CoordinatorOptions | None) -> Iterator[EffectiveOption]:
    if options is None:
        return
    for kind, properties in (("cluster", options.cluster_properties), ("lake", options.public_lake_properties())):
        for name, value in sorted(properties.items()):
            if name not in _TIMEOUTS:
                description = f"Property with which tierers connect to the {kind}."
                yield EffectiveOption("tierer", f"{kind}.{name}", outside_text(value), None, SET, description)


def _timeouts(options: CoordinatorOptions | None) -> Iterator[EffectiveOption]:
    """Yields the timeouts of the lake's catalog and storage, which hold for the coordinator and for tierers."""
    connection = {} if options is None else options.public_lake_properties()
    for timeout in TIMEOUTS:
        default = str(timeout.default)
        source = None if options is None else SET if timeout.name in connection else DEFAULT
        value = None if options is None else outside_text(connection.get(timeout.name, default))
        yield EffectiveOption("tierer", f"lake.{timeout.name}", value, default, source, timeout.meaning)


def _of_tables() -> Iterator[EffectiveOption]:
    """Yields the values for a table without an option of its own."""
    for option in TABLE_OPTIONS.values():
        meaning = f"{option.meaning} {option.fluss_note}".strip()
        yield EffectiveOption("table", option.name, option.default, option.default, DEFAULT, meaning)
    for name, property_ in sorted(LAKE_TABLE_OPTIONS.items()):
        yield EffectiveOption("table", f"{PREFIX}{name}", None, None, DEFAULT, f"{property_.meaning} Values: {property_.values}.")
