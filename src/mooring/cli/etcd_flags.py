"""The flags that put a server's objects into etcd, and the configuration that they mean."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from mooring.store.errors import OpenError
from mooring.store.etcd.config import DEFAULT_PREFIX, EtcdConfig, parse_servers

_FILE = click.Path(path_type=Path, dir_okay=False)


def etcd_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags to a command and hand it an `EtcdConfig` as `etcd`; None if there is to be none."""

    @click.option(
        "--etcd-servers",
        default="",
        metavar="URL,…",
        help="Keep objects in etcd instead of the data directory: https://10.0.0.1:2379,https://10.0.0.2:2379.",
    )
    @click.option(
        "--etcd-prefix", default=DEFAULT_PREFIX, show_default=True, metavar="PATH", help="What keys in etcd begin with."
    )
    @click.option("--etcd-cafile", type=_FILE, help="The authority that signed the certificates of etcd.")
    @click.option("--etcd-certfile", type=_FILE, help="The certificate to show to etcd.")
    @click.option("--etcd-keyfile", type=_FILE, help="The key of that certificate.")
    @click.option("--etcd-user", default="", metavar="NAME", help="The user in etcd.")
    @click.option("--etcd-password-file", type=_FILE, help="A file with that user's password.")
    @wraps(command)
    def wrapped(
        *args: Any,
        etcd_servers: str,
        etcd_prefix: str,
        etcd_cafile: Path | None,
        etcd_certfile: Path | None,
        etcd_keyfile: Path | None,
        etcd_user: str,
        etcd_password_file: Path | None,
        **rest: Any,
    ) -> None:
        access = (etcd_cafile, etcd_certfile, etcd_keyfile, etcd_user, etcd_password_file)
        if not etcd_servers.strip() and (any(access) or etcd_prefix != DEFAULT_PREFIX):
            raise click.UsageError("the flags for etcd need --etcd-servers")
        etcd = None
        if etcd_servers.strip():
            try:
                etcd = EtcdConfig(
                    servers=parse_servers(etcd_servers),
                    prefix=etcd_prefix,
                    ca_file=etcd_cafile,
                    cert_file=etcd_certfile,
                    key_file=etcd_keyfile,
                    user=etcd_user,
                    password=_password(etcd_password_file),
                )
            except OpenError as error:
                raise click.UsageError(str(error)) from error
        command(*args, etcd=etcd, **rest)

    return wrapped


def _password(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--etcd-password-file: {error}") from error
