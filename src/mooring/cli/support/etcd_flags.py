"""The flags for etcd: all for `mooring apiserver` and `mooring up`, `access_flags` for `mooring store`."""

from dataclasses import dataclass
from pathlib import Path

import click

from mooring.cli.support.flags import NEW_FILE, group_flags
from mooring.cli.support.output import report_errors
from mooring.store.errors import OpenError
from mooring.store.etcd.config import DEFAULT_PREFIX, EtcdConfig, Server, parse_servers


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """The values of the flags for etcd's certificates, user and password."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    user: str = ""
    password_file: Path | None = None

    def config(self, servers: tuple[Server, ...], prefix: str) -> EtcdConfig:
        """Build the configuration for some servers. Raise `OpenError`, and UsageError for the password file."""
        with report_errors(OSError, UnicodeDecodeError, prefix="--etcd-password-file: ", usage=True):
            password = self.password_file.read_text().strip() if self.password_file else ""
        return EtcdConfig(
            servers=servers,
            prefix=prefix,
            ca_file=self.ca_file,
            cert_file=self.cert_file,
            key_file=self.key_file,
            user=self.user,
            password=password,
        )


access_flags = group_flags(
    "access",
    EtcdAccess,
    click.option("--etcd-cafile", "ca_file", type=NEW_FILE, help="The certificate authority of etcd's servers."),
    click.option("--etcd-certfile", "cert_file", type=NEW_FILE, help="The client certificate for etcd."),
    click.option("--etcd-keyfile", "key_file", type=NEW_FILE, help="The private key of the client certificate."),
    click.option("--etcd-user", "user", default="", metavar="NAME", help="The user name in etcd."),
    click.option("--etcd-password-file", "password_file", type=NEW_FILE, help="A file with the password of that user."),
)
"""The credential flags; the command gets an `EtcdAccess` as `access`."""


def _build_etcd_config(etcd_servers: str, etcd_prefix: str, access: EtcdAccess) -> EtcdConfig | None:
    if not etcd_servers.strip():
        if access != EtcdAccess() or etcd_prefix != DEFAULT_PREFIX:
            raise click.UsageError("the flags for etcd need --etcd-servers")
        return None
    with report_errors(OpenError, usage=True):
        return access.config(parse_servers(etcd_servers), etcd_prefix)


etcd_flags = group_flags(
    "etcd",
    _build_etcd_config,
    click.option(
        "--etcd-servers",
        default="",
        metavar="URL,…",
        help="Keep objects in etcd: https://10.0.0.1:2379,https://10.0.0.2:2379.",
    ),
    click.option("--etcd-prefix", default=DEFAULT_PREFIX, metavar="PATH", help="The prefix of keys in etcd."),
    access_flags,
)
"""All flags for etcd; the command gets an `EtcdConfig` as `etcd`, or None."""
