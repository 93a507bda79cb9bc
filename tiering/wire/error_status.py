"""Errors over gRPC: the tree of `tiering.errors` as a `google.rpc.Status`, and back.

The status travels in the trailing metadata `grpc-status-details-bin`, which gRPC clients of every language read. Its details are standard
messages: ErrorInfo has the error class as its reason and the ids as its metadata, LocalizedMessage has the whole message, Help has the
hint, and RetryInfo is there if the same call may succeed later. The code and the text of the status are enough for a client that ignores
the details.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo, Help, LocalizedMessage, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from tiering import errors
from tiering.rpc.v1.common_pb2 import PbError
from tiering.wire.errors import error_from_pb, error_to_pb

DOMAIN = "lakeward"
"""Domain of the ErrorInfo of each error of `tiering.errors`."""

_DETAIL_BYTES = 3_072
_STATUS_TEXT_BYTES = 512
"""Peers refuse trailing metadata above 8 KiB. There the details grow by a third (base64), and the status text, which repeats
the message, to three times its size (percent-encoding)."""

_RETRY_DELAY = Duration(seconds=1)

_CODES: tuple[tuple[type[errors.LakewardError], grpc.StatusCode], ...] = (
    (errors.UnknownDatabase, grpc.StatusCode.NOT_FOUND),
    (errors.UnknownTable, grpc.StatusCode.NOT_FOUND),
    (errors.UnknownPartition, grpc.StatusCode.NOT_FOUND),
    (errors.UnknownProcedure, grpc.StatusCode.NOT_FOUND),
    (errors.UnknownLease, grpc.StatusCode.NOT_FOUND),
    (errors.StatementOutdated, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.AlreadyExists, grpc.StatusCode.ALREADY_EXISTS),
    (errors.LakeDisabled, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.TablePaused, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.BadRequest, grpc.StatusCode.INVALID_ARGUMENT),
    (errors.Fenced, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.PermanentTieringError, grpc.StatusCode.FAILED_PRECONDITION),
    (errors.DataCorrupt, grpc.StatusCode.DATA_LOSS),
    (errors.TransientTieringError, grpc.StatusCode.UNAVAILABLE),
    (errors.StoreError, grpc.StatusCode.UNAVAILABLE),
    (errors.Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (errors.AccessDenied, grpc.StatusCode.PERMISSION_DENIED),
    (errors.ServiceUnreachable, grpc.StatusCode.UNAVAILABLE),
    (errors.ServiceBusy, grpc.StatusCode.RESOURCE_EXHAUSTED),
)


_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
"""Codes of a call for which there is no server, whose server does not answer in time, or is stopped meanwhile."""


def status_code(error: BaseException) -> grpc.StatusCode:
    """The gRPC code nearest in meaning; INTERNAL for an error that is none of ours."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def error_status(error: BaseException) -> Status:
    """The status with which a service ends a failed call.

    Its text has message and hint, cut. If the details take more bytes than fit, it cuts their texts and leaves out the ids.
    """
    pb = error_to_pb(error)
    text = _cut_bytes(f"{pb.message} ({pb.hint})" if pb.hint else pb.message, _STATUS_TEXT_BYTES)
    excess = pb.ByteSize() - _DETAIL_BYTES
    if excess > 0:
        pb.hint = _cut_bytes(pb.hint, _DETAIL_BYTES // 3)
        pb.ids.clear()
        excess = pb.ByteSize() - _DETAIL_BYTES
        pb.message = _cut_bytes(pb.message, len(pb.message.encode()) - max(excess, 0))
    details: list[ErrorInfo | LocalizedMessage | Help | RetryInfo] = [
        ErrorInfo(reason=pb.error_class, domain=DOMAIN, metadata=pb.ids),
        LocalizedMessage(locale="en", message=pb.message),
    ]
    if pb.hint:
        details.append(Help(links=[Help.Link(description=pb.hint)]))
    if pb.retryable:
        details.append(RetryInfo(retry_delay=_RETRY_DELAY))
    status = Status(code=status_code(error).value[0], message=text)
    for detail in details:
        status.details.add().Pack(detail)
    return status


def _cut_bytes(text: str, limit: int) -> str:
    """`text` within `limit` bytes of UTF-8, on a character boundary; the cut shows as an ellipsis."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: max(limit - len("…".encode()), 0)].decode(errors="ignore") + "…"


def error_from_rpc(error: grpc.RpcError, uri: str) -> errors.LakewardError:
    """The error that a client raises for a failed call to the service at `uri`."""
    call: Any = error  # a channel raises only errors that are calls too
    sent = sent_error(call)
    if sent is not None:
        return error_from_pb(sent)
    code, details = call.code(), call.details() or ""
    if code in _AWAY:
        return errors.ServiceUnreachable(
            f"no Lakeward service answers at {uri}: {details}",
            hint="Check the uri, and that `lakeward up` or `lakeward coordinator` runs there.",
        )
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        # gRPC on either side refuses too many calls, and messages above its limit.
        return errors.ServiceBusy(f"the call to the service at {uri} was refused: {details}", hint="Ask for less at once, or try again.")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return errors.Unauthenticated(f"the service at {uri} does not know who calls: {details}")
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return errors.AccessDenied(f"the service at {uri} refuses the call: {details}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return errors.PeerTooOld(f"the service at {uri} does not offer this call (UNIMPLEMENTED): {details}", hint="Update the service.")
    return errors.RoundFailed(f"the service at {uri} failed ({code.name}): {details}", cause_class="ServiceError")


def sent_error(call: Any) -> PbError | None:
    """The error in the status of a failed call; None if `error_status` did not make the status."""
    try:
        status = rpc_status.from_call(call)
        return None if status is None else error_in_status(status)
    except (ValueError, DecodeError):  # the details of another service, or changed on their way
        return None


def error_in_status(status: Status) -> PbError | None:
    """The error of which `error_status` made the status; None for another status. Raises DecodeError."""
    info, message, hint = ErrorInfo(), LocalizedMessage(), Help()
    for detail in status.details:
        any(detail.Unpack(part) for part in (info, message, hint))
    if info.domain != DOMAIN:
        return None
    text = "".join(link.description for link in hint.links)
    return PbError(error_class=info.reason, message=message.message, hint=text, ids=info.metadata)
