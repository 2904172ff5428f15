"""Complete objects as the API server would store them: defaults and, for new pods and claims, admission.

Manifests have not passed a server; the output of `kubectl get` has, and only gets defaults that a later version added.
An existing status is kept, because the nodes of a manifest state their size there.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.mutation import drop_disabled_fields, merge_label_keys
from mooring.admission.registry import find_strategy
from mooring.admission.strategy import NoCluster, Priority, Request
from mooring.advisor.snapshot.namespace_rules import NamespaceRules
from mooring.advisor.snapshot.objects import Snapshot
from mooring.api import errors
from mooring.api.core_v1 import LimitRange, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.storage_v1 import StorageClass

DEFAULT_NAMESPACE = "default"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


R = TypeVar("R", bound=Resource)


def index_by_name(objects: Iterable[R]) -> dict[str, R]:
    return {each.metadata.name: each for each in objects}


class ClusterLookups(NoCluster):
    """Admission's lookups in the PriorityClasses, StorageClasses and namespaces of a cluster."""

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> "ClusterLookups":
        """Return the lookups for a snapshot."""
        rules = NamespaceRules.from_snapshot(snapshot)
        return cls(index_by_name(snapshot.all(PriorityClass)), index_by_name(snapshot.all(StorageClass)), rules)

    def __init__(
        self,
        priorities: Mapping[str, PriorityClass],
        classes: Mapping[str, StorageClass],
        rules: NamespaceRules | None = None,
    ) -> None:
        self._priorities, self._classes = priorities, classes
        self._rules = rules or NamespaceRules()

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        return self._rules.limit_ranges(namespace)

    def security_labels(self, namespace: str) -> Mapping[str, str]:
        return self._rules.security_labels(namespace)

    def quota_refusal(self, obj: Resource) -> str:
        """Return why the quotas of its namespace refuse the creation of `obj`; empty if they allow it."""
        return self._rules.count_room_for(obj, 1)[1]

    def priority_class(self, name: str) -> Priority | None:
        found = self._priorities.get(name)
        return super().priority_class(name) if found is None else _to_priority(found)

    def default_priority_class(self) -> Priority | None:
        found = [each for each in self._priorities.values() if each.global_default]
        return _to_priority(min(found, key=lambda each: each.value)) if found else None

    def default_storage_class(self) -> str | None:
        marked = [each for each in self._classes.values() if each.metadata.annotations.get(_DEFAULT_CLASS) == "true"]
        newest = max(
            marked, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name), default=None
        )
        return newest.metadata.name if newest is not None else None


def _to_priority(found: PriorityClass) -> Priority:
    return Priority(found.metadata.name, found.value, found.preemption_policy or "PreemptLowerPriority")


class AdmissionResult(NamedTuple):
    """The result of admitting a new object: the refusal (empty if admitted) and the warnings."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.refusal or "; ".join(self.warnings)


def admit_object(
    obj: Resource, facts: NoCluster, options: AdmissionOptions | None = None, namespace: str = DEFAULT_NAMESPACE
) -> AdmissionResult:
    """Set an object's defaults and, if it is new, admit it, in place; return the refusal and warnings."""
    strategy = find_strategy(type(obj))
    if strategy is None:
        return AdmissionResult()
    if strategy.namespaced:
        obj.metadata.namespace = obj.metadata.namespace or namespace
    strategy.default(obj)
    if obj.metadata.uid or not isinstance(obj, Pod | PersistentVolumeClaim):
        return AdmissionResult()
    options = options or AdmissionOptions()
    request = Request(options=options, lookups=facts, now=datetime.now(UTC), namespace=obj.metadata.namespace)
    try:
        if not isinstance(obj, Pod) or obj.spec.priority is None:
            strategy.mutate(obj, None, request)
        strategy.admit(obj, None, request)
    except errors.StatusError as refusal:
        return AdmissionResult(str(refusal))
    if isinstance(obj, Pod):
        drop_disabled_fields(obj.spec, None, options, request.warn)
        merge_label_keys(obj, options)
        obj.status.phase = obj.status.phase or "Pending"
    no_room = facts.quota_refusal(obj) if isinstance(facts, ClusterLookups) else ""
    return AdmissionResult(no_room, tuple(request.warnings))
