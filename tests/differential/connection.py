"""A plain HTTP client for a kubeconfig: it sends what it is given and returns what the server answers."""

import base64
import http.client
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

_TIMEOUT_SECONDS = 60


class UnreachableError(Exception):
    """A server cannot be started or reached; `str()` names it and the cause."""


class Response(NamedTuple):
    """A status code, the decoded body, and the texts of Warning headers."""

    code: int
    body: Any
    warnings: tuple[str, ...] = ()


class Connection:
    """One connection to one server, opened again when the server closes it."""

    def __init__(self, kubeconfig: Path) -> None:
        try:
            config = yaml.safe_load(kubeconfig.read_text())
            cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
            self._url = urlsplit(cluster["server"])
        except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError) as error:
            raise UnreachableError(f"{kubeconfig}: not a kubeconfig: {error}") from error
        self._headers = {"Accept": "application/json"}
        if "token" in user:
            self._headers["Authorization"] = f"Bearer {user['token']}"
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE  # both servers run on loopback, for this comparison only
        if certificate := _file(user, "client-certificate"):
            self._tls.load_cert_chain(certificate, _file(user, "client-key"))
        self._http = self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._url.hostname or "", self._url.port, timeout=_TIMEOUT_SECONDS, context=self._tls
        )

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Response:
        """Send a request, twice if need be; return code 0 when there is no answer; raise if there is no server."""
        content = None if body is None else json.dumps(body)
        headers = {**self._headers, "Content-Type": content_type}
        try:
            return self._exchange(method, path, content, headers)
        except (OSError, http.client.HTTPException):
            self._http.close()
            self._http = self._connect()
        try:
            return self._exchange(method, path, content, headers)
        except ConnectionRefusedError as error:
            raise UnreachableError(f"{self._url.geturl()}: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            self._http = self._connect()
            return Response(0, f"no answer: {error}")

    def _exchange(self, method: str, path: str, content: str | None, headers: dict[str, str]) -> Response:
        self._http.request(method, path, content, headers)
        answer = self._http.getresponse()
        text = answer.read()
        warnings = tuple(_warning(each) for each in answer.headers.get_all("Warning") or ())
        try:
            return Response(answer.status, json.loads(text), warnings)
        except ValueError:
            return Response(answer.status, text.decode(errors="replace"), warnings)


def _warning(header: str) -> str:
    """Return the text of `299 - "text"`."""
    return header.split('"', 1)[-1].rsplit('"', 1)[0]


def _file(user: dict[str, str], key: str) -> str | None:
    if key in user:
        return user[key]
    if f"{key}-data" not in user:
        return None
    with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as file:
        file.write(base64.b64decode(user[f"{key}-data"]))
        return file.name
