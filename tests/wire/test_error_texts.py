"""A sender shortens and redacts an error before it leaves the process: message, hint, class and ids, on every path.

Each text has a secret in front and one where a cut at its limit would fall, and is much longer than the limit. A test here fails
when the cut or the redaction of any of these texts is taken out of the sender; what the receiver does to them decides nothing.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tiering.errors import LakeUnavailable, LakewardError, RoundFailed
from tiering.lake.base import WriterInitContext
from tiering.model.rounds import Assignment, Phase, RoundState
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TablePath
from tiering.redaction.redact import MESSAGE_LIMIT, NAME_TEXT_LIMIT
from tiering.round.messages import RoundReport, report_to_pb
from tiering.round.ports import SplitTask
from tiering.round.steps.actions import RoundOutcome
from tiering.round.tasks.executor import EncodedTask, executor_work
from tiering.round.tasks.split_work import as_lakeward_error
from tiering.rpc.v1.common_pb2 import PbError
from tiering.rpc.v1.coordinator_pb2 import PbHeartbeatReqForTable
from tiering.wire.error_status import error_in_status, error_status
from tiering.wire.errors import error_to_pb

SECRET = "hunter2Xq9"
LONG = (f"password={SECRET} " + "x" * 50 + " ") * 1_000
ESCAPE = "\x1b[2J"
TEXT = ESCAPE + LONG
PATH = TablePath("sales", "orders")
STATUS_BYTES = 8 << 10
"""Most bytes of trailing metadata that gRPC's peers accept."""

OURS = LakeUnavailable(TEXT, hint=TEXT, path=TEXT)
WRAPPED = RoundFailed(TEXT, cause_class=TEXT, hint=TEXT, path=TEXT)
FOREIGN = ValueError(TEXT)


def assert_clean(text: str, limit: int = MESSAGE_LIMIT) -> None:
    assert text, "the text did not travel"
    assert len(text) <= limit
    assert SECRET not in text
    assert "\x1b" not in text


def assert_details_clean(message: PbError, *, hint: bool = True) -> None:
    assert_clean(message.message)
    assert_clean(message.error_class, NAME_TEXT_LIMIT)
    if hint:
        assert_clean(message.hint)
    for value in message.ids.values():
        assert_clean(value)


@pytest.mark.parametrize("error", [OURS, WRAPPED, as_lakeward_error(FOREIGN), as_lakeward_error(OSError(TEXT))])
def test_a_heartbeat_reports_a_failed_round_with_clean_texts(error: LakewardError) -> None:
    assignment = Assignment(table_id=1, path=PATH, tiering_epoch=1, coordinator_epoch=1, round_id="r1")
    report = RoundReport(assignment, RoundOutcome(RoundState.FAILED, error=error, phase=Phase.READ))
    sent = PbHeartbeatReqForTable.FromString(report_to_pb(report).SerializeToString())
    assert_clean(sent.error_message)
    assert_clean(sent.error_class, NAME_TEXT_LIMIT)
    if error.hint:
        assert_clean(sent.error_hint)
    assert bool(sent.error_hint) == bool(error.hint)


@dataclass
class FailingLake:
    """A factory whose writer cannot be made. Pickles."""

    error: BaseException

    def create_writer(self, context: WriterInitContext) -> Any:
        if isinstance(self.error, LakeUnavailable):
            raise LakeUnavailable(TEXT, hint=TEXT, path=TEXT)  # errors of ours lose their hint when they are pickled
        raise self.error


@pytest.mark.parametrize("error", [OURS, FOREIGN, OSError(TEXT)])
def test_an_executor_sends_the_error_of_its_task_with_clean_texts(error: BaseException) -> None:
    bucket = BucketKey(None, 0)
    context: Any = replace(WriterInitContext(None, "uuid", bucket, None, "round", ""))  # type: ignore[arg-type]
    task = SplitTask(None, TieringLogSplit(PATH, bucket, None, 0, 1, 1), FailingLake(error), context)  # type: ignore[arg-type]
    [outcome] = executor_work(60_000, 1)([[EncodedTask(0, pickle.dumps(task))]])
    assert outcome.error is not None
    message = PbError.FromString(outcome.error)
    assert_details_clean(message, hint=not isinstance(error, ValueError))


@pytest.mark.parametrize("error", [OURS, WRAPPED, FOREIGN])
def test_a_service_ends_a_call_with_clean_texts_that_fit_the_trailers(error: BaseException) -> None:
    status = error_status(error)
    sent = error_in_status(status)
    assert sent is not None
    assert_details_clean(sent, hint=error is not FOREIGN)
    assert_clean(status.message, 512)
    assert status.ByteSize() * 4 / 3 + len(status.message.encode()) * 3 < STATUS_BYTES


def test_details_in_other_scripts_fit_the_trailers_too() -> None:
    status = error_status(LakeUnavailable("日" * 10_000, hint="本" * 10_000, path="語" * 10_000))
    assert status.ByteSize() * 4 / 3 + len(status.message.encode()) * 3 < STATUS_BYTES
    message = error_in_status(status)
    assert message is not None
    assert message.message.startswith("日")
    assert message.hint.startswith("本")


@pytest.mark.parametrize("error", [OURS, WRAPPED, FOREIGN])
def test_an_error_inside_an_answer_has_clean_texts(error: BaseException) -> None:
    """BeginLakeCommit, heartbeats' answers and ReadAllTables carry errors in their messages."""
    assert_details_clean(error_to_pb(error), hint=error is not FOREIGN)
