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

from support.readers import environment
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
    """One of the readers' own environment, `name` in `outside_readers.py`: a process answers all questions."""

    name: str
    title: str
    properties: Mapping[str, str]

    def answers(self, questions: Sequence[Question]) -> list[Answer]:
        request = json.dumps({"properties": dict(self.properties), "questions": [question.to_json() for question in questions]})
        script = Path(__file__).with_name("outside_readers.py")
        with TemporaryDirectory() as folder:
            command = [environment.python(), "-I", script, self.name, folder]
            process = subprocess.run(command, input=request, capture_output=True, text=True, timeout=SECONDS, check=False)
            assert process.returncode == 0, process.stderr[-2_000:]
            errors: list[str | None] = json.loads(process.stdout.splitlines()[-1])
            return [
                feather.read_table(Path(folder) / f"{number}.arrow", memory_map=False) if error is None else error
                for number, error in enumerate(errors)
            ]
