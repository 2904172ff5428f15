"""An admission webhook over TLS whose answer depends on the path: honest ones, wrong ones, slow ones.

    with ScriptedWebhook(folder) as webhook:
        config = webhook.client_config("/deny-message")
        webhook.reviews          # what was asked, oldest first

It runs in a thread of its own, so that scripts, tests of coroutines and real API servers can all use it. `ANSWERS` is
what each path answers.
"""

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from mooring.apiserver.access.pki import Pki
from mooring.base.clock import SystemClock

Tree = dict[str, Any]
PLACE = "webhook.invalid:443"
"""What stands for the address of the webhook in recordings."""
AUTHORITY = "QVVUSE9SSVRZ"
"""What stands for its certificate authority there."""


class Reply(NamedTuple):
    """An answer that is no plain AdmissionReview."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


Answer = Callable[[Tree], "Tree | Reply"]


def review(request: Tree, response: Tree, **other: Any) -> Tree:
    """Return an AdmissionReview with a response to a request."""
    answer = {"apiVersion": request["apiVersion"], "kind": "AdmissionReview"}
    return {**answer, "response": {"uid": request["request"]["uid"], **response}, **other}


def says(**response: Any) -> Answer:
    """Return a handler that always gives the same response."""
    return lambda request: review(request, response)


def patches(*operations: Tree, text: str = "", **response: Any) -> Answer:
    """Return a handler that allows, with a patch."""
    patch = base64.b64encode((text or json.dumps(operations)).encode()).decode()
    return says(**{"allowed": True, "patchType": "JSONPatch", "patch": patch, **response})


def raw(status: int = 200, body: bytes = b"", *headers: tuple[str, str]) -> Answer:
    return lambda _: Reply(status, body, headers)


def slowly(seconds: float) -> Answer:
    def answer(request: Tree) -> Tree:
        time.sleep(seconds)
        return review(request, {"allowed": True})

    return answer


def add(path: str, value: Any) -> Tree:
    return {"op": "add", "path": path, "value": value}


def _counting(request: Tree) -> Tree:
    """Add a letter to what the object's data says, each time it is asked."""
    before = (request["request"]["object"].get("data") or {}).get("count", "")
    return patches(add("/data/count", before + "x"))(request)  # type: ignore[return-value] # it is a tree


def _doubling(request: Tree) -> Tree:
    """Says about an object what another webhook has said about it before."""
    before = (request["request"]["object"].get("data") or {}).get("second", "")
    return patches(add("/data/first", f"saw {before or 'nothing'}"))(request)  # type: ignore[return-value] # as above


FORBIDDEN: Tree = {"code": 403, "reason": "Forbidden", "message": "not on a Monday"}

ANSWERS: dict[str, Answer] = {
    "/allow": says(allowed=True),
    "/deny-message": says(allowed=False, status={"message": "not on a Monday"}),
    "/deny-reason": says(allowed=False, status={"reason": "NotOnMondays"}),
    "/deny-code": says(allowed=False, status={"code": 402}),
    "/deny-bare": says(allowed=False),
    "/deny-small-code": says(allowed=False, status={"code": 200, "status": "Success", "message": "no"}),
    "/deny-forbidden": says(allowed=False, status=FORBIDDEN),
    "/deny-details": says(
        allowed=False,
        status={**FORBIDDEN, "details": {"name": "x", "kind": "y", "causes": [{"message": "m", "field": "data"}]}},
    ),
    "/warn": says(allowed=True, warnings=["mind the gap", 'and the "other" one']),
    "/warn-and-deny": says(allowed=False, warnings=["mind the gap"], status={"message": "no"}),
    "/audit": says(allowed=True, auditAnnotations={"seen": "yes"}),
    "/missing-response": lambda request: {"apiVersion": request["apiVersion"], "kind": "AdmissionReview"},
    "/wrong-uid": says(allowed=True, uid="another"),
    "/wrong-version": lambda request: {**review(request, {"allowed": True}), "apiVersion": "admission.k8s.io/v2"},
    "/older-version": lambda request: {**review(request, {"allowed": True}), "apiVersion": "admission.k8s.io/v1beta1"},
    "/wrong-kind": lambda request: {**review(request, {"allowed": True}), "kind": "Review"},
    "/no-kind": lambda request: {"response": {"uid": request["request"]["uid"], "allowed": True}},
    "/wrong-type": says(allowed="yes"),
    "/not-json": raw(200, b"All right, then."),
    "/empty": raw(200, b""),
    "/status-204": raw(204),
    "/status-400": raw(400, b"bad"),
    "/status-404": raw(404, b"404 page not found\n"),
    "/status-500": raw(500, b"out of order"),
    "/status-500-empty": raw(500),
    "/status-500-text": raw(500, b"out of order\n", ("Content-Type", "text/plain")),
    "/status-503": raw(503, b"later"),
    "/status-json": raw(
        418, b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"teapot","reason":"Teapot","code":418}'
    ),
    "/see": says(allowed=True),
    "/hang-up": raw(-1),
    "/slow": slowly(8),
    "/patch-label": patches(add("/metadata/labels/patched", "yes")),
    "/patch-data": patches(add("/data", {"by": "webhook"})),
    "/patch-nothing": patches(text="[]"),
    "/patch-no-change": patches({"op": "test", "path": "/kind", "value": "ConfigMap"}),
    "/patch-garbage": patches(text="not a patch"),
    "/patch-object": patches(text='{"op":"add"}'),
    "/patch-unknown-op": patches({"op": "frobnicate", "path": "/data"}),
    "/patch-missing-path": patches({"op": "replace", "path": "/data/absent/deep", "value": "x"}),
    "/patch-remove-missing": patches({"op": "remove", "path": "/data/absent"}),
    "/patch-failed-test": patches({"op": "test", "path": "/kind", "value": "Secret"}),
    "/patch-without-type": patches(add("/data", {}), patchType=None),
    "/patch-empty-type": patches(add("/data", {}), patchType=""),
    "/patch-odd-type": patches(add("/data", {}), patchType="MergePatch"),
    "/type-without-patch": says(allowed=True, patchType="JSONPatch"),
    "/patch-wrong-shape": patches(add("/data", "a text")),
    "/patch-unknown-field": patches(add("/color", "green")),
    "/patch-invalid": patches(add("/metadata/labels/bad", "no good value!")),
    "/patch-name": patches(add("/metadata/name", "another")),
    "/patch-namespace": patches(add("/metadata/namespace", "kube-system")),
    "/patch-other-kind": patches({"op": "replace", "path": "/kind", "value": "Secret"}),
    "/count": _counting,
    "/second": patches(add("/data/second", "was here")),
    "/first": _doubling,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.webhook.reviews.append(given)
        self.server.webhook.queries.append(query)
        answer = self.server.webhook.answers.get(path, raw(404))(given)
        reply = answer if isinstance(answer, Reply) else Reply(200, json.dumps(answer).encode())
        if reply.status < 0:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **dict(reply.headers)}.items():
            self.send_header(name, value)
        if reply.status != 204:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    webhook: "ScriptedWebhook"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""


class ScriptedWebhook:
    """A webhook that runs."""

    def __init__(self, folder: Path, answers: dict[str, Answer] | None = None, *, names: tuple[str, ...] = ()) -> None:
        self.answers = {**ANSWERS, **(answers or {})}
        self.reviews: list[Tree] = []
        self.queries: list[str] = []
        """What stood behind the question mark of each request."""
        pki = Pki(folder / "webhook", SystemClock())
        made = pki.server(["127.0.0.1", *names])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.certificate_file, made.key_file)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.webhook = self
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = self._server.server_address[1]
        self.authority = base64.b64encode(pki.authority.certificate).decode()
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def client_config(self, path: str) -> Tree:
        """Return the `clientConfig` that reaches a path."""
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.authority}

    def named(self, recorded: str) -> str:
        """Return a recorded text with this webhook's address and authority."""
        return recorded.replace(PLACE, f"127.0.0.1:{self.port}").replace(AUTHORITY, self.authority)

    def unnamed(self, text: str) -> str:
        """Return a text as it is recorded: without what only this webhook has."""
        return text.replace(f"127.0.0.1:{self.port}", PLACE).replace(self.authority, AUTHORITY)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
