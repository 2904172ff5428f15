"""The errors of calls to webhooks, with kube-apiserver's messages. Used by ``caller.py``."""

import os
import socket
import ssl
from urllib.parse import urlsplit

import msgspec

from mooring.api.meta_v1 import Status
from mooring.api.quoting import go_quote
from mooring.client.errors import ClientError, ConnectError, DeadlineError, DisconnectedError
from mooring.client.transport import Response

_LONGEST_TEXT = 2048
_EXPIRED, _HOST_MISMATCH, _ADDRESS_MISMATCH = 10, 62, 64  # OpenSSL's codes
_BY_CODE = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_STATUS = msgspec.json.Decoder(Status, strict=False)


class WebhookError(Exception):
    """A call to a webhook failed; the message says why, and the code is for metrics."""

    def __init__(self, message: str, code: int = 503) -> None:
        super().__init__(message)
        self.code = code


def describe_failure(server: str, name: str, error: ClientError) -> str:
    """Return why a call had no response; `name` is the host name expected in the certificate."""
    if isinstance(error, DeadlineError):
        return "context deadline exceeded"
    if isinstance(error, DisconnectedError):
        return "EOF"
    cause = error.__cause__
    if not isinstance(error, ConnectError) or cause is None:
        return str(error)
    parts = urlsplit(server)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_describe_distrust(cause, name or parts.hostname or '')}"
    if isinstance(cause, socket.gaierror):
        return f"dial tcp: lookup {parts.hostname}: no such host"
    number = getattr(cause, "errno", None)
    why = os.strerror(number) if number else str(cause)  # event loops have other texts
    return f"dial tcp {parts.netloc}: connect: {why.lower()}"


def _describe_distrust(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code == _EXPIRED:
        return "certificate has expired or is not yet valid"
    if error.verify_code in (_HOST_MISMATCH, _ADDRESS_MISMATCH):
        return f"certificate is not valid for {host}"
    return "certificate signed by unknown authority"


def make_status_error(response: Response) -> WebhookError:
    """Return the error for a webhook response whose HTTP status is no success."""
    is_text = response.headers.get("content-type", "").startswith("text/")
    text = response.body[:_LONGEST_TEXT].decode(errors="replace").strip() if is_text else "unknown"
    failure = None if is_text else _parse_failure(response.body)
    if failure is not None:
        return WebhookError(failure.message or "unknown", failure.code or response.status)
    return WebhookError(_describe_status(response.status, text), response.status)


def _describe_status(status: int, text: str) -> str:
    if status in (403, 406, 415):
        return text
    if status in _BY_CODE:
        return _BY_CODE[status]
    if status >= 500:
        return f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


def _parse_failure(body: bytes) -> Status | None:
    """Return the Status in a response body if it is one that reports a failure; otherwise None."""
    try:
        found = _STATUS.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return found if found.kind == "Status" and found.status == "Failure" else None
