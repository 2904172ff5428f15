"""Build etcd transactions from writes, and outcomes from responses. `store` sends them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from mooring.store.etcd.fence import Mark
from mooring.store.etcd.keys import Keys
from mooring.store.etcd.messages import EQUAL, GREATER, MOD, VERSION, message
from mooring.store.kv import Conflict, Delete, Event, KeyValue, Write

_TxnRequest = message("TxnRequest")


class Step(NamedTuple):
    """One write of a transaction, with its etcd key and lease."""

    write: Write
    key: bytes
    lease: int


def build_transaction(steps: Sequence[Step], fence: tuple[bytes, int], mark: tuple[Mark, int] | None) -> Any:
    """Build a transaction: if all preconditions and the fence hold, write; otherwise read the current entries."""
    request = _TxnRequest()
    request.compare.add(key=fence[0], result=EQUAL, target=MOD, mod_revision=fence[1])
    request.failure.add().request_range.key = fence[0]
    for write, key, lease in steps:
        if write.expect is not None:  # in etcd, too, an absent key was modified at revision 0
            request.compare.add(key=key, result=EQUAL, target=MOD, mod_revision=write.expect)
        if isinstance(write, Delete):
            request.compare.add(key=key, result=GREATER, target=VERSION, version=0)
            request.success.add().request_delete_range.key = key
        else:
            put = request.success.add().request_put
            put.key, put.value, put.lease = key, write.value, lease
        request.failure.add().request_range.key = key
    if mark is not None:
        put = request.success.add().request_put
        put.key, put.value, put.lease = mark[0].key, mark[0].nonce, mark[1]
    return request


def read_fence(response: Any) -> Any:
    """Return the fence entry that a failed transaction read."""
    return response.responses[0].response_range.kvs


def conflicts(writes: Sequence[Write], response: Any, keys: Keys) -> list[Conflict]:
    """Return the writes of a failed transaction whose preconditions did not hold, with the entries in etcd."""
    found: list[Conflict] = []
    for write, answer in zip(writes, response.responses[1:], strict=True):
        kvs = answer.response_range.kvs
        revision = kvs[0].mod_revision if kvs else 0
        if (write.expect is not None and write.expect != revision) or (isinstance(write, Delete) and not kvs):
            found.append(Conflict(write.key, keys.convert_entry(kvs[0]) if kvs else None))
    return found


def event_of(write: Write, revision: int, previous: KeyValue | None) -> Event:
    """Build the event of a write that succeeded at a revision."""
    if isinstance(write, Delete):
        return Event(revision, write.key, previous, None)
    created = previous.create_revision if previous else revision
    return Event(revision, write.key, previous, KeyValue(write.key, write.value, created, revision))
