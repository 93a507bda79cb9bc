"""Named fenced blocks of a documentation page, so that a test runs what the reader copies.

A block's name is the second word behind the fence: ```` ```sh thrift-server ````. Blocks without a name are prose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_BLOCK = re.compile(r"^```\w+ (?P<name>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class DocBlocks:
    """The blocks of `page`. `instead` maps addresses of the page to those of the test: each one is replaced wherever it stands."""

    def __init__(self, page: Path, instead: Mapping[str, str]) -> None:
        blocks = _BLOCK.findall(page.read_text())
        self._blocks = dict(blocks)
        assert len(self._blocks) == len(blocks), f"{page.name} has two blocks of one name"
        self._instead = instead

    def statements(self, name: str) -> list[str]:
        """Returns the statements of a block of SQL."""
        *statements, rest = self[name].split(";\n")
        assert rest == "", f"the block {name} does not end in ';'"
        return statements

    def __getitem__(self, name: str) -> str:
        """The text of a block, as a user with the test's addresses would write it."""
        text = self._blocks[name]
        for written, real in self._instead.items():
            text = text.replace(written, real)
        return text
