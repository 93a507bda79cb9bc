"""Opens a client's channel: with or without TLS, and with the token in the headers of each call.

Tokens are put in by interceptors and not by gRPC's call credentials, which refuse connections without TLS: a service on loopback has a
token and no certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tiering.access.authentication import AUTHORIZATION
from tiering.access.client_access import ClientAccess, TokenSource
from tiering.errors import SetupError

Options = Sequence[tuple[str, Any]]


def open_channel(target: str, access: ClientAccess, token: Callable[[], str | None], options: Options) -> grpc.Channel:
    """Opens a channel to `target`, in gRPC's spelling. `token` returns the token of a call, in the thread of its caller.

    Raises SetupError for files of TLS that cannot be read.
    """
    credentials = channel_credentials(access)
    if credentials is None:
        channel = grpc.insecure_channel(target, options=options)
    else:
        channel = grpc.secure_channel(target, credentials, options=options)
    return grpc.intercept_channel(channel, _SentToken(token))


def open_async_channel(target: str, source: TokenSource, options: Options) -> grpc.aio.Channel:
    """Opens a channel for asyncio."""
    credentials = channel_credentials(source.access)
    interceptors: list[Any] = [kind(source) for kind in (_AsyncUnaryUnary, _AsyncUnaryStream, _AsyncStreamUnary, _AsyncStreamStream)]
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=options, interceptors=interceptors)
    return grpc.aio.secure_channel(target, credentials, options=options, interceptors=interceptors)


def channel_credentials(access: ClientAccess) -> grpc.ChannelCredentials | None:
    """Returns the credentials for TLS; None without TLS. Raises SetupError."""
    if not access.is_encrypted:
        if access.tls_key is not None:
            raise SetupError("--tls-key names a key without a certificate", hint="Name its certificate with --tls-cert.")
        return None
    if (access.tls_cert is None) != (access.tls_key is None):
        raise SetupError("--tls-cert and --tls-key belong together, but only one of them is set", hint="Name both, or neither.")
    return grpc.ssl_channel_credentials(
        root_certificates=_read(access.tls_ca, "--tls-ca"),
        private_key=_read(access.tls_key, "--tls-key"),
        certificate_chain=_read(access.tls_cert, "--tls-cert"),
    )


def _read(path: Path | None, option: str) -> bytes | None:
    if path is None:
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SetupError(f"the file {path} of {option} cannot be read: {error.strerror}", hint="Check its path and its rights.") from error
    if b"-----BEGIN " not in content:
        raise SetupError(f"the file {path} of {option} is no PEM", hint="It begins with a line -----BEGIN ...-----.")
    return content


class _SentToken(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[type-arg]  # generic in their stubs alone
    grpc.UnaryStreamClientInterceptor,  # type: ignore[type-arg]
    grpc.StreamUnaryClientInterceptor,  # type: ignore[type-arg]
    grpc.StreamStreamClientInterceptor,  # type: ignore[type-arg]
):
    def __init__(self, token: Callable[[], str | None]) -> None:
        self._token = token

    def _intercepted(self, continuation: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        token = self._token()
        return continuation(details if token is None else _CallDetails(details, token), request)

    intercept_unary_unary = _intercepted  # type: ignore[assignment]  # one for all kinds
    intercept_unary_stream = _intercepted  # type: ignore[assignment]  # one for all kinds
    intercept_stream_unary = _intercepted  # type: ignore[assignment]  # one for all kinds
    intercept_stream_stream = _intercepted  # type: ignore[assignment]  # one for all kinds


class _CallDetails(grpc.ClientCallDetails):
    """The details of a call, with the token in its headers."""

    def __init__(self, details: Any, token: str) -> None:
        self.method = details.method
        self.timeout = details.timeout
        self.metadata = (*(details.metadata or ()), _header(token))
        self.credentials = details.credentials
        self.wait_for_ready = details.wait_for_ready
        self.compression = details.compression


def _header(token: str) -> tuple[str, str]:
    return AUTHORIZATION, f"Bearer {token}"


class _AsyncSentToken:
    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def _intercepted(self, continuation: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        token = self._source.token()
        if token is not None:
            metadata = grpc.aio.Metadata(*(details.metadata or ()), _header(token))
            details = details._replace(metadata=metadata)
        return await continuation(details, request)


class _AsyncUnaryUnary(_AsyncSentToken, grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[type-arg]  # as above
    intercept_unary_unary = _AsyncSentToken._intercepted  # type: ignore[assignment]


class _AsyncUnaryStream(_AsyncSentToken, grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[type-arg]
    intercept_unary_stream = _AsyncSentToken._intercepted  # type: ignore[assignment]


class _AsyncStreamUnary(_AsyncSentToken, grpc.aio.StreamUnaryClientInterceptor):  # type: ignore[type-arg]
    intercept_stream_unary = _AsyncSentToken._intercepted  # type: ignore[assignment]


class _AsyncStreamStream(_AsyncSentToken, grpc.aio.StreamStreamClientInterceptor):  # type: ignore[type-arg]
    intercept_stream_stream = _AsyncSentToken._intercepted  # type: ignore[assignment]
