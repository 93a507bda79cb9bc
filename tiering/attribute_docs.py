"""Reads the documentation of attributes: the string after each assignment in a module or a class."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
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
