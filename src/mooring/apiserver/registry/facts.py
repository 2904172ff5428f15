"""What admission may look up in the cluster: namespaces, service accounts and classes, fetched for one request.

Admission asks without waiting, so what a request may need is read beforehand: what this server knows, and only if it
does not know what the request names, what other servers may know. So a namespace can be used the moment its creation
was acknowledged, by whichever server. Decoding is spared as long as nothing has changed.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

from mooring.admission.pod_security.enforcement import security_labels
from mooring.admission.strategy import Priority
from mooring.api import codec
from mooring.api.core_v1 import LimitRange, Namespace, PersistentVolumeClaim, Pod, ServiceAccount
from mooring.api.meta_v1 import Resource
from mooring.api.networking_v1 import Ingress, IngressClass
from mooring.api.node_v1 import RuntimeClass
from mooring.api.resource_v1 import ADMIN_ACCESS_LABEL
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.storage_v1 import StorageClass
from mooring.apiserver.registry.decoded_cache import DecodedCache
from mooring.store.kv import KeyValue, Store

_DEFAULT_STORAGE_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
DEFAULT_ACCOUNT = "default"
_WAITS, _WAIT_SECONDS = 20, 0.05
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_ASKING = frozenset({Pod, PersistentVolumeClaim, Ingress, Namespace})
"""Kinds for which more is asked than what their namespace says."""
R = TypeVar("R", bound=Resource)
T = TypeVar("T")


def _no_limits(namespace: str) -> Sequence[LimitRange]:  # noqa: ARG001 - no namespace has any
    return ()


def _no_pods(namespace: str) -> tuple[int, Iterator[Pod]]:  # noqa: ARG001 - as above
    return 0, iter(())


class Facts(msgspec.Struct, frozen=True):
    """The `Lookups` of one request."""

    phases: Mapping[str, str] = _NOTHING
    priorities: Mapping[str, Priority] = _NOTHING
    default_priority: Priority | None = None
    storage_class: str | None = None
    expandable_classes: frozenset[str] = frozenset()
    ingress_class: str | None = None
    accounts: Mapping[str, ServiceAccount] | None = None
    runtime_classes: Mapping[str, RuntimeClass] = _NOTHING
    node_labels: Mapping[str, str] = _NOTHING
    """The topology labels of the node that a pod names."""
    limits: Callable[[str], Sequence[LimitRange]] = _no_limits
    """Asked only by those who need it, as this server knows of them without waiting."""
    security: Mapping[str, str] = _NOTHING
    pods_of: Callable[[str], tuple[int, Iterator[Pod]]] = _no_pods

    def namespace_phase(self, name: str) -> str | None:
        return self.phases.get(name)

    def priority_class(self, name: str) -> Priority | None:
        return self.priorities.get(name)

    def default_priority_class(self) -> Priority | None:
        return self.default_priority

    def default_storage_class(self) -> str | None:
        return self.storage_class

    def default_ingress_class(self) -> str | None:
        return self.ingress_class

    def allows_expansion(self, storage_class: str) -> bool:
        return storage_class in self.expandable_classes

    def service_accounts(self, namespace: str) -> Mapping[str, ServiceAccount] | None:
        return self.accounts if namespace in self.phases else None

    @property
    def knows_runtime_classes(self) -> bool:
        return True

    def runtime_class(self, name: str) -> RuntimeClass | None:
        return self.runtime_classes.get(name)

    def topology_labels(self, node: str) -> Mapping[str, str]:
        return self.node_labels if node else {}

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        return self.limits(namespace)

    def security_labels(self, namespace: str) -> Mapping[str, str]:
        return self.security if namespace in self.phases else {}

    def allows_admin_access(self, namespace: str) -> bool:
        return self.security_labels(namespace).get(ADMIN_ACCESS_LABEL) == "true"

    def pods(self, namespace: str) -> tuple[int, Iterator[Pod]]:
        return self.pods_of(namespace)


class _NamespaceFacts(msgspec.Struct, frozen=True):
    """What admission needs of a namespace."""

    phase: str
    security: Mapping[str, str]
    alone: Facts
    """All that is asked for objects in it of most kinds."""


class _Labels(msgspec.Struct):
    labels: dict[str, str] = {}


class _Labelled(msgspec.Struct):
    """As much of an object as its labels need."""

    metadata: _Labels


class ClusterFacts:
    """Fetches what admission may ask about an object."""

    def __init__(self, store: Store, decoded: DecodedCache) -> None:
        self._store = store
        self._decoded = decoded
        self._priorities = Collection(store, "/registry/priorityclasses/", PriorityClass, _priorities)
        self._storage_classes = Collection(store, "/registry/storageclasses/", StorageClass, _storage_classes)
        self._ingress_classes = Collection(store, "/registry/ingressclasses/", IngressClass, _default_ingress_class)

    async def about(self, obj: Resource | None, namespace: str) -> Facts:
        """The facts for a write of `obj` in a namespace."""
        found = await self._namespace(namespace) if namespace else None
        if found and type(obj) not in _ASKING:
            return found.alone
        phases = {namespace: found.phase} if found else {}
        security = found.security if found else {}
        if isinstance(obj, Pod):
            priorities, default = self._priorities.summary()
            if obj.spec.priority_class_name and obj.spec.priority_class_name not in priorities:
                await self._store.revision()
                priorities, default = self._priorities.summary()
            return Facts(
                phases,
                priorities,
                default,
                accounts=await self._service_accounts(obj, namespace),
                runtime_classes=await self._runtime_class(obj.spec.runtime_class_name),
                node_labels=self.topology_labels(obj.spec.node_name),
                limits=self.limit_ranges,
                security=security,
            )
        if isinstance(obj, PersistentVolumeClaim):
            default_class, expandable = self._storage_classes.summary()
            return Facts(phases, storage_class=default_class, expandable_classes=expandable, limits=self.limit_ranges)
        if isinstance(obj, Ingress):
            return Facts(phases, ingress_class=self._ingress_classes.summary())
        if isinstance(obj, Namespace):
            return Facts(pods_of=self.pods)
        return Facts(phases, security=security)

    async def _runtime_class(self, name: str | None) -> dict[str, RuntimeClass]:
        kv = await self._store.get(f"/registry/runtimeclasses/{name}") if name else None
        return {} if kv is None or name is None else {name: codec.decode_own(kv.value, RuntimeClass)}

    def topology_labels(self, node: str) -> Mapping[str, str]:
        """The zone and region of a node, as far as it has them and this server knows of it."""
        kv = self._store.peek(f"/registry/nodes/{node}") if node else None
        if kv is None:
            return {}
        return self._decoded.get(kv, _topology_labels)

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        """The LimitRanges of a namespace that this server knows of, by name."""
        items = self._store.peek_all(f"/registry/limitranges/{namespace}/")
        return [self._decoded.get(kv, _limit_range) for kv in items]

    async def namespace_phase(self, name: str) -> str | None:
        """The phase of a namespace now, None when there is none of that name."""
        found = await self._namespace(name)
        return found.phase if found else None

    def pods(self, namespace: str) -> tuple[int, Iterator[Pod]]:
        """How many pods a namespace has, and all of them, each decoded when it is asked for."""
        items = self._store.peek_all(f"/registry/pods/{namespace}/")
        return len(items), (codec.decode_own(kv.value, Pod) for kv in items)

    async def _namespace(self, name: str) -> "_NamespaceFacts | None":
        key = f"/registry/namespaces/{name}"
        kv = self._store.peek(key) or await self._store.get(key)
        return self._decoded.get(kv, _namespace_facts) if kv is not None else None

    async def _service_accounts(self, pod: Pod, namespace: str) -> Mapping[str, ServiceAccount] | None:
        """Return the account `default` and the one that a new pod names; None where a namespace has no `default`.

        A namespace gets its account `default` a moment after it was created. As in upstream Kubernetes, a pod that is
        created meanwhile waits for it, at most a second; but only where accounts are created at all, as the namespace
        `default` shows.
        """
        if pod.metadata.resource_version:
            return None  # it has its account since it was created
        default = await self._account(namespace, DEFAULT_ACCOUNT)
        if default is None and await self._account("default", DEFAULT_ACCOUNT) is not None:
            for _ in range(_WAITS):
                await asyncio.sleep(_WAIT_SECONDS)
                default = await self._account(namespace, DEFAULT_ACCOUNT)
                if default is not None:
                    break
        if default is None:
            return None
        found = {DEFAULT_ACCOUNT: default}
        name = pod.spec.service_account_name or pod.spec.service_account or DEFAULT_ACCOUNT
        if name != DEFAULT_ACCOUNT and (account := await self._account(namespace, name)) is not None:
            found[name] = account
        return found

    async def _account(self, namespace: str, name: str) -> ServiceAccount | None:
        key = f"/registry/serviceaccounts/{namespace}/{name}"
        kv = self._store.peek(key) or await self._store.get(key)
        return self._decoded.get(kv, _service_account) if kv is not None else None


def _namespace_facts(kv: KeyValue) -> _NamespaceFacts:
    namespace = codec.decode_own(kv.value, Namespace)
    phase, security = namespace.status.phase or "Active", security_labels(namespace.metadata.labels)
    return _NamespaceFacts(phase, security, Facts({namespace.metadata.name: phase}, security=security))


def _service_account(kv: KeyValue) -> ServiceAccount:
    return codec.decode_own(kv.value, ServiceAccount)


def _limit_range(kv: KeyValue) -> LimitRange:
    return codec.decode_own(kv.value, LimitRange)


def _topology_labels(kv: KeyValue) -> Mapping[str, str]:
    labels = msgspec.json.decode(kv.value, type=_Labelled).metadata.labels
    return {key: labels[key] for key in _TOPOLOGY if key in labels}


class Collection(Generic[R, T]):
    """A few objects that are decoded and summed up again only when one of them has changed."""

    def __init__(self, store: Store, prefix: str, object_type: type[R], sum_up: Callable[[list[R]], T]) -> None:
        self._store = store
        self._prefix = prefix
        self._type = object_type
        self._sum_up = sum_up
        self._seen: list[KeyValue] = []
        self._summary = sum_up([])

    def summary(self) -> T:
        items = self._store.peek_all(self._prefix)
        if items != self._seen:
            self._summary = self._sum_up([codec.decode_own(kv.value, self._type) for kv in items])
            self._seen = items
        return self._summary


def _priorities(classes: list[PriorityClass]) -> tuple[dict[str, Priority], Priority | None]:
    """All classes by name, and of those marked as the default the one with the lowest value."""
    found = {each.metadata.name: _priority(each) for each in classes}
    marked = [found[each.metadata.name] for each in classes if each.global_default]
    return found, min(marked, key=lambda priority: priority.value, default=None)


def _priority(each: PriorityClass) -> Priority:
    policy = each.preemption_policy or "PreemptLowerPriority"
    return Priority(each.metadata.name, each.value, policy)


def _default_ingress_class(classes: list[IngressClass]) -> str | None:
    return _youngest(each for each in classes if each.metadata.annotations.get(_DEFAULT_INGRESS_CLASS) == "true")


def _storage_classes(classes: list[StorageClass]) -> tuple[str | None, frozenset[str]]:
    """The class that is the default, and those that may grow."""
    default = _youngest(
        each
        for each in classes
        if any(each.metadata.annotations.get(mark) == "true" for mark in _DEFAULT_STORAGE_CLASS)
    )
    return default, frozenset(each.metadata.name for each in classes if each.allow_volume_expansion)


def _youngest(marked: Iterable[Resource]) -> str | None:
    """Of several classes that are marked as the default, the name of the youngest; of equals the first by name."""
    found = sorted(marked, key=lambda each: each.metadata.name)
    found.sort(key=lambda each: each.metadata.creation_timestamp or "", reverse=True)
    return found[0].metadata.name if found else None
