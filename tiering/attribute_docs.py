"""The documentation of attributes: the string behind each assignment of a module or a class."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from itertools import pairwise

_OWN_DOCUMENTS = re.compile(r" \(DESIGN [^)]*\)")


def attribute_docs(source: str) -> Mapping[str, str]:
    """The string behind each assignment of a module's or a class's source: on one line, without references to the design."""
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
                documented[name] = _OWN_DOCUMENTS.sub("", " ".join(documentation.split()))
    return documented
