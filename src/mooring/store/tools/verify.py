"""Verify the objects of a store, for `mooring store verify`.

Damage to the file itself is found when it is read (`SqliteFile.find_problems`, `backup_file.read`). A problem is
something that a server would fail on or that only a bug can have caused; a remark is something unusual that the control
plane itself repairs, such as a missing owner.
"""

from collections.abc import Iterator, Mapping

import msgspec

from mooring.api import codec
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.scheme import Scheme
from mooring.store.kv import KeyValue
from mooring.store.tools.contents import ROOT, Snapshot

_PROTOBUF = b"k8s\x00"
"""The magic bytes of values that kube-apiserver writes."""


class Problem(msgspec.Struct, frozen=True):
    """One problem or remark about a key."""

    key: str
    text: str
    is_remark: bool = False


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


def find_problems(snapshot: Snapshot, scheme: Scheme) -> Iterator[Problem]:
    """Yield the problems of every key and value."""
    families = {scheme.hub(kind).plural: scheme.family(kind) for kind in scheme.known if kind.stored}
    yield from _check_revisions(snapshot)
    objects: dict[str, ObjectMeta] = {}
    for kv in snapshot.items:
        try:
            family = _find_family(kv.key, families)
            objects[kv.key] = _decode_object(kv, family).metadata
        except _NotAnObject as error:
            yield Problem(kv.key, str(error))
        else:
            yield from _check_key(kv.key, family[0], objects[kv.key])
    yield from _check_relations(objects)


class _NotAnObject(Exception):  # noqa: N818 - says what is the case
    """The value is not an object of the key's resource."""


def _check_revisions(snapshot: Snapshot) -> Iterator[Problem]:
    last = 0
    for kv in snapshot.items:
        if kv.mod_revision > snapshot.revision:
            yield Problem(kv.key, f"has revision {kv.mod_revision}, and the store is at {snapshot.revision}")
        if not 0 < kv.create_revision <= kv.mod_revision:
            yield Problem(kv.key, f"was made at revision {kv.create_revision} and changed at {kv.mod_revision}")
        if kv.mod_revision <= last:
            yield Problem(kv.key, f"has revision {kv.mod_revision}, which another key has too")
        last = max(last, kv.mod_revision)


def _find_family(key: str, families: Mapping[str, tuple[Kind, ...]]) -> tuple[Kind, ...]:
    if not key.startswith(ROOT):
        raise _NotAnObject(f"is not a key of Mooring, which all begin with {ROOT}")
    plural, _, rest = key.removeprefix(ROOT).partition("/")
    family = families.get(plural)
    if family is None:
        raise _NotAnObject(f"belongs to no resource that this Mooring knows: {plural!r}")
    parts = rest.split("/")
    if len(parts) != (2 if family[0].namespaced else 1) or not all(parts):
        raise _NotAnObject(
            "should be " + ("namespace/name" if family[0].namespaced else "a name") + f" behind {plural}/"
        )
    return family


def _decode_object(kv: KeyValue, family: tuple[Kind, ...]) -> Resource:
    if kv.value.startswith(_PROTOBUF):
        raise _NotAnObject(
            "is encoded as kube-apiserver does it, and Mooring stores JSON: this is another program's data"
        )
    try:
        meta = msgspec.json.decode(kv.value, type=_TypeMeta)
        kind = next((kind for kind in family if (kind.api_version, kind.kind) == (meta.api_version, meta.kind)), None)
        if kind is None:
            raise _NotAnObject(f"holds {meta.api_version!r} {meta.kind!r}, which is no version of {family[0].kind}")
        found = codec.decode_own(kv.value, kind.type)
        if (
            codec.encode(found) == kv.value
        ):  # a round trip gives the same bytes: the slow, strict decoder would find nothing
            return found
        return codec.decode(kv.value, kind.type).object
    except (msgspec.MsgspecError, codec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _NotAnObject(f"is no {family[0].kind}: {error}") from None


def _check_key(key: str, kind: Kind, meta: ObjectMeta) -> Iterator[Problem]:
    namespace, _, name = key.removeprefix(f"{ROOT}{kind.plural}/").rpartition("/")
    if (meta.namespace, meta.name) != (namespace, name):
        yield Problem(key, f"holds an object that calls itself {meta.namespace}/{meta.name}".replace(" /", " "))
    if not meta.uid:
        yield Problem(key, "has no metadata.uid")
    if meta.resource_version:
        yield Problem(key, "has a resourceVersion, which only the store gives")


def _check_relations(objects: Mapping[str, ObjectMeta]) -> Iterator[Problem]:
    uids: dict[str, str] = {}
    for key, meta in objects.items():
        if meta.uid and meta.uid in uids:
            yield Problem(key, f"has the uid of {uids[meta.uid]}")
        uids.setdefault(meta.uid, key)
    for key, meta in objects.items():
        if meta.namespace and f"{ROOT}namespaces/{meta.namespace}" not in objects:
            yield Problem(key, "is in a namespace that does not exist", is_remark=True)
        for owner in meta.owner_references:
            if not owner.uid or not owner.name or not owner.kind or not owner.api_version:
                yield Problem(key, "has an owner without uid, name, kind or apiVersion")
            elif owner.uid not in uids:
                yield Problem(key, f"has an owner that is gone: {owner.kind} {owner.name}", is_remark=True)
            elif not uids[owner.uid].endswith(f"/{owner.name}"):
                yield Problem(key, f"has an owner {owner.kind} {owner.name} with the uid of {uids[owner.uid]}")
