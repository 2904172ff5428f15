"""How to reach etcd, as the command line says it. `store.EtcdStore.open` takes it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import msgspec

from mooring.store.errors import OpenError

DEFAULT_PREFIX = "/registry"
ROOT = "/registry"
"""What the API server's keys begin with; in etcd the prefix stands in its place."""


class Server(msgspec.Struct, frozen=True):
    """One member of etcd."""

    url: str
    address: str
    tls: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `https://host:2379`; raises `OpenError`."""
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
    """Which etcd, and who we are there."""

    servers: tuple[Server, ...]
    prefix: str = DEFAULT_PREFIX
    root: str = ROOT
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    request_seconds: float = 10.0
    """After that a request has failed, and if it was a write, nobody knows its outcome."""
    attempt_seconds: float = 2.5
    """After that a member is taken as dead, and the next one is asked."""
    compaction_seconds: float = 300.0
    """What is older than once to twice this can no longer be read or watched from."""

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
    """Read `https://a:2379,https://b:2379`; raises `OpenError`."""
    return tuple(Server.parse(part.strip()) for part in text.split(",") if part.strip())
