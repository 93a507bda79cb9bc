"""Errors over gRPC: the tree of `tiering.errors` to a status with details, and back.

The details (`PbError`) ride in the binary trailing metadata `lakeward-error-bin`, so that clients in any language
can show class and hint; the status code and its text alone say enough for a client that ignores them.
"""

from __future__ import annotations

from typing import cast

import grpc
from google.protobuf.message import DecodeError

from tiering import errors
from tiering.rpc.v1.common_pb2 import PbError
from tiering.wire.errors import error_from_pb, error_to_pb

ERROR_METADATA_KEY = "lakeward-error-bin"

_METADATA_BYTES = 3_072
_STATUS_TEXT_BYTES = 512
"""Peers refuse trailing metadata above 8 KiB. There the details grow by a third (base64), and the status text, which repeats
the message, to three times its size (percent-encoding)."""

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


def trailing_metadata(error: BaseException) -> tuple[tuple[str, bytes], ...]:
    """The details that a service sends behind a failed call. Texts that take more bytes than fit are cut, and ids left out."""
    pb = error_to_pb(error)
    excess = pb.ByteSize() - _METADATA_BYTES
    if excess > 0:
        pb.hint = _cut_bytes(pb.hint, _METADATA_BYTES // 3)
        pb.ids.clear()
        excess = pb.ByteSize() - _METADATA_BYTES
        pb.message = _cut_bytes(pb.message, len(pb.message.encode()) - max(excess, 0))
    return ((ERROR_METADATA_KEY, pb.SerializeToString()),)


def status_text(error: BaseException) -> str:
    """Message and hint, cut, for clients that ignore the metadata."""
    pb = error_to_pb(error)
    return _cut_bytes(f"{pb.message} ({pb.hint})" if pb.hint else pb.message, _STATUS_TEXT_BYTES)


def _cut_bytes(text: str, limit: int) -> str:
    """`text` within `limit` bytes of UTF-8, on a character boundary; the cut shows as an ellipsis."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: max(limit - len("…".encode()), 0)].decode(errors="ignore") + "…"


def error_from_rpc(error: grpc.RpcError, uri: str) -> errors.LakewardError:
    """The error that a client raises for a failed call to the service at `uri`."""
    call = cast("grpc.Call", error)  # every RpcError that a channel raises is one too
    for key, value in call.trailing_metadata() or ():
        if key == ERROR_METADATA_KEY and isinstance(value, bytes):
            try:
                return error_from_pb(PbError.FromString(value))
            except DecodeError:
                break  # not ours: the status has to do
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
