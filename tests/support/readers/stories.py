"""The stories of the matrix: all tables are made and tiered together, in every layout of a lake format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pytest

from support.lake_kinds.poisoned import refuse_poison
from support.readers.cases import (
    GROUPS,
    Case,
    Story,
    all_deleted,
    bucket_keys,
    compacted,
    encodings,
    every_type,
    log_columns,
    log_partitions,
    log_tables,
    names,
    no_keys,
    no_rows,
    primary_key_columns,
    primary_key_partitions,
    primary_keys,
    rewritten,
    row_groups,
    two_keys,
)
from support.readers.changed_cases import changed_keys, changed_log, upkept_keys, upkept_log
from support.readers.dead_letter_cases import discarded, put_aside, put_aside_often, replayed, replayed_after_change
from support.readers.source_tables import LAYOUTS, Tables, TieredWorld

STORIES_OF_ALL = (
    every_type,
    encodings,
    log_tables,
    bucket_keys,
    log_partitions,
    log_columns,
    names,
    no_rows,
    primary_keys,
    all_deleted,
    primary_key_partitions,
    two_keys,
    primary_key_columns,
    no_keys,
    upkept_log,
    upkept_keys,
    changed_log,
    changed_keys,
    *(partial(story, has_key=has_key) for has_key in (False, True) for story in (put_aside, replayed, replayed_after_change, discarded)),
    put_aside_often,
)
STORIES: Mapping[str, Sequence[Callable[[Tables], Story]]] = {
    "iceberg": (*STORIES_OF_ALL, rewritten, row_groups),
    "paimon": (*STORIES_OF_ALL, compacted),
}
"""By the format of the lake."""


def all_cases(world: TieredWorld) -> list[Case]:
    """Makes all tables in every layout and tiers them, and returns what to ask: layout by layout, group by group."""
    layouts = list(LAYOUTS[world.lake_format])
    stories = [story(Tables(world, layout)) for layout in layouts for story in STORIES[world.lake_format]]
    cases: dict[Story, list[Case]] = {}
    with pytest.MonkeyPatch.context() as refusing:
        refuse_poison(refusing)
        while len(cases) < len(stories):
            for story in stories:
                if story not in cases:
                    try:
                        next(story)
                    except StopIteration as end:
                        cases[story] = end.value
            world.tier_all()
    listed = [case for story in stories for case in cases[story]]
    return sorted(listed, key=lambda case: (layouts.index(case.layout), GROUPS.index(case.group)))
