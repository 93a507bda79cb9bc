"""Runs in dbt's environment, which has nothing of this project: runs dbt commands in one process, so that they share one Spark session.

Standard input is a JSON list of commands, each a list of words. Standard output's last line is a JSON list of their outcomes
(`support.dbt.project.Outcome`).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from dbt.cli.main import dbtRunner


def outcome(words: list[str]) -> dict[str, Any]:
    answer = dbtRunner().invoke(words)
    results = getattr(answer.result, "results", None) or []
    nodes = {name(result): [str(result.status), result.message or ""] for result in results}
    return {"success": answer.success, "error": str(answer.exception or ""), "nodes": nodes}


def name(result: Any) -> str:
    """The name of the model, test, source or macro that a result is about. The result of an operation has no node."""
    node = getattr(result, "node", None)
    return str(node.name if node else result.unique_id.rpartition(".")[2])


if __name__ == "__main__":
    outcomes = [outcome(words) for words in json.load(sys.stdin)]
    print("\n" + json.dumps(outcomes))
