"""The credentials of a client: fixed certificates and tokens, a token file that rotates, or an exec plugin.

``kubeconfig.py`` creates them; ``https.py`` reads the current one before each request.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mooring.api import codec, times
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.client.errors import CredentialsError

log = logs.get(__name__)

_TOKEN_FILE_SECONDS = 60.0
_EXEC_SECONDS = 120.0
_EXPIRY_MARGIN = timedelta(seconds=10)
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class Credential:
    """A client certificate, a bearer token, and extra headers. Its `repr`, for logs, shows none of them."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The headers for impersonation."""

    def __post_init__(self) -> None:
        for text in (self.authorization, *(part for header in self.headers for part in header)):
            if not text.isprintable():
                raise CredentialsError("a token or a name to impersonate has characters that no header may have")


class Credentials(Protocol):
    """The interface of sources of credentials: fixed, from a token file, or from an exec plugin."""

    async def current(self) -> Credential:
        """Return certificate, token and headers for the next request. Raise CredentialsError if renewal fails."""
        ...

    def reject(self) -> bool:
        """Drop a cached credential that the server refused (401); return whether `current` may now return a new one."""
        ...


class StaticCredentials(msgspec.Struct, frozen=True):
    """A credential that never changes."""

    credential: Credential = Credential()

    async def current(self) -> Credential:
        return self.credential

    def reject(self) -> bool:
        return False


class TokenFile:
    """Credentials with the bearer token in a file, which is read again every minute because it rotates."""

    def __init__(self, path: Path, clock: Clock, base: Credential = Credential()) -> None:  # noqa: B008 - frozen
        self._path = path
        self._clock = clock
        self._credential = base
        self._read_at = float("-inf")

    async def current(self) -> Credential:
        if self._clock.monotonic() - self._read_at >= _TOKEN_FILE_SECONDS:
            self._read()
        return self._credential

    def reject(self) -> bool:
        before = self._credential
        self._read_at = float("-inf")
        try:
            self._read()
        except CredentialsError:
            return False
        return self._credential != before

    def _read(self) -> None:
        try:
            token = self._path.read_text().strip()
            if not token:
                raise CredentialsError(f"the token file {self._path} is empty")
        except (OSError, UnicodeDecodeError, CredentialsError) as error:
            if not self._credential.authorization:
                raise CredentialsError(f"cannot read the token file {self._path}: {error}") from None
            log.warning("keeping the last token: %s", error)  # as Kubernetes' clients do
        else:
            self._credential = replace(self._credential, authorization=f"Bearer {token}")
        self._read_at = self._clock.monotonic()


class ExecVariable(msgspec.Struct):
    """An environment variable for an exec plugin, as a kubeconfig declares it."""

    name: str
    value: str = ""


class ExecCommand(msgspec.Struct, rename="camel"):
    """An exec plugin as a kubeconfig declares it: a program that prints an ExecCredential."""

    command: str = ""
    api_version: str = ""
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


class ExecPlugin:
    """Credentials that an exec plugin prints; it runs again when they expire or the server refuses them."""

    def __init__(
        self,
        command: ExecCommand,
        clock: Clock,
        base: Credential = Credential(),  # noqa: B008 - frozen
        cluster: Mapping[str, Any] | None = None,
    ) -> None:
        """Set up the plugin; its program receives `cluster`, the cluster of the kubeconfig, unless that is None."""
        self._command = command
        self._clock = clock
        self._base = base
        self._cluster = cluster
        self._credential: Credential | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._lock:
            if self._credential is None or (self._expires and self._clock.now() >= self._expires - _EXPIRY_MARGIN):
                status = await self._run_program()
                self._credential, self._expires = self._build_credential(status)
            return self._credential

    def reject(self) -> bool:
        self._credential = None
        return True

    def _build_credential(self, status: _ExecStatus) -> tuple[Credential, datetime | None]:
        certificate, key = status.client_certificate_data, status.client_key_data
        if not status.token and not certificate:
            raise self._make_error("it printed neither a token nor a certificate")
        if bool(certificate) != bool(key):
            raise self._make_error("it printed only one of clientCertificateData and clientKeyData")
        try:
            expires = times.parse(status.expiration_timestamp) if status.expiration_timestamp else None
        except times.TimeError as error:
            raise self._make_error(f"expirationTimestamp: {error}") from None
        credential = self._base
        if status.token:
            credential = replace(credential, authorization=f"Bearer {status.token}")
        if certificate:
            credential = replace(credential, certificate=certificate.encode(), key=key.encode())
        return credential, expires

    async def _run_program(self) -> _ExecStatus:
        command = self._command
        interactive = self._is_interactive()
        spec: dict[str, Any] = {"interactive": interactive}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"kind": "ExecCredential", "apiVersion": command.api_version, "spec": spec}
        variables = {each.name: each.value for each in command.env or ()}
        environment = {**os.environ, **variables, "KUBERNETES_EXEC_INFO": codec.encode(info).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                command.command,
                *(command.args or ()),
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
            )
        except OSError as error:
            raise self._make_error(error.strerror or str(error)) from None
        try:
            async with asyncio.timeout(_EXEC_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            raise self._make_error(f"it did not end within {_EXEC_SECONDS:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise self._make_error(f"it ended with exit code {process.returncode}")
        return self._read(output)

    def _read(self, output: bytes) -> _ExecStatus:
        try:
            printed = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._make_error(f"what it printed is no ExecCredential: {error}") from None
        if printed.kind != "ExecCredential" or printed.api_version != self._command.api_version:
            got = f"{printed.api_version} {printed.kind}"
            raise self._make_error(f"it printed {got!r}, expected {self._command.api_version} ExecCredential")
        if printed.status is None:
            raise self._make_error("what it printed has no status")
        return printed.status

    def _is_interactive(self) -> bool:
        mode = self._command.interactive_mode
        available = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if mode == "Always" and not available:
            raise self._make_error(
                "it wants to ask questions (interactiveMode: Always), and standard input is no terminal"
            )
        return available and mode != "Never"

    def _make_error(self, why: str) -> CredentialsError:
        hint = f"\n{self._command.install_hint}" if self._command.install_hint else ""
        return CredentialsError(f"the exec plugin {self._command.command!r} gave no credentials: {why}{hint}")
