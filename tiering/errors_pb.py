"""Errors as messages, without gRPC: executors send them too, and never import it."""

from __future__ import annotations

from tiering import errors
from tiering.redact import NAME_TEXT_LIMIT, outside_text
from tiering.rpc.v1.common_pb2 import PbError


def to_pb(error: BaseException) -> PbError:
    """The error as it travels. One outside the tree keeps its class name, and is redacted and cut here."""
    if isinstance(error, errors.LakewardError):
        return PbError(
            error_class=error.error_class,
            message=error.message,
            hint=error.hint,
            retryable=error.retryable,
            ids=error.ids,
        )
    name = outside_text(type(error).__name__, NAME_TEXT_LIMIT)
    return PbError(error_class=name, message=outside_text(str(error)) or name, retryable=False)


def from_pb(pb: PbError) -> errors.LakewardError:
    """The error again, as its own class where this version knows it."""
    kind = getattr(errors, pb.error_class, None)
    if isinstance(kind, type) and issubclass(kind, errors.LakewardError) and kind is not errors.RoundFailed:
        return kind(pb.message, hint=pb.hint, **pb.ids)
    return errors.RoundFailed(pb.message, cause_class=pb.error_class or "RoundFailed", hint=pb.hint, **pb.ids)
