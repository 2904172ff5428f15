"""The HTTP responses of ports of simulated pods, identical for all requests.

The body is the pod's annotation, the hostname for containers with the argument `serve-hostname` (as of Kubernetes' test
image), or a line with the pod, node and port. `CannedHttp` is a connection to such a port; proxies use the body only.
"""

import httptools

from mooring.api.core_v1 import Pod
from mooring.apiserver.streams.simulated.rules import http_body

_MOST_HEADERS = 64 * 1024
_MOST_ANSWERED = 1024 * 1024
"""The connection is closed after this number of bytes of responses to pipelined requests."""
_BAD = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def body_of(pod: Pod, port: int | str, method: str, path: str) -> bytes:
    text = http_body(pod)
    if text is None and any("serve-hostname" in (*each.command, *each.args) for each in pod.spec.containers):
        text = pod.spec.hostname or pod.metadata.name
    if text is None:
        text = f"pod {pod.metadata.name} on the simulated node {pod.spec.node_name}, port {port}: {method} {path}\n"
    return text.encode()


class CannedHttp:
    """A connection that answers every request. After `is_over` it ignores received bytes."""

    def __init__(self, pod: Pod, port: int) -> None:
        self.is_over = False
        self._pod = pod
        self._port = port
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._unparsed = 0
        self._answers = bytearray()

    def receive(self, data: bytes) -> bytes:
        """Return the responses to the requests that are complete with this data."""
        if self.is_over:
            return b""
        self._unparsed += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._end()
        if self._unparsed > _MOST_HEADERS:
            self._end()
        answers = bytes(self._answers)
        self._answers.clear()
        return answers

    def _end(self) -> None:
        if not self.is_over:
            self._answers += _BAD
            self.is_over = True

    # -- called by the parser

    def on_message_begin(self) -> None:
        self._url = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:  # noqa: ARG002 - responses do not depend on it
        self._unparsed = 0

    def on_message_complete(self) -> None:
        self._unparsed = 0
        if self.is_over:
            return
        method = self._parser.get_method().decode("ascii")
        body = body_of(self._pod, self._port, method, self._url.decode("latin-1"))
        keeps = self._parser.should_keep_alive() and len(self._answers) < _MOST_ANSWERED
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {len(body)}\r\n"
        self._answers += (head + ("\r\n" if keeps else "connection: close\r\n\r\n")).encode()
        if method != "HEAD":
            self._answers += body
        self.is_over = not keeps
