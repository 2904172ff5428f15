"""Write objects into a store unchanged, with uids, owners and status, for rehearsals and `mooring up --from`."""

from collections.abc import Iterable

from mooring.api.base import copy_of
from mooring.api.core_v1 import Namespace
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.storage.stored import Stored
from mooring.store.kv import Put, Store

_BATCH = 500
_RBAC = "rbac.authorization.k8s.io"
_CREATED = "2020-01-01T00:00:00Z"


async def write_objects(store: Store, scheme: Scheme, objects: Iterable[Resource]) -> int:
    """Store objects, except RBAC, without admission, in their kinds' storage versions; return their number."""
    writes: list[Put] = []
    encoders: dict[Kind, Stored] = {}
    for obj in objects:
        kind = scheme.kind_of(obj)
        if is_written(scheme, obj):
            encoder = encoders.get(kind) or encoders.setdefault(kind, Stored(scheme, kind))
            writes.append(Put(encoder.key(obj.metadata.namespace, obj.metadata.name), encoder.encode(copy_of(obj))))
    for begin in range(0, len(writes), _BATCH):
        await store.write_all(writes[begin : begin + _BATCH])
    return len(writes)


def is_written(scheme: Scheme, obj: Resource) -> bool:
    """Return whether `write_objects` stores an object."""
    kind = scheme.kind_of(obj)
    return kind.stored and kind.group != _RBAC


def missing_namespaces(objects: Iterable[Resource]) -> list[Namespace]:
    """Return the namespaces that the objects are in but that are not among them."""
    every = list(objects)
    known = {obj.metadata.name for obj in every if isinstance(obj, Namespace)} | {"default"}
    names = sorted({obj.metadata.namespace for obj in every} - known - {""})
    found = []
    for name in names:
        meta = ObjectMeta(name=name, uid=f"namespace-{name}", creation_timestamp=_CREATED)
        namespace = Namespace(api_version="v1", kind="Namespace", metadata=meta)
        namespace.status.phase = "Active"
        found.append(namespace)
    return found
