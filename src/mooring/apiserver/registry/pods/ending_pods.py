"""How a pod's deletion begins, without reading all of the pod: what decides is glimpsed, what changes is put between.

    {"kind":"Pod",…,"generation":1,"creationTimestamp":"…",                                          "labels":…
    {"kind":"Pod",…,"generation":2,"creationTimestamp":"…","deletionTimestamp":"…","deletion…":30,   "labels":…

Pods that go by the thousand are most of what is deleted, and reading and writing one takes longer than anything else
about its deletion. Called by ``deleting.py``, which does in full what is unusual.
"""

import re
from datetime import datetime

import msgspec

from mooring.api import times
from mooring.api.core_v1 import Pod, PodSpec, PodStatus
from mooring.api.meta_v1 import ObjectMeta
from mooring.store.kv import KeyValue

_BEGINNING = re.compile(
    rb'\{"kind":"Pod","apiVersion":"v1","metadata":\{'
    rb'(?:"(?:name|generateName|namespace|selfLink|uid)":"[^"\\]*",)*'
    rb'"generation":([1-9][0-9]{0,17}),"creationTimestamp":"[^"\\]*"(?=,"(?:labels|annotations|ownerReferences|finalizers|managedFields)"|\})'
)
"""As the store has pods whose deletion was not asked for; all texts in it are such that nothing in them is escaped."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    finalizers: list[str] = []


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    termination_grace_period_seconds: int | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_PODS = msgspec.json.Decoder(_Pod)


def glimpse(kv: KeyValue) -> Pod | None:
    """What decides how a pod ends, of one whose deletion nobody has asked for; None where it takes a closer look."""
    if _BEGINNING.match(kv.value) is None:
        return None
    try:
        seen = _PODS.decode(kv.value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    found, spec = seen.metadata, seen.spec
    meta = ObjectMeta(name=found.name, namespace=found.namespace, uid=found.uid, finalizers=found.finalizers)
    meta.resource_version = str(kv.mod_revision)
    grace = spec.termination_grace_period_seconds
    return Pod(
        kind="Pod",
        api_version="v1",
        metadata=meta,
        spec=PodSpec(node_name=spec.node_name, termination_grace_period_seconds=grace),
        status=PodStatus(phase=seen.status.phase),
    )


def given_time(value: bytes, now: datetime, seconds: int) -> bytes:
    """A pod that was glimpsed, with so many seconds to end."""
    found = _BEGINNING.match(value)
    assert found is not None, "only such are glimpsed"  # noqa: S101 - see `glimpse`
    until = times.to_seconds(times.later(now, seconds)).encode()
    return b'%b%d%b,"deletionTimestamp":"%b","deletionGracePeriodSeconds":%d%b' % (
        value[: found.start(1)],
        int(found[1]) + 1,
        value[found.end(1) : found.end()],
        until,
        seconds,
        value[found.end() :],
    )
