"""The project's entry in an index of packages, and the fields of the plugin's pom that Maven Central demands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

from hatchling.metadata.core import CoreMetadata, ProjectMetadata
from hatchling.plugin.manager import PluginManager

from support.repository import ROOT

ADDRESS = "https://forge.test/lakeward"
PLACE = re.compile(r"(?<=<lakeward\.repository>)[^<]+")
MAVEN = "{http://maven.apache.org/POM/4.0.0}"
DEMANDED = ("name", "description", "url", "licenses/license/name", "licenses/license/url", "developers/developer/name")
DEMANDED_OF_SCM = ("scm/connection", "scm/url")


def metadata_of(root: Path) -> CoreMetadata:
    return ProjectMetadata(str(root), PluginManager()).core


def published(folder: Path) -> Path:
    """The sources of the metadata, with a public address."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE", "catalog/pom.xml"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    pom = folder / "catalog" / "pom.xml"
    pom.write_text(PLACE.sub(ADDRESS, pom.read_text()))
    return folder


def test_an_index_shows_who_made_it_and_a_readme_whose_links_lead_somewhere(tmp_path: Path) -> None:
    metadata = metadata_of(published(tmp_path))
    assert [person["name"] for person in (*metadata.authors, *metadata.maintainers)] == ["The Lakeward maintainers"] * 2
    assert set(metadata.urls) == {"Homepage", "Source", "Issues", "Documentation", "Changelog"}
    targets = re.findall(r"\]\(([^)]+)\)", metadata.readme)
    assert len(targets) > 20
    assert [target for target in targets if not target.startswith("https://")] == []
    pages = f"{ADDRESS}/blob/v{metadata.version}/"
    own = [target.removeprefix(pages) for target in (*targets, *metadata.urls.values()) if target.startswith(pages)]
    assert len(own) > 20
    images = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", metadata.readme)
    assert images == [f"{ADDRESS}/raw/v{metadata.version}/docs/{name}.svg" for name in ("console", "overview")]
    assert [page for page in own if not (ROOT / page.partition("#")[0]).exists()] == []


def test_no_placeholder_address_is_published() -> None:
    metadata = metadata_of(ROOT)
    if ".example" in PLACE.findall((ROOT / "catalog" / "pom.xml").read_text())[0]:
        assert metadata.urls == {}
        assert metadata.readme == (ROOT / "README.md").read_text()
    assert ".example" not in "".join(metadata.urls.values())


def test_the_pom_has_what_maven_central_demands() -> None:
    project = ElementTree.parse(ROOT / "catalog" / "pom.xml").getroot()
    for path in (*DEMANDED, *DEMANDED_OF_SCM):
        text = project.findtext("/".join(f"{MAVEN}{name}" for name in path.split("/")))
        assert text, path
