"""Writes the kubeconfig files of a data directory, which hold a client's certificate and the authority to trust."""

import base64
from pathlib import Path
from typing import Any

import yaml

from mooring.apiserver.access.pki import KeyPair, write_private


def write_kubeconfig(path: Path, server: str, authority: bytes, user: str, client: KeyPair) -> None:
    """Write a kubeconfig with one cluster, one user and one context, all of which name Mooring."""
    credentials = {"client-certificate-data": _text(client.certificate), "client-key-data": _text(client.key)}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "mooring", "cluster": {"server": server, "certificate-authority-data": _text(authority)}}
        ],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "mooring", "context": {"cluster": "mooring", "user": user}}],
        "current-context": "mooring",
    }
    content = yaml.dump(config, Dumper=yaml.CSafeDumper, sort_keys=False).encode()
    try:
        known = path.read_bytes()
    except OSError:  # it is not there, or is no file: then writing it says what is wrong
        known = b""
    if known != content:
        write_private(path, content, durable=False)  # each start looks whether it is right


def _text(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
