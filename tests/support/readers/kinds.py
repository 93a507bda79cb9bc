"""The kinds of readers: of this environment, and of the readers' own one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyarrow import feather

from support.histories.go_program import GoProgram
from support.readers.environment import DUCKDB, READERS, Environment
from support.readers.questions import Answer, Question, error_text

SECONDS = 240
"""For all questions to a reader in a process of its own."""


@dataclass(frozen=True)
class OwnReader:
    """One of this environment: `read` answers one question, or raises."""

    name: str
    title: str
    read: Callable[[Question], pa.Table]

    def answers(self, questions: Sequence[Question]) -> list[Answer]:
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Answer:
        try:
            return self.read(question)
        except Exception as error:
            return error_text(error)


@dataclass(frozen=True)
class OutsideReader:
    """One of an environment of its own, `name` in `outside_readers.py`: a process answers all questions."""

    name: str
    title: str
    properties: Mapping[str, str]
    environment: Environment = READERS

    def answers(self, questions: Sequence[Question]) -> list[Answer]:
        self.environment.make()
        request = {"properties": dict(self.properties), "questions": [question.to_json() for question in questions]}
        return answers_of([self.environment.python, "-I", Path(__file__).with_name("outside_readers.py"), self.name], request)


@dataclass(frozen=True)
class GoReader:
    """The program in the folder `go` beside this file, around iceberg-go. A process answers all questions by the tables' metadata files."""

    name: str
    title: str
    metadata_location: Callable[[str], str]

    def answers(self, questions: Sequence[Question]) -> list[Answer]:
        located = [{**question.to_json(), "metadata": self.metadata_location(question.table)} for question in questions]
        return answers_of([ICEBERG_GO.build()], {"questions": located})


ICEBERG_GO = GoProgram(Path(__file__).parent / "go", "iceberg-go-reader")


def answers_of(command: Sequence[str | Path], request: object) -> list[Answer]:
    """Runs a program that answers questions in files of a folder, its last argument, and prints a list of errors as JSON."""
    with TemporaryDirectory() as folder:
        whole = [*command, folder]
        process = subprocess.run(whole, input=json.dumps(request), capture_output=True, text=True, timeout=SECONDS, check=False)
        assert process.returncode == 0, process.stderr[-2_000:]
        errors: list[str | None] = json.loads(process.stdout.splitlines()[-1])
        return [
            feather.read_table(Path(folder) / f"{number}.arrow", memory_map=False) if error is None else error
            for number, error in enumerate(errors)
        ]


if __name__ == "__main__":
    READERS.make()
    DUCKDB.make()
    ICEBERG_GO.build()
