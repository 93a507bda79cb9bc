"""Generates the reference pages in Markdown, and the fields of a status on the wire, from the definitions in the code.

Run `PYTHONPATH=.:tests python -m support.reference` in the root of the repository. It writes `docs/reference.md`, `docs/errors.md`,
`docs/security-grants.md`, `docs/options.md`, and the fields of `PbTableTieringStatus` in `status.proto`. A test compares the files with the
code.
"""

from __future__ import annotations

from pathlib import Path

from support.reference import error_page, grants_page, options_page, status_proto, system_tables_page
from sys_tables.registry import default_registry


def pages(root: Path) -> dict[Path, str]:
    """Returns the text of each page by its path below `root`, the repository. Raises ValueError for an option without a description."""
    java = (root / options_page.CATALOG_OPTIONS).read_text(encoding="utf-8")
    return {
        root / "docs/reference.md": system_tables_page.render(default_registry()),
        root / "docs/options.md": options_page.render(java),
        root / "docs/errors.md": error_page.render(),
        root / "docs/security-grants.md": grants_page.render(),
        (proto := root / "proto/tiering/rpc/v1/status.proto"): status_proto.render(proto.read_text(encoding="utf-8")),
    }


def main() -> None:
    """Writes the pages."""
    for path, text in pages(Path.cwd()).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
