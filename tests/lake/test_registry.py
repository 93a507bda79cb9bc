"""Lake formats are found by name: those built in, and those that other distributions bring by an entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tiering.errors import InvalidArgument
from tiering.lake import registry
from tiering.lake.base import LakeFormat
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.registry import format_names, has_format, lake_opener, open_lake, own_settings
from tiering.lake.table_options import FORMAT

BROUGHT_FORMAT = """
from support.lakes.memory_lake import MemoryLake
from tiering.lake.base import LakeFormat

class BroughtLake(MemoryLake):
    format = "brought"

    def __init__(self, properties):
        super().__init__()
        self.properties = dict(properties)

FORMAT = LakeFormat(BroughtLake, lambda: ("token",))
NO_FORMAT = BroughtLake
"""


Install = Callable[[str, Mapping[str, str], Mapping[str, str]], None]
"""Name of the distribution, its entry points, its modules' sources by name."""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a distribution on the path, as a package installer leaves it: its modules and its `.dist-info`."""

    def installed(name: str, entry_points: Mapping[str, str], modules: Mapping[str, str]) -> None:
        folder = tmp_path / name
        info = folder / f"{name.replace('-', '_')}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        points = "\n".join(f"{point} = {value}" for point, value in entry_points.items())
        (info / "entry_points.txt").write_text(f"[lakeward.lakes]\n{points}\n")
        for module, source in modules.items():
            (folder / f"{module}.py").write_text(source)
        monkeypatch.syspath_prepend(folder)

    return installed


def test_every_built_in_format_is_where_the_registry_says() -> None:
    for name in registry.BUILT_IN:
        assert isinstance(registry.lake_format(name), LakeFormat)


def test_a_distribution_brings_a_format(install: Install, tmp_path: Path) -> None:
    assert not has_format("brought")
    install("lakeward-brought", {"brought": "brought_lake:FORMAT"}, {"brought_lake": BROUGHT_FORMAT})

    lake = open_lake("Brought", {"warehouse": "memory"})

    assert (lake.format, vars(lake)["properties"]) == ("brought", {"warehouse": "memory"})
    assert set(own_settings("brought")) == {"token"}
    assert format_names() == ("brought", "iceberg", "paimon")


def test_a_table_may_ask_for_a_format_that_a_distribution_brings(install: Install) -> None:
    option = {"table.datalake.format": "brought"}
    with pytest.raises(InvalidArgument, match="'brought'"):
        FORMAT.of(option)
    install("lakeward-brought", {"brought": "brought_lake:FORMAT"}, {"brought_lake": BROUGHT_FORMAT})
    assert FORMAT.of(option) == "brought"


@pytest.mark.parametrize(
    ("entry_point", "cause"),
    [
        ("broken_lake:FORMAT", "RuntimeError: its library is missing"),
        ("no_such_module:FORMAT", "ModuleNotFoundError"),
        ("brought_lake:NOTHING", "AttributeError"),
        ("brought_lake:NO_FORMAT", "not a LakeFormat"),
    ],
)
def test_a_broken_entry_point_is_named_and_other_formats_go_on(install: Install, entry_point: str, cause: str) -> None:
    modules = {"broken_lake": "raise RuntimeError('its library is missing')", "brought_lake": BROUGHT_FORMAT}
    install("lakeward-broken", {"broken": entry_point, "brought": "brought_lake:FORMAT"}, modules)

    with pytest.raises(InvalidArgument, match=cause) as refusal:
        open_lake("broken", {})

    assert f"lakeward-broken 1.2 ({entry_point})" in refusal.value.message
    assert "Other formats work" in refusal.value.hint
    assert open_lake("brought", {}).format == "brought"
    assert isinstance(open_lake("iceberg", {}), IcebergLake)


def test_two_distributions_with_one_format_are_refused_by_name(install: Install) -> None:
    install("lakeward-left", {"brought": "left_lake:FORMAT"}, {"left_lake": BROUGHT_FORMAT})
    install("lakeward-right", {"brought": "right_lake:FORMAT"}, {"right_lake": BROUGHT_FORMAT})
    with pytest.raises(InvalidArgument, match=r"several distributions .*lakeward-left 1\.2"):
        open_lake("brought", {})


def test_no_distribution_takes_the_name_of_a_built_in_format(install: Install) -> None:
    install("lakeward-other", {"iceberg": "brought_lake:FORMAT"}, {"brought_lake": BROUGHT_FORMAT})
    assert isinstance(open_lake("iceberg", {}), IcebergLake)


def test_an_unknown_format_is_refused_with_those_that_there_are(install: Install) -> None:
    install("lakeward-brought", {"brought": "brought_lake:FORMAT"}, {"brought_lake": BROUGHT_FORMAT})
    with pytest.raises(InvalidArgument, match="no lake format 'delta'") as refusal:
        open_lake("delta", {})
    assert "brought, iceberg" in refusal.value.hint


def test_an_opener_of_one_format_refuses_others() -> None:
    lake_of = lake_opener({"warehouse": "/x"}, "paimon")
    assert lake_of("paimon") is lake_of("paimon")
    with pytest.raises(InvalidArgument, match="the lake format is iceberg, but the lake of this service has the format paimon"):
        lake_of("iceberg")


def test_an_opener_opens_each_format_once() -> None:
    lake_of = lake_opener({})
    assert lake_of("iceberg") is lake_of("iceberg")
