"""Read the manifests of Helm releases that are stored in a cluster, to find what the next `helm upgrade` would send.

Helm 3 keeps each revision of a release in a Secret of type ``helm.sh/release.v1``: JSON, compressed with gzip and
encoded with base64 once more than Secrets are. Only the newest revision of each release counts.
"""

import base64
import gzip
import io
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from mooring.advisor.snapshot import Snapshot, dump
from mooring.api.core_v1 import Secret

_TYPE = "helm.sh/release.v1"
_MOST_BYTES = 64 * 1024 * 1024


class _Release(msgspec.Struct):
    name: str
    version: int = 0
    namespace: str = ""
    manifest: str = ""


def helm_manifests(snapshot: Snapshot) -> tuple[Snapshot | None, tuple[str, ...]]:
    """Return the manifests of the newest revision of every release, and notes about what could not be read."""
    if why := snapshot.forbidden.get("secrets"):
        return None, (f"Helm releases are not checked: secrets may not be read ({why})",)
    newest: dict[tuple[str, str], _Release] = {}
    notes = []
    for secret in snapshot.all(Secret):
        if secret.type != _TYPE:
            continue
        try:
            release = _decode(secret)
        except (ValueError, OSError, EOFError, zlib.error, msgspec.DecodeError) as problem:
            notes.append(f"the Helm release {secret.metadata.namespace}/{secret.metadata.name} is not read: {problem}")
            continue
        key = (release.namespace or secret.metadata.namespace, release.name)
        if key not in newest or newest[key].version < release.version:
            newest[key] = release
    if not newest:
        return None, (*notes, "no Helm releases are stored in the cluster")
    with TemporaryDirectory() as folder:
        for (namespace, name), release in newest.items():
            (Path(folder) / f"{namespace}.{name}.yaml").write_text(release.manifest, encoding="utf-8")
        found = dump([Path(folder)])
    return found, tuple(notes)


def _decode(secret: Secret) -> _Release:
    packed = base64.b64decode(secret.data.get("release", b""))
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
        unpacked = stream.read(_MOST_BYTES + 1)
    if len(unpacked) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
    return msgspec.json.decode(unpacked, type=_Release)
