"""Evaluate the quotas, LimitRanges and Pod Security levels of a cluster's namespaces for objects that are not written.

`simulate` charges created objects and releases deleted ones; `explain` and `lint` ask what would be refused. Messages
are the server's, because its functions are called. Usage is that of the quota's status; without a status, as in a
manifest, the objects of the snapshot are counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from mooring.admission.accounting.enforcement import UsageChange, compute_usage_after, is_in_scope
from mooring.admission.accounting.evaluators import ZERO, Evaluator, Evaluators, Usage, add_usage
from mooring.admission.options import AdmissionOptions
from mooring.admission.pod_security.enforcement import security_labels
from mooring.advisor.policies.evaluation import POLICIES
from mooring.advisor.snapshot.objects import Snapshot, newest_kind_of
from mooring.api import errors
from mooring.api.core_v1 import LimitRange, Namespace, ResourceQuota, ServiceAccount
from mooring.api.core_v1.namespace import ResourceQuotaStatus
from mooring.api.meta_v1 import Resource
from mooring.api.node_v1 import RuntimeClass

RULES: tuple[type[Resource], ...] = (LimitRange, ResourceQuota, RuntimeClass, ServiceAccount, *POLICIES)
"""The kinds, besides namespaces, with rules about new objects."""
_MOST = 10_000
"""The maximum number of objects that are counted one by one."""


@dataclass(slots=True)
class _Quota:
    object: ResourceQuota
    used: Usage


class NamespaceRules:
    """The quotas, LimitRanges and Pod Security levels of all namespaces, with the quotas' usage."""

    def __init__(self, options: AdmissionOptions | None = None, now: Callable[[], datetime] | None = None) -> None:
        self._options = options
        self._now = now
        self._evaluators: Evaluators | None = None
        self._quotas: dict[str, dict[str, _Quota]] = {}
        self._limits: dict[str, dict[str, LimitRange]] = {}
        self._security: dict[str, Mapping[str, str]] = {}

    @classmethod
    def from_snapshot(
        cls, snapshot: Snapshot, options: AdmissionOptions | None = None, now: Callable[[], datetime] | None = None
    ) -> "NamespaceRules":
        """Return the rules of all namespaces in a snapshot."""
        rules = cls(options, now)
        for kind in (LimitRange, Namespace, ResourceQuota):
            for obj in snapshot.all(kind):
                rules.put(obj, snapshot)
        return rules

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without caches."""
        return {**self.__dict__, "_evaluators": None, "_options": None, "_now": None}

    def put(self, obj: Resource, snapshot: Snapshot | None = None) -> None:
        """Add or replace a quota, LimitRange or Namespace; ignore others. New quotas count the `snapshot`'s objects."""
        namespace, name = obj.metadata.namespace, obj.metadata.name
        match obj:
            case LimitRange():
                self._limits.setdefault(namespace, {})[name] = obj
            case Namespace():
                self._security[name] = security_labels(obj.metadata.labels)
            case ResourceQuota():
                counted = obj if obj.status.hard else self._with_usage(obj, snapshot)
                self._quotas.setdefault(namespace, {})[name] = _Quota(counted, counted.status.used)

    def remove(self, obj: Resource) -> None:
        """Remove a quota or LimitRange."""
        if isinstance(obj, LimitRange):
            self._limits.get(obj.metadata.namespace, {}).pop(obj.metadata.name, None)
        elif isinstance(obj, ResourceQuota):
            self._quotas.get(obj.metadata.namespace, {}).pop(obj.metadata.name, None)

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        return [each for _, each in sorted(self._limits.get(namespace, {}).items())]

    def security_labels(self, namespace: str) -> Mapping[str, str]:
        return self._security.get(namespace, {})

    def charge(self, obj: Resource) -> str:
        """Count a created object in its quotas; return the server's message if a quota has no room for it."""
        quotas = self._quotas_of(obj)
        evaluator = self._get_evaluator(obj) if quotas else None
        if evaluator is None:
            return ""
        change = UsageChange(evaluator, obj, None)
        try:
            charges = [(quota, compute_usage_after(quota.object, quota.used, change)) for quota in quotas]
        except errors.StatusError as refusal:
            return refusal.status.message
        for quota, after in charges:
            quota.used = after or quota.used
        return ""

    def release(self, obj: Resource) -> None:
        """Subtract the usage of a deleted object from its quotas."""
        quotas = self._quotas_of(obj)
        evaluator = self._get_evaluator(obj) if quotas else None
        if evaluator is not None:
            change = UsageChange(evaluator, None, obj)
            for quota in quotas:
                quota.used = compute_usage_after(quota.object, quota.used, change) or quota.used

    def refusal_if_recreated(self, obj: Resource) -> str:
        """Return why quotas would refuse an object if it were deleted and created again; empty if they allow it."""
        quotas = self._quotas_of(obj)
        before = [quota.used for quota in quotas]
        self.release(obj)
        refusal = self.charge(obj)
        for quota, used in zip(quotas, before, strict=True):
            quota.used = used
        return refusal

    def compute_usage(self, obj: Resource) -> Usage:
        """Return the amounts by which an object adds to quotas, by resource."""
        evaluator = self._get_evaluator(obj)
        return {} if evaluator is None else evaluator.compute_usage(obj)

    def count_room_for(self, obj: Resource, number: int) -> tuple[int, str]:
        """Return how many of a number of identical objects the quotas admit, and the refusal of the next one."""
        quotas = self._quotas_of(obj)
        before = [quota.used for quota in quotas]
        why, found, number = "", 0, min(number, _MOST)
        while found < number and not (why := self.charge(obj)):
            found += 1
            if [quota.used for quota in quotas] == before:  # no quota counts them
                found = number
        for quota, used in zip(quotas, before, strict=True):
            quota.used = used
        return found, why

    def _quotas_of(self, obj: Resource) -> list[_Quota]:
        return [each for _, each in sorted(self._quotas.get(obj.metadata.namespace, {}).items())]

    def _get_evaluator(self, obj: Resource) -> Evaluator[Any] | None:
        if self._evaluators is None:
            now = self._now or (lambda: datetime.now(UTC))
            self._evaluators = Evaluators(self._options or AdmissionOptions(), now)
        try:
            return self._evaluators.find_evaluator(newest_kind_of(type(obj)))
        except ValueError:
            return None  # no kind of Kubernetes' own

    def _with_usage(self, quota: ResourceQuota, snapshot: Snapshot | None) -> ResourceQuota:
        used: Usage = {}
        for kind in snapshot.kinds() if snapshot is not None else ():
            for obj in snapshot.all(kind) if snapshot is not None else ():
                evaluator = self._get_evaluator(obj) if obj.metadata.namespace == quota.metadata.namespace else None
                if evaluator is not None and is_in_scope(quota.spec, evaluator, obj):
                    add_usage(used, evaluator.compute_usage(obj))
        hard = quota.spec.hard
        return replace(quota, status=ResourceQuotaStatus(hard=hard, used={name: used.get(name, ZERO) for name in hard}))
