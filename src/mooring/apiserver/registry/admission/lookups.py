"""Look up the cluster state that admission needs: namespaces, service accounts, classes, limit ranges and pods.

Admission never waits, so `AdmissionLookups.load_for` first makes sure that this server's memory has the objects that a
request names; for example, a namespace can be used as soon as any server has acknowledged its creation. The lookups
then read memory, and decode through the cache. The last two functions are for the quota usage of ResourceClaims.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from mooring.admission.strategy import Priority
from mooring.api import codec
from mooring.api.core_v1 import LimitRange, Pod, ServiceAccount
from mooring.api.meta_v1 import Resource
from mooring.api.networking_v1 import IngressClass
from mooring.api.node_v1 import RuntimeClass
from mooring.api.resource_v1 import ADMIN_ACCESS_LABEL, DeviceClass, ResourceClaim
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.states import controller_of
from mooring.api.storage_v1 import StorageClass
from mooring.apiserver.registry.storage import decoded_cache
from mooring.apiserver.registry.storage.decoded_cache import DecodedCache
from mooring.store.kv import KeyValue, Store

FOR_EXTENDED_RESOURCES = "resource.kubernetes.io/extended-resource-claim"
_DEFAULT_STORAGE_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"
_DEFAULT_ACCOUNT = "default"
_WAITS, _WAIT_SECONDS = 20, 0.05
R = TypeVar("R", bound=Resource)
T = TypeVar("T")


class DerivedValue(Generic[R, T]):
    """A value computed from all objects of a kind; read after an object has changed, it is recomputed."""

    def __init__(self, store: Store, prefix: str, object_type: type[R], derive: Callable[[list[R]], T]) -> None:
        self._store = store
        self._prefix = prefix
        self._type = object_type
        self._derive = derive
        self._seen: list[KeyValue] = []
        self._value = derive([])

    def value(self) -> T:
        items = self._store.peek_all(self._prefix)
        if items != self._seen:
            self._value = self._derive([codec.decode_own(kv.value, self._type) for kv in items])
            self._seen = items
        return self._value


class AdmissionLookups(msgspec.Struct, frozen=True):
    """Implements admission's `Lookups`: reads namespaces, classes and other objects from this server's memory."""

    store: Store
    decoded: DecodedCache
    priorities: DerivedValue[PriorityClass, tuple[dict[str, Priority], Priority | None]]
    storage_classes: DerivedValue[StorageClass, tuple[str | None, frozenset[str]]]
    ingress_classes: DerivedValue[IngressClass, str | None]
    device_classes: DerivedValue[DeviceClass, dict[str, str]]
    accounts: Mapping[str, ServiceAccount] | None = None
    """The service accounts that a new pod may name."""

    @classmethod
    def for_store(cls, store: Store, decoded: DecodedCache) -> "AdmissionLookups":
        return cls(
            store,
            decoded,
            DerivedValue(store, "/registry/priorityclasses/", PriorityClass, _index_priorities),
            DerivedValue(store, "/registry/storageclasses/", StorageClass, _storage_classes),
            DerivedValue(store, "/registry/ingressclasses/", IngressClass, _default_ingress_class),
            DerivedValue(store, "/registry/deviceclasses/", DeviceClass, _extended_resources),
        )

    async def load_for(self, obj: Resource | None, namespace: str) -> "AdmissionLookups":
        """Load the objects that a write of `obj` depends on into memory; return lookups that read them."""
        if namespace and self.store.peek(f"/registry/namespaces/{namespace}") is None:
            await self.store.get(f"/registry/namespaces/{namespace}")
        if not isinstance(obj, Pod):
            return self
        if obj.spec.priority_class_name and self.priority_class(obj.spec.priority_class_name) is None:
            await self.store.revision()
        if obj.spec.runtime_class_name:
            await self._read_object(f"/registry/runtimeclasses/{obj.spec.runtime_class_name}")
        if obj.metadata.resource_version:
            return self  # its account was set when it was created
        return replace(self, accounts=await self._service_accounts(obj, namespace))

    async def _read_object(self, key: str) -> KeyValue | None:
        return self.store.peek(key) or await self.store.get(key)

    async def _service_accounts(self, pod: Pod, namespace: str) -> Mapping[str, ServiceAccount] | None:
        """Return the accounts `default` and of a new pod; None if `default` is missing for a second.

        The service account controller creates it a moment after the namespace. The account of the namespace `default`
        shows whether that controller runs at all.
        """
        default = await self._read_account(namespace, _DEFAULT_ACCOUNT)
        if default is None and await self._read_account("default", _DEFAULT_ACCOUNT) is not None:
            for _ in range(_WAITS):
                await asyncio.sleep(_WAIT_SECONDS)
                default = await self._read_account(namespace, _DEFAULT_ACCOUNT)
                if default is not None:
                    break
        if default is None:
            return None
        found = {_DEFAULT_ACCOUNT: default}
        name = pod.spec.service_account_name or pod.spec.service_account or _DEFAULT_ACCOUNT
        if name != _DEFAULT_ACCOUNT and (account := await self._read_account(namespace, name)) is not None:
            found[name] = account
        return found

    async def _read_account(self, namespace: str, name: str) -> ServiceAccount | None:
        kv = await self._read_object(f"/registry/serviceaccounts/{namespace}/{name}")
        return self.decoded.get(kv, decoded_cache.service_account) if kv is not None else None

    def namespace_phase(self, name: str) -> str | None:
        kv = self.store.peek(f"/registry/namespaces/{name}")
        return self.decoded.get(kv, decoded_cache.phase_and_security)[0] if kv is not None else None

    def security_labels(self, namespace: str) -> Mapping[str, str]:
        kv = self.store.peek(f"/registry/namespaces/{namespace}")
        return self.decoded.get(kv, decoded_cache.phase_and_security)[1] if kv is not None else {}

    def allows_admin_access(self, namespace: str) -> bool:
        return self.security_labels(namespace).get(ADMIN_ACCESS_LABEL) == "true"

    def priority_class(self, name: str) -> Priority | None:
        return self.priorities.value()[0].get(name)

    def default_priority_class(self) -> Priority | None:
        return self.priorities.value()[1]

    def default_storage_class(self) -> str | None:
        return self.storage_classes.value()[0]

    def allows_expansion(self, storage_class: str) -> bool:
        return storage_class in self.storage_classes.value()[1]

    def default_ingress_class(self) -> str | None:
        return self.ingress_classes.value()

    def service_accounts(self, namespace: str) -> Mapping[str, ServiceAccount] | None:  # noqa: ARG002 - the pod's own
        return self.accounts

    @property
    def knows_runtime_classes(self) -> bool:
        return True

    def runtime_class(self, name: str) -> RuntimeClass | None:
        kv = self.store.peek(f"/registry/runtimeclasses/{name}")
        return codec.decode_own(kv.value, RuntimeClass) if kv is not None else None

    def topology_labels(self, node: str) -> Mapping[str, str]:
        kv = self.store.peek(f"/registry/nodes/{node}") if node else None
        return self.decoded.get(kv, decoded_cache.topology_labels) if kv is not None else {}

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        items = self.store.peek_all(f"/registry/limitranges/{namespace}/")
        return [self.decoded.get(kv, decoded_cache.limit_range) for kv in items]

    def pods(self, namespace: str) -> tuple[int, Iterator[Pod]]:
        items = self.store.peek_all(f"/registry/pods/{namespace}/")
        return len(items), (codec.decode_own(kv.value, Pod) for kv in items)

    # -- the usage of ResourceClaims

    def extended_resources(self) -> Mapping[str, str]:
        """Return the extended resource that each DeviceClass names, by class; others are left out."""
        return self.device_classes.value()

    def pod_of_claim(self, claim: ResourceClaim) -> Pod | None:
        """Return the pod whose extended resources a claim covers; None for a claim that users made.

        Quotas charge the pod for its extended resources, and such a claim only for the excess.
        """
        owner = controller_of(claim.metadata)
        if not _is_for_extended_resources(claim) or owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
            return None
        kv = self.store.peek(f"/registry/pods/{claim.metadata.namespace}/{owner.name}")
        pod = codec.decode_own(kv.value, Pod) if kv else None
        return pod if pod and pod.metadata.uid == owner.uid and self._is_claim_of(claim, pod) else None

    def _is_claim_of(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Return whether a claim is the one for a pod's extended resources: named in its status, or the oldest."""
        named = pod.status.extended_resource_claim_status
        if named is not None:
            return named.resource_claim_name == claim.metadata.name
        others = self.store.peek_all(f"/registry/resourceclaims/{claim.metadata.namespace}/")
        claims = [codec.decode_own(kv.value, ResourceClaim) for kv in others if pod.metadata.uid.encode() in kv.value]
        return not any(
            _age_key(each) < _age_key(claim)
            for each in claims
            if _is_for_extended_resources(each)
            and (owner := controller_of(each.metadata)) is not None
            and owner.uid == pod.metadata.uid
        )


def _index_priorities(classes: list[PriorityClass]) -> tuple[dict[str, Priority], Priority | None]:
    """Return PriorityClasses by name, and the default: the one with the lowest value, or None."""
    found = {
        each.metadata.name: Priority(each.metadata.name, each.value, each.preemption_policy or "PreemptLowerPriority")
        for each in classes
    }
    marked = [found[each.metadata.name] for each in classes if each.global_default]
    return found, min(marked, key=lambda priority: priority.value, default=None)


def _default_ingress_class(classes: list[IngressClass]) -> str | None:
    return _newest_name(each for each in classes if each.metadata.annotations.get(_DEFAULT_INGRESS_CLASS) == "true")


def _storage_classes(classes: list[StorageClass]) -> tuple[str | None, frozenset[str]]:
    """Return the name of the default StorageClass (or None), and the names of those that allow expansion."""
    default = _newest_name(
        each
        for each in classes
        if any(each.metadata.annotations.get(mark) == "true" for mark in _DEFAULT_STORAGE_CLASS)
    )
    return default, frozenset(each.metadata.name for each in classes if each.allow_volume_expansion)


def _newest_name(marked: Iterable[Resource]) -> str | None:
    """Return the name of the newest object; of equally old ones, the first by name; None without objects."""
    found = sorted(marked, key=lambda each: each.metadata.name)
    found.sort(key=lambda each: each.metadata.creation_timestamp or "", reverse=True)
    return found[0].metadata.name if found else None


def _extended_resources(classes: list[DeviceClass]) -> dict[str, str]:
    return {
        each.metadata.name: each.spec.extended_resource_name for each in classes if each.spec.extended_resource_name
    }


def _is_for_extended_resources(claim: ResourceClaim) -> bool:
    return claim.metadata.annotations.get(FOR_EXTENDED_RESOURCES) == "true"


def _age_key(claim: ResourceClaim) -> tuple[Any, str]:
    return claim.metadata.creation_timestamp or "", claim.metadata.name
