"""Connection settings for etcd, from command-line flags. `store.EtcdStore.open` takes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import msgspec

from mooring.store.errors import OpenError

DEFAULT_PREFIX = "/registry"
ROOT = "/registry"
"""The root of the API server's keys; in etcd the configured prefix replaces it."""


class Server(msgspec.Struct, frozen=True):
    """One member of etcd."""

    url: str
    address: str
    tls: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `https://host:2379`; raise `OpenError` if it is malformed."""
        try:
            url = urlsplit(text if "//" in text else f"http://{text}")
            port, host = url.port or 2379, url.hostname
        except ValueError as error:
            raise OpenError(f"{text!r} is no URL of an etcd server: {error}") from None
        if url.scheme not in ("http", "https") or not host or url.path.strip("/") or url.query or url.username:
            raise OpenError(f"{text!r} is no URL of an etcd server; write it as https://host:2379")
        shown = f"[{host}]" if ":" in host else host
        return cls(f"{url.scheme}://{shown}:{port}", f"{shown}:{port}", url.scheme == "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdConfig:
    """Servers, prefix, credentials and timeouts."""

    servers: tuple[Server, ...]
    prefix: str = DEFAULT_PREFIX
    root: str = ROOT
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    request_seconds: float = 10.0
    """Time limit for a request with all its retries; after it, the outcome of a write is unknown."""
    attempt_seconds: float = 2.5
    """Time limit for one attempt at one member before failing over to the next."""
    compaction_seconds: float = 300.0
    """Compaction interval: history older than one to two intervals cannot be read or watched."""

    def __post_init__(self) -> None:
        if not self.servers:
            raise OpenError("no server of etcd was given")
        prefix = self.prefix
        if not prefix.startswith("/") or prefix.endswith("/") or not prefix.isprintable() or not prefix.isascii():
            raise OpenError(f"the prefix in etcd must begin with '/' and not end with it: {prefix!r}")
        if bool(self.cert_file) != bool(self.key_file):
            raise OpenError("a client certificate for etcd needs its key, and a key its certificate")
        if (self.ca_file or self.cert_file) and not all(server.tls for server in self.servers):
            raise OpenError("certificates for etcd were given, but not every server begins with https://")
        if self.password and not self.user:
            raise OpenError("a password for etcd was given, but no user")


def parse_servers(text: str) -> tuple[Server, ...]:
    """Parse a comma-separated list of server URLs; raise `OpenError` if one is malformed."""
    return tuple(Server.parse(part.strip()) for part in text.split(",") if part.strip())


@contextmanager
def explain_missing_grpc() -> Iterator[None]:
    """Wrap an import that needs gRPC; raise `OpenError` with the install command if it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("grpc", "google"):
            raise
        raise OpenError(
            "etcd is spoken to by gRPC, which is not installed: pip install 'kube-mooring[etcd]' "
            "(pipx inject kube-mooring grpcio protobuf, where pipx installed it)"
        ) from error
