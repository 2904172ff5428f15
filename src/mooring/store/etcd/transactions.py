"""Our writes as transactions of etcd, and their outcomes as ours. `store` sends them."""

from typing import Any

from mooring.store.etcd.keys import Keys
from mooring.store.etcd.marks import Mark
from mooring.store.etcd.messages import EQUAL, GREATER, MOD, VERSION, message
from mooring.store.kv import Conflict, Delete, Event, KeyValue, Write

_TxnRequest = message("TxnRequest")


def transaction(write: Write, key: bytes, lease: int, fence: tuple[bytes, int], mark: tuple[Mark, int] | None) -> Any:
    """The write and its mark if its precondition and the fence hold, else a look at what is there instead."""
    request = _TxnRequest()
    request.compare.add(key=fence[0], result=EQUAL, target=MOD, mod_revision=fence[1])
    if write.expect is not None:  # in etcd, too, an absent key was modified at revision 0
        request.compare.add(key=key, result=EQUAL, target=MOD, mod_revision=write.expect)
    if isinstance(write, Delete):
        request.compare.add(key=key, result=GREATER, target=VERSION, version=0)
        request.success.add().request_delete_range.key = key
    else:
        put = request.success.add().request_put
        put.key, put.value, put.lease = key, write.value, lease
    if mark is not None:
        put = request.success.add().request_put
        put.key, put.value, put.lease = mark[0].key, mark[0].nonce, mark[1]
    request.failure.add().request_range.key = fence[0]
    request.failure.add().request_range.key = key
    return request


def fence_found(response: Any) -> Any:
    """The fence that a failed transaction met."""
    return response.responses[0].response_range.kvs


def conflict(write: Write, response: Any, keys: Keys) -> Conflict:
    """What a transaction found whose precondition did not hold."""
    found = response.responses[1].response_range.kvs
    return Conflict(write.key, keys.entry(found[0]) if found else None)


def event_of(write: Write, revision: int, previous: KeyValue | None) -> Event:
    """What a write did that took a revision."""
    if isinstance(write, Delete):
        return Event(revision, write.key, previous, None)
    created = previous.create_revision if previous else revision
    return Event(revision, write.key, previous, KeyValue(write.key, write.value, created, revision))
