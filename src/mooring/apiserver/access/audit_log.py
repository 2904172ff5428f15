"""The audit log: one JSON object a line, as Kubernetes' audit.k8s.io/v1 at the level Metadata.

It records the user, the action, the object, the time and whether the request was allowed, but no content of objects. A
line is written before the last byte of the response is sent; for a watch, one line when it begins and one when it ends.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

from mooring.api import codec, protobuf, times, yaml_documents
from mooring.api.json_tree import DecodeError
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import PROTOBUF, YAML, Response
from mooring.base import logs
from mooring.base.clock import Clock

log = logs.get(__name__)
_LONGEST_URI = 4096


class AuditLogError(Exception):
    """The file of the audit log cannot be opened or written; the message names the file."""


class AuditLog:
    """The open audit log, to which lines are appended; to rotate it, move the file and restart the server."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise AuditLogError(f"cannot write the audit log {path}: {error.strerror}") from error

    def write(self, exchange: Exchange, stage: str = "ResponseComplete") -> None:
        """Append a line for a stage of a request. If writing fails, log that once; the request goes on."""
        line = msgspec.json.encode(_audit_event(exchange, stage, times.to_microseconds(self._clock.now()))) + b"\n"
        try:
            os.write(self._file, line)
        except OSError as error:
            if logs.once(("audit log", str(self._path), error.errno)):
                fields = {"file": str(self._path), "why": error.strerror}
                log.error("The audit log cannot be written", extra={"fields": fields})

    def close(self) -> None:
        os.close(self._file)


class _ObjectIdentity(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _IdentifiedObject(msgspec.Struct):
    metadata: _ObjectIdentity = msgspec.field(default_factory=_ObjectIdentity)


class _TableRow(msgspec.Struct):
    object: _IdentifiedObject = msgspec.field(default_factory=_IdentifiedObject)


class _CreatedObject(_IdentifiedObject):
    rows: list[_TableRow] = []


_CREATED_DECODER = msgspec.json.Decoder(_CreatedObject)


def created_by(response: Response) -> tuple[str, str]:
    """Return name and uid of the object in a create's response; two empty strings for an error or another body."""
    body = response.body
    if not isinstance(body, bytes) or not 200 <= response.status < 300:
        return "", ""
    try:
        if response.content_type == PROTOBUF:
            return protobuf.identity_of(body)
        found = _CREATED_DECODER.decode(body) if response.content_type != YAML else _decode_yaml(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, DecodeError):
        return "", ""
    metadata = found.rows[0].object.metadata if found.rows else found.metadata
    return metadata.name, metadata.uid


def _decode_yaml(body: bytes) -> _CreatedObject:
    return msgspec.convert(yaml_documents.read(body)[0].tree, _CreatedObject)


def _audit_event(exchange: Exchange, stage: str, now: str) -> dict[str, Any]:
    request = exchange.request
    who = exchange.user or request.user
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": request.request_id,
        "stage": stage,
        "requestURI": request.path[:_LONGEST_URI],
        "verb": exchange.verb or request.method.lower(),
        "user": codec.to_tree(who),
        "sourceIPs": [exchange.address] if exchange.address else [],
        "userAgent": request.user_agent[:200],
    }
    if who is not request.user:
        event["impersonatedUser"] = codec.to_tree(request.user)
    if exchange.route:
        route = exchange.route
        name, uid = exchange.created
        reference = {
            "resource": route.resource,
            "namespace": route.namespace,
            "name": route.name or name,
            "uid": uid,
            "apiGroup": route.group,
            "apiVersion": route.version,
            "subresource": route.subresource,
        }
        event["objectRef"] = {key: value for key, value in reference.items() if value}
    status: dict[str, Any] = {"metadata": {}, "code": exchange.code}
    if exchange.reason:
        status |= {"status": "Failure", "reason": exchange.reason}
    event["responseStatus"] = status
    event["requestReceivedTimestamp"] = times.to_microseconds(exchange.received)
    event["stageTimestamp"] = now
    if exchange.allowed_by or exchange.code == 403:  # else authorization was not reached
        event["annotations"] = {
            "authorization.k8s.io/decision": "allow" if exchange.allowed_by else "forbid",
            "authorization.k8s.io/reason": exchange.allowed_by,
            **request.audit_annotations,
        }
    return event
