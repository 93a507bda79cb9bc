"""Which options of a table can be set on a Fluss cluster, and what is said of those that cannot."""

from __future__ import annotations

import re

import pytest

from support.repository import ROOT
from tiering.cluster.fluss.table_options import check_option, in_fluss_words, is_of_fluss, nearest_known
from tiering.errors import InvalidArgument
from tiering.lake.table_options import AUTO_COMPACTION, AUTO_EXPIRE, LAYOUT


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("table.datalake.enabled", "false"),
        ("table.datalake.freshness", "PT5M"),
        ("table.log.tiered.local-segments", "3"),
        ("table.datalake.freshness", None),
        ("table.datalake.round.bytes", "64 mb"),
        ("table.datalake.round.bytes", None),
        ("table.datalake.target-file-size", "256 mb"),
        ("table.datalake.snapshot.max-age", "12 h"),
        ("table.datalake.snapshot.min-count", "100"),
        ("iceberg.write.target-file-size-bytes", "1000000"),
        ("owner", "ada"),
        ("owner", None),
    ],
)
def test_what_fluss_alters_and_what_is_kept_here_can_be_set(name: str, value: str | None) -> None:
    check_option(name, value)


@pytest.mark.parametrize("name", ["table.log.ttl", "table.datalake.format", "table.datalake.auto-compaction", "table.nix"])
def test_other_options_of_fluss_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InvalidArgument, match="Fluss cannot alter") as refused:
        check_option(name, "1")
    assert "table.datalake.freshness" in refused.value.hint


def test_the_layout_is_an_option_of_a_new_table_that_fluss_keeps_as_a_custom_property() -> None:
    assert not is_of_fluss(LAYOUT.name)
    with pytest.raises(InvalidArgument, match=r"table\.datalake\.layout.* cannot be changed") as refused:
        check_option(LAYOUT.name, "clean")
    assert "when the table is created" in refused.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("table.datalake.enabled", "yes"),
        ("table.datalake.freshness", "0 s"),
        ("table.datalake.freshness", "soon"),
        ("table.datalake.round.bytes", "much"),
        ("table.datalake.snapshot.max-age", "0 s"),
        ("table.datalake.snapshot.min-count", "many"),
        ("table.log.tiered.local-segments", "0"),
        ("iceberg.py-io-impl", "x.Y"),
        ("owner", "two\nlines"),
    ],
)
def test_impossible_values_are_refused_before_any_server_is_asked(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument):
        check_option(name, value)


def test_values_reach_fluss_in_a_form_that_it_reads() -> None:
    assert in_fluss_words("table.datalake.freshness", "PT1M30S") == "90000ms"
    assert in_fluss_words("table.datalake.enabled", "TRUE") == "true"
    assert in_fluss_words("table.log.tiered.local-segments", "3") == "3"


def test_only_names_of_fluss_are_its_own() -> None:
    assert is_of_fluss("table.datalake.enabled")
    assert not is_of_fluss("iceberg.write.target-file-size-bytes")


def test_the_size_of_a_round_is_an_option_of_ours() -> None:
    assert not is_of_fluss("table.datalake.round.bytes")


def test_fluss_says_whether_snapshots_expire_and_lakeward_says_which() -> None:
    assert is_of_fluss("table.datalake.auto-expire-snapshot")
    assert not is_of_fluss("table.datalake.snapshot.max-age")


@pytest.mark.parametrize("page", ["upkeep.md", "on-call.md"])
def test_pages_that_name_an_option_of_upkeep_say_what_works_where_fluss_does_not_alter_it(page: str) -> None:
    for name in (AUTO_COMPACTION.name, AUTO_EXPIRE.name):
        with pytest.raises(InvalidArgument, match="Fluss cannot alter"):
            check_option(name, "true")
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    [section] = [section for section in text.split("\n## ") if re.search(r"Fluss 0\.9\.1 (refuses to|does not) alter", section)]
    assert {name for name in ("pause_upkeep", "--fluss-auto-compaction") if name not in section} == set()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("table.datalake.partition", "Fluss fixes the partitions and the order of its lake tables"),
        ("table.datalake.sort", "Fluss fixes the partitions and the order of its lake tables"),
        ("table.datalake.on-drop-column", "Fluss 0.9.1 drops no columns"),
    ],
)
def test_an_option_that_tables_of_fluss_never_have_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(InvalidArgument, match="Fluss cannot alter") as refused:
        check_option(name, "id")
    assert reason in refused.value.hint
    assert reason in nearest_known([name])
