"""Replay requests recorded from kube-apiserver: through admission alone, or against a running server.

Each line of a file is a request with its response. Without a server every create is decoded, admitted and compared;
requests that need stored objects are left out and counted. With ``--server`` every request is sent as recorded.

Equal means: the same code; for a Status the same reason and the same causes; for an object the same spec, defaults
included, and the same labels. Messages that quote Go may differ, and times that the server sets are compared by
presence.
"""

import argparse
import http.client
import json
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mooring.admission.options import AdmissionOptions, for_component
from mooring.admission.pipeline import admit_create
from mooring.admission.strategy import Request
from mooring.api import codec, errors
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.base import component
from mooring.testing.replay import Result, UnreadableFileError, replay_files, report_wrong_form

RECORDED_GATES = "TolerationAffinitySemverOperators=false,TaintTolerationNodeAffinityCEL=false"
"""The recorded server has neither gate."""
_GO_TEXTS = ("json: cannot unmarshal", "strconv.")
_TIMEOUT_SECONDS = 30
_SCHEME = Scheme()


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: the HTTP code and the body, decoded if it is JSON."""

    code: int
    body: Any


@dataclass(frozen=True, slots=True)
class Case:
    """A recorded request with its response."""

    name: str
    method: str
    path: str
    query: str
    body: Any
    answer: Answer
    content_type: str = "application/json"

    @classmethod
    def parse(cls, line: str) -> "Case":
        """Parse a line of a file of recordings; raise `ValueError`, `KeyError` or `TypeError`."""
        recorded = json.loads(line)
        response = recorded["response"]
        answer = Answer(int(response["code"]), response["body"])
        query, body = recorded.get("query") or "", recorded.get("body")
        given = recorded.get("contentType") or "application/json"
        return cls(str(recorded["id"]), str(recorded["method"]), str(recorded["path"]), query, body, answer, given)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", metavar="URL", help="send the requests to this server instead")
    parser.add_argument("--token", help="the bearer token to send with them")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="the certificate authority to trust")
    parser.add_argument(
        "--feature-gates", default=RECORDED_GATES, help="gates of admission without a server (default: as recorded)"
    )


def run(args: argparse.Namespace) -> Result:
    if args.server:
        with closing(_Server(args.server, args.token, args.ca)) as server:
            return replay_files(args.files, lambda file: replay(file, server.answer))
    admission = _Admission(for_component(component.resolve(gates=args.feature_gates)))
    return replay_files(args.files, lambda file: replay(file, admission.answer))


def replay(file: Path, answer: Callable[[Case], Answer | str]) -> Result:
    """Replay one file. `answer` returns a response, or the reason why there is none."""
    result = Result()
    for case in _cases(file):
        name = f"{file.name} {case.name}"
        given = answer(case)
        if isinstance(given, str):
            result.left_out.append(f"{name}: {given}")
        else:
            result.count(name, next(_differences(case.answer, given), None))
    return result


def _cases(file: Path) -> Iterator[Case]:
    try:
        lines = file.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise UnreadableFileError(f"{file}: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            with report_wrong_form(f"{file}:{number}"):
                case = Case.parse(line)
            yield case


# -- admission alone


@dataclass(frozen=True, slots=True)
class _Admission:
    options: AdmissionOptions

    def answer(self, case: Case) -> Answer | str:
        """Decode and admit the object of a create; return the reason why other requests need a server."""
        if case.method != "POST":
            return "only creates can be replayed without a server"
        if case.answer.code == 404:
            return "only a server knows what exists"
        namespace, kind = _target(case.path)
        if kind is None:
            return f"no kind is served at {case.path}"
        try:
            obj = _decode_object(case, kind)
            request = Request(options=self.options, now=datetime.now(UTC), namespace=namespace)
            admitted = admit_create(_SCHEME.convert(obj, _SCHEME.hub(kind)), request)
            shown = _SCHEME.convert(admitted.object, kind)
        except errors.StatusError as refusal:
            return Answer(refusal.code, codec.to_tree(refusal.status))
        return Answer(201, json.loads(codec.encode(shown)))


def _target(path: str) -> tuple[str, Kind | None]:
    """Return the namespace and the kind of a collection's path."""
    parts = path.strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    return namespace, _SCHEME.resource(group, version, rest[0])


def _decode_object(case: Case, kind: Kind) -> Resource:
    wanted = parse_qs(case.query).get("fieldValidation", [FieldValidation.WARN.value])[0]
    try:
        validation = FieldValidation(wanted)
    except ValueError:
        raise errors.bad_request(f"fieldValidation {wanted!r} is none of {', '.join(FieldValidation)}") from None
    subject = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    given = (case.body.get("apiVersion") or kind.api_version, case.body.get("kind") or kind.kind)
    if given != (kind.api_version, kind.kind):
        raise errors.bad_request(f'{subject}: no kind "{given[1]}" is registered for version "{given[0]}"')
    try:
        obj = codec.decode(json.dumps(case.body).encode(), kind.type, validation).object
    except DecodeError as error:
        raise errors.bad_request(f"{subject}: {error}") from error
    obj.api_version, obj.kind = given
    return obj


# -- a running server


class _Server:
    def __init__(self, url: str, token: str | None, ca: Path | None) -> None:
        self._url = urlsplit(url)
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise UnreadableFileError(f"--server: {url} is not a URL such as https://127.0.0.1:6443")
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._tls = ssl.create_default_context(cafile=str(ca) if ca else None)
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)

    def close(self) -> None:
        self._connection.close()

    def answer(self, case: Case) -> Answer:
        target = f"{self._url.path.rstrip('/')}{case.path}{'?' + case.query if case.query else ''}"
        body = None if case.body is None else json.dumps(case.body)
        try:
            headers = {**self._headers, "Content-Type": case.content_type}
            self._connection.request(case.method, target, body, headers)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise UnreadableFileError(f"{self._url.geturl()}: {error}") from error
        try:
            return Answer(response.status, json.loads(text))
        except ValueError:
            return Answer(response.status, text.decode(errors="replace"))


# -- comparison


def _differences(recorded: Answer, given: Answer) -> Iterator[str]:
    if recorded.code != given.code:
        yield f"code {given.code} instead of {recorded.code}: {_message(given.body)}"
        return
    wanted = recorded.body
    if not isinstance(wanted, dict):
        return
    if not isinstance(given.body, dict):
        yield f"the body is not an object: {given.body!r:.200}"
    elif wanted.get("kind") == "Status":
        yield from _status_differences(wanted, given.body)
    else:
        yield from _object_differences(wanted, given.body)


def _message(body: Any) -> str:
    return str(body.get("message", "")) if isinstance(body, dict) else str(body)[:200]


def _status_differences(wanted: dict[str, Any], given: dict[str, Any]) -> Iterator[str]:
    if wanted.get("reason") != given.get("reason"):
        yield f"reason {given.get('reason')} instead of {wanted.get('reason')}"
    missing, extra = _causes(wanted) - _causes(given), _causes(given) - _causes(wanted)
    if missing or extra:
        yield f"causes: missing {sorted(missing)}, not recorded {sorted(extra)}"


def _causes(status: dict[str, Any]) -> Counter[tuple[str, str, str]]:
    causes = (status.get("details") or {}).get("causes") or []
    return Counter((cause.get("reason", ""), cause.get("field", ""), _message_to_compare(cause)) for cause in causes)


def _message_to_compare(cause: dict[str, Any]) -> str:
    message = str(cause.get("message", ""))
    return "…" if any(words in message for words in _GO_TEXTS) else message


def _object_differences(wanted: dict[str, Any], given: dict[str, Any]) -> Iterator[str]:
    for name, recorded, shown in (
        ("spec", _without_times(wanted.get("spec")), _without_times(given.get("spec"))),
        ("labels", _labels(wanted), _labels(given)),
    ):
        if recorded != shown:
            yield f"{name} {json.dumps(shown)} instead of {json.dumps(recorded)}"


def _labels(body: dict[str, Any]) -> Any:
    return (body.get("metadata") or {}).get("labels") or {}


def _without_times(value: Any) -> Any:
    """Replace times that a server sets by a placeholder."""
    if isinstance(value, dict):
        return {key: "…" if key == "timeAdded" and item else _without_times(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    return value
