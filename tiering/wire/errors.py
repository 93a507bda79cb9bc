"""Errors as messages and back. Executors send them too, so nothing here imports gRPC."""

from __future__ import annotations

from tiering import errors
from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text
from tiering.rpc.v1.common_pb2 import PbError

_OWN_ARGUMENTS = ("self", "message", "hint", "cause_class")
"""Names that no id of a message from outside may have: an error's constructor has parameters of that name."""


def error_to_pb(error: BaseException) -> PbError:
    """The error as a message. Errors of our tree were redacted and cut when they were made; any other is here, and keeps its class name."""
    if isinstance(error, errors.LakewardError):
        return PbError(
            error_class=error.error_class,
            message=sendable(error.message),
            hint=sendable(error.hint),
            retryable=error.retryable,
            ids={name: sendable(value) for name, value in error.ids.items()},
        )
    name = outside_text(type(error).__name__, NAME_TEXT_LIMIT)
    return PbError(error_class=name, message=sendable(outside_text(str(error)) or name), retryable=False)


def sendable(text: str) -> str:
    """`text` without lone surrogates, which a message cannot hold: Python makes them of a file name's bytes that are no UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def error_from_pb(pb: PbError) -> errors.LakewardError:
    """The error of a message, as its own class where this version has that, else as RoundFailed. Redacted and cut anew."""
    kind = getattr(errors, pb.error_class, None)
    ids = {name: value for name, value in pb.ids.items() if name not in _OWN_ARGUMENTS}
    if isinstance(kind, type) and issubclass(kind, errors.LakewardError) and kind is not errors.RoundFailed:
        return kind(pb.message, hint=pb.hint, **ids)
    return errors.RoundFailed(pb.message, cause_class=pb.error_class or "RoundFailed", hint=pb.hint, **ids)
