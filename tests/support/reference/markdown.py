"""Parts of pages that are generated from code: Markdown tables, and the documentation of attributes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

_DESIGN_REFERENCE = re.compile(r" \(DESIGN [^)]*\)")


def attribute_docs(source: str) -> Mapping[str, str]:
    """Returns the string after each assignment in a module's or class's source, on one line and without references to the design."""
    [*body] = ast.parse(source).body
    if len(body) == 1 and isinstance(body[0], ast.ClassDef):
        body = body[0].body
    documented = {}
    for assignment, text in pairwise(body):
        match assignment, text:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as documentation)),
            ):
                documented[name] = _DESIGN_REFERENCE.sub("", " ".join(documentation.split()))
    return documented


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table with each row on one line."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
