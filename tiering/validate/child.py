"""Runs a validation in a child process, which may be killed or crash without harm.

`ClusterValidation.run` starts `python -m tiering.validate.child`, writes the request as JSON to its stdin, and reads one JSON line per
check, then `done` or the error. Secrets of the lake's catalog travel on stdin, never on the command line.

Only the child imports the libraries that read lake and log: importing DuckDB, pyiceberg and SQLAlchemy takes longer than a small table.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from tiering.child_process import module_command
from tiering.cluster.base import SplitSource
from tiering.cluster.registry import EMBEDDED, ClusterAddress, cluster_kind
from tiering.errors import LakewardError, RoundFailed
from tiering.model.names import table_path
from tiering.model.tables import TablePath
from tiering.procedures.validate_table import CheckResult
from tiering.rpc.v1.common_pb2 import PbError
from tiering.validate.archive.spark_reader import NOT_ASKED, SparkReader
from tiering.validate.results import DEFAULT_MEMORY_LIMIT, Level
from tiering.wire.errors import error_from_pb, error_to_pb


@dataclass(frozen=True)
class ClusterValidation:
    """Validates tables of one cluster, each in a child process. `lake_format`: the lake format of a deployment beside Fluss.

    `cluster_folder`: folder of the coordinator, which is only read; `cluster_properties` override its contents. None: only
    `cluster_properties` say how to connect, as for a tierer, and `cluster_id` names the cluster.
    """

    cluster_kind: str
    cluster_folder: Path | str | None
    lake_format: str
    lake_properties: Mapping[str, str] = field(repr=False)
    memory_limit: str = DEFAULT_MEMORY_LIMIT
    cluster_id: str = ""
    cluster_properties: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, path: TablePath, level: str, snapshot_id: int | None = None, started: Callable[[subprocess.Popen[str]], None] = lambda _: None
    ) -> Sequence[CheckResult]:
        """Returns one row per check. `started` gets the process, so that another thread can kill it.

        Raises what `validate` raises, SetupError (no such folder), RoundFailed if the process dies.
        """
        request = {"table": vars(path), "level": level.lower(), "snapshot_id": snapshot_id, "proves": False}
        return [CheckResult.from_plain(message) for message in self._answers(path, request, started)]

    def prove(
        self,
        path: TablePath,
        snapshot_id: int | None = None,
        started: Callable[[subprocess.Popen[str]], None] = lambda _: None,
        spark: SparkReader = NOT_ASKED,
    ) -> dict[str, Any]:
        """Returns the content of a proof (`tiering.validate.archive.document`). Raises as `run` does. `spark` counts the rows, too."""
        request = {"table": vars(path), "level": Level.ROWS.value, "snapshot_id": snapshot_id, "proves": True, "spark": vars(spark)}
        [document] = self._answers(path, request, started)
        return document

    def _answers(
        self, path: TablePath, request: Mapping[str, Any], started: Callable[[subprocess.Popen[str]], None]
    ) -> list[dict[str, Any]]:
        command = module_command("tiering.validate.child")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            started(process)
            try:
                answers, complaints = process.communicate(json.dumps({"cluster": vars(self), **request}, default=_plain))
            except BaseException:
                process.kill()
                raise
        results: list[dict[str, Any]] = []
        for line in answers.splitlines():
            message = json.loads(line)
            if "error" in message:
                raise error_from_pb(PbError.FromString(base64.b64decode(message["error"])))
            if "done" in message:
                return results
            results.append(message)
        raise RoundFailed(
            f"the validation of {path} died with status {process.returncode}: {complaints.strip()[-500:]}",
            cause_class="ValidationDied",
            hint="Was it killed, or did the machine run out of memory? Nothing was changed; run it again, with less memory if need be.",
        )

    def format_of(self, cluster: SplitSource, path: TablePath) -> str:
        """Returns the format of the table's lake copy. A deployment with its own cluster writes tables of all formats.

        Raises UnknownTable, UnknownDatabase.
        """
        return cluster.table(path).lake_format if self.cluster_kind == EMBEDDED else self.lake_format

    def open_cluster(self) -> SplitSource:
        """Opens the cluster, which the caller closes. Raises SetupError."""
        kind = cluster_kind(self.cluster_kind)
        if self.cluster_folder is not None:
            return kind.open_read_only(Path(self.cluster_folder), self.cluster_properties)
        return kind.connect(ClusterAddress("", self.cluster_id, self.cluster_properties))


def _plain(value: object) -> object:
    """Returns a value of a request that JSON does not know."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def main(source: IO[str], sink: IO[str]) -> None:
    """Runs in the child process."""
    from tiering.lake.registry import is_read_without_pandas

    try:
        request = json.load(source)
        validation = ClusterValidation(**request["cluster"])
        with closing(validation.open_cluster()) as cluster:
            path = table_path(**request["table"])
            lake_format = validation.format_of(cluster, path)
            if is_read_without_pandas(lake_format):
                keep_pandas_out()
            answers = _answers(validation, cluster, lake_format, path, request)
        for answer in answers:
            _send(sink, answer)
        _send(sink, {"done": True})
    except LakewardError as error:
        _send(sink, {"error": base64.b64encode(error_to_pb(error).SerializeToString()).decode("ascii")})


def _answers(
    validation: ClusterValidation, cluster: SplitSource, lake_format: str, path: TablePath, request: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Returns the results of the checks, or the proof."""
    from tiering.lake.registry import open_lake
    from tiering.validate.run import validate  # after `keep_pandas_out`, because its imports look for pandas

    lake, level, limit = open_lake(lake_format, validation.lake_properties), Level(request["level"]), validation.memory_limit
    if not request["proves"]:
        return [result.to_plain() for result in validate(cluster, lake, path, level, request["snapshot_id"], memory_limit=limit)]
    from tiering.validate.archive.document import ProofWitness

    witness = ProofWitness(validation.cluster_kind, spark=SparkReader(**request["spark"]))
    results = validate(cluster, lake, path, level, request["snapshot_id"], memory_limit=limit, witness=witness)
    return [witness.document(results)]


def _send(sink: IO[str], message: Mapping[str, Any]) -> None:
    sink.write(json.dumps(message) + "\n")


class _PandasBlocker(MetaPathFinder):
    """Answers the search for pandas as if it were not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("this process works without pandas", name=name)
        return None


def keep_pandas_out() -> None:
    """Makes pandas count as not installed in this process from now on.

    pyiceberg reads files with pyarrow's datasets, which import pandas only for its types. That takes 0.2 s of a core, as much as all other
    work of a small validation.
    """
    sys.meta_path.insert(0, _PandasBlocker())


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
