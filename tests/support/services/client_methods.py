"""Makes tiering/client/procedure_methods.py from the declarations: `PYTHONPATH=.:tests python -m support.services.client_methods`."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

from support.repository import ROOT
from tiering.model.declare import Parameter, parameters_of
from tiering.procedures.base import CallRequest, Mutation
from tiering.procedures.registry import declarations

FILE = ROOT / "tiering" / "client" / "procedure_methods.py"

OTHER_METHODS = frozenset({"help", "tier_database", "sweep_lake"})
"""`help` is about SQL; the methods of the others are in `tiering/client/clients.py`."""

IN_CLIENT = {"path": "table_path"}
"""Names of parameters of methods, where they differ from the attribute of the request."""

HEADER = '''"""The methods of the clients that call a procedure by its name: `CALL sys.pause_tiering` is `pause_tiering`.

`tests/support/services/client_methods.py` makes this file from the declarations in `tiering/procedures`, and a test compares the two. After
a change of a declaration run `PYTHONPATH=.:tests python -m support.services.client_methods`. docs/reference.md describes the arguments.

`options`: `dry_run` only answers, a repeat under one `idempotency_key` has one effect, and `caller` is by default the user of this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Unpack

from tiering.client.methods import AsyncPerformer, Performer, PreparedCall, async_method, method
{imports}
from tiering.wire.procedure_calls import CallOptions, OnProgress, TableName, path_of


'''


def rendered() -> str:
    """Returns the text of the file."""
    requests = [request for name, request in declarations().items() if name not in OTHER_METHODS]
    used = {declared for request in requests for declared in (request, result_class(request))}
    text = HEADER.format(imports="\n".join(f"from {declared.__module__} import {declared.__name__}" for declared in used))
    text += "\n".join(map(prepared_call, requests))
    for prefix, maker, note in (
        ("", "method", ""),
        ("Async", "async_method", " Cancelling a method ends the wait, not the work of the service."),
    ):
        text += f'class {prefix}ProcedureMethods({prefix}Performer):\n    """A method per procedure.{note}"""\n\n'
        text += "".join(f"    {request.procedure} = {maker}({request.procedure})\n" for request in requests) + "\n\n"
    for command in (["check", "--select", "I,F401", "--fix", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(FILE), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def prepared_call(request: type[CallRequest[Any]]) -> str:
    """Returns the function that makes the request of a method."""
    own = [parameter for parameter in parameters_of(request) if parameter.attribute not in ("dry_run", "idempotency_key")]
    fields = {field.name: field for field in dataclasses.fields(request)}
    signature = [declared(parameter, fields[parameter.attribute]) for parameter in own]
    arguments = [argument(parameter) for parameter in own]
    if "wait_for_tierer" in fields:
        signature.append("wait_for_tierer: bool = False")
        arguments.append("wait_for_tierer=wait_for_tierer")
    if request.pool is None:
        signature.append("on_progress: OnProgress | None = None")
    signature.append("**options: Unpack[CallOptions]" if issubclass(request, Mutation) else 'caller: str = ""')
    arguments.append("**options" if issubclass(request, Mutation) else "caller=caller")
    progress = ", on_progress" if request.pool is None else ""
    name = result_class(request).__name__
    annotation = name if result_class(request) is request.result_class else f"tuple[{name}, ...]"
    return (
        f"def {request.procedure}({', '.join(signature)}) -> PreparedCall[{annotation}]:\n"
        f'    """{request.comment}"""\n'
        f"    return PreparedCall({request.__name__}({', '.join(arguments)}){progress})\n\n"
    )


def declared(parameter: Parameter, field: dataclasses.Field[Any]) -> str:
    annotation = "TableName" if parameter.table_path else field.type
    default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
    return f"{IN_CLIENT.get(parameter.attribute, parameter.attribute)}: {annotation}{default}"


def argument(parameter: Parameter) -> str:
    name = IN_CLIENT.get(parameter.attribute, parameter.attribute)
    return f"{parameter.attribute}={f'path_of({name})' if parameter.table_path else name}"


def result_class(request: type[CallRequest[Any]]) -> type:
    """Returns the class of the result, or of its items."""
    return request.result_class if dataclasses.is_dataclass(request.result_class) else request.row_class  # type: ignore[return-value]


if __name__ == "__main__":
    FILE.write_text(rendered(), encoding="utf-8")
