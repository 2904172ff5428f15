"""Read the manifests of Helm releases that are stored in a cluster, which the next `helm upgrade` would send.

Helm 3 stores each revision of a release in a Secret of type ``helm.sh/release.v1``: JSON, compressed with gzip and
encoded with base64 in addition to the Secret's encoding. Only the newest revision of each installed release is read.
"""

import base64
import gzip
import io
import zlib
from dataclasses import replace
from pathlib import Path

import msgspec

from mooring.advisor.snapshot import RawObject, Snapshot, SnapshotError, dump
from mooring.advisor.snapshot.objects import format_not_allowed
from mooring.api.core_v1 import Secret
from mooring.api.errors import Forbidden
from mooring.api.meta_v1 import Resource
from mooring.client import Client

_TYPE = "helm.sh/release.v1"
_MAX_BYTES = 64 * 1024 * 1024


class _Info(msgspec.Struct, frozen=True):
    status: str = ""


class _Release(msgspec.Struct):
    name: str
    version: int = 0
    namespace: str = ""
    manifest: str = ""
    info: _Info = _Info()


async def read_releases(client: Client) -> Snapshot:
    """Return a snapshot of the Secrets in which Helm stores releases, which other snapshots leave out."""
    try:
        return Snapshot("Helm releases", (await client.list(Secret, field_selector=f"type={_TYPE}")).items)
    except Forbidden as refused:
        return Snapshot("Helm releases", missing={"secrets": format_not_allowed(refused)})


def helm_manifests(snapshot: Snapshot) -> tuple[Snapshot | None, tuple[str, ...]]:
    """Return the manifests of the newest revision of every release, and notes about unreadable ones."""
    if why := snapshot.forbidden.get("secrets"):
        return None, (f"Helm releases are not checked: secrets may not be read ({why})",)
    newest: dict[tuple[str, str], _Release] = {}
    notes = []
    for secret in snapshot.all(Secret):
        if secret.type != _TYPE:
            continue
        try:
            release = _decode_release(secret)
        except (ValueError, OSError, EOFError, zlib.error, msgspec.DecodeError) as problem:
            notes.append(f"the Helm release {secret.metadata.namespace}/{secret.metadata.name} is not read: {problem}")
            continue
        key = (release.namespace or secret.metadata.namespace, release.name)
        if key not in newest or newest[key].version < release.version:
            newest[key] = release
    objects: list[Resource] = []
    raw: list[RawObject] = []
    for (namespace, name), release in newest.items():
        if release.info.status == "uninstalled":
            continue
        try:
            found = dump([Path("-")], stdin=io.BytesIO(release.manifest.encode()), namespace=namespace)
        except SnapshotError:  # a release of hooks alone
            continue
        objects += (obj for kind in found.kinds() for obj in found.all(kind))
        raw += (
            replace(each, file=f"Helm release {namespace}/{name}", namespace=each.namespace or namespace)
            for each in found.raw()
        )
    if not raw:
        return None, (*notes, "no Helm releases are stored in the cluster")
    return Snapshot("Helm releases", objects, raw), tuple(notes)


def _decode_release(secret: Secret) -> _Release:
    packed = base64.b64decode(secret.data.get("release", b""))
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
        unpacked = stream.read(_MAX_BYTES + 1)
    if len(unpacked) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES} bytes")
    return msgspec.json.decode(unpacked, type=_Release)
