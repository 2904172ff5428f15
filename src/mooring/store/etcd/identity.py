"""The identity key that marks an etcd prefix as a Mooring store, with its schema version.

`EtcdStore.open` claims or checks it before anything else is read or written. `agree` stores other values that all
servers share.
"""

import json
from typing import Any

from mooring.store.errors import Foreign, NewerSchema, OpenError
from mooring.store.etcd.client import EtcdClient
from mooring.store.etcd.keys import Keys
from mooring.store.etcd.messages import EQUAL, VERSION, message

SCHEMA_VERSION = 1
_KIND = "MooringStore"
MARK = json.dumps({"kind": _KIND, "schemaVersion": SCHEMA_VERSION}).encode()


async def claim(client: EtcdClient, keys: Keys) -> bool:
    """Claim the prefix or check that it is a Mooring store; return whether it was empty. Raise `OpenError`."""
    mark = await _read_identity(client, keys)
    is_new = mark is None
    if is_new:
        await _check_prefix_is_empty(client, keys)
        mark = await agree(client, keys.store, MARK)
    _check_identity(mark, keys)
    return is_new


async def require(client: EtcdClient, keys: Keys) -> None:
    """Check that the prefix is a Mooring store, for read-only use. Raise `OpenError` otherwise."""
    mark = await _read_identity(client, keys)
    if mark is None:
        await _check_prefix_is_empty(client, keys)
        raise OpenError(f"there is no store under {keys.begin.decode()} in etcd")
    _check_identity(mark, keys)


async def _read_identity(client: EtcdClient, keys: Keys) -> bytes | None:
    response = await client.call_with_retry("Range", message("RangeRequest")(key=keys.store))
    return bytes(response.kvs[0].value) if response.kvs else None


async def agree(client: EtcdClient, key: bytes, value: bytes) -> bytes:
    """Write a value if the key is absent; return the stored value. Of servers that start together, one writes."""
    request = message("TxnRequest")()
    request.compare.add(key=key, result=EQUAL, target=VERSION, version=0)
    put = request.success.add().request_put
    put.key, put.value = key, value
    request.failure.add().request_range.key = key
    response = await client.call_with_retry("Txn", request)
    return value if response.succeeded else bytes(response.responses[0].response_range.kvs[0].value)


async def _check_prefix_is_empty(client: EtcdClient, keys: Keys) -> None:
    request = message("RangeRequest")(key=keys.begin, range_end=keys.end, limit=1)
    found = (await client.call_with_retry("Range", request)).kvs
    if found and not found[0].key.startswith(keys.internal):
        whose = "Kubernetes'" if found[0].value.startswith(b"k8s\0") else "not Mooring's"
        raise Foreign(
            f"etcd holds {found[0].key.decode(errors='backslashreplace')} already, which is {whose};"
            " choose another --etcd-prefix"
        )


def _check_identity(mark: bytes | None, keys: Keys) -> None:
    try:
        found: Any = json.loads(mark or b"")
        kind, version = found["kind"], int(found["schemaVersion"])
    except (ValueError, KeyError, TypeError):
        kind, version = "", 0
    where = keys.store.decode()
    if kind != _KIND or version < 1:
        raise Foreign(f"etcd holds something else at {where} than Mooring writes; choose another --etcd-prefix")
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            f"{where} in etcd has schema version {version}, and this Mooring knows up to {SCHEMA_VERSION};"
            " use the newer Mooring that wrote it"
        )
