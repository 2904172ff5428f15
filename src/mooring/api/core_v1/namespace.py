"""Namespace, and the limits that hold in one: ResourceQuota and LimitRange."""

from typing import Annotated, ClassVar

from mooring.api.base import Merge, Object, StateCondition, always, atomic, list_map, required
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity


class NamespaceSpec(Object):
    """The finalizers that delay the deletion of a namespace."""

    finalizers: list[str] = []
    """Names that must all be removed before the namespace disappears."""


class NamespaceCondition(StateCondition):
    """One aspect of a namespace's state, such as NamespaceContentRemaining."""


class NamespaceStatus(Object):
    """The state of a namespace."""

    phase: str = ""
    """Active or Terminating."""
    conditions: Annotated[list[NamespaceCondition], list_map("type")] = []
    """Aspects of the state, while the namespace is being deleted."""


class Namespace(Resource):
    """A scope for names."""

    spec: NamespaceSpec = always(NamespaceSpec)
    status: NamespaceStatus = always(NamespaceStatus)


class ScopedResourceSelectorRequirement(Object):
    """A condition on what a quota counts."""

    scope_name: str = required(str)
    """The scope, such as PriorityClass."""
    operator: str = required(str)
    """In, NotIn, Exists or DoesNotExist."""
    values: list[str] = []
    """The values to compare with; empty for Exists and DoesNotExist."""


class ScopeSelector(Object):
    """Chooses what a quota counts; all conditions must hold."""

    __merge__: ClassVar[Merge | None] = atomic()

    match_expressions: list[ScopedResourceSelectorRequirement] = []
    """The conditions."""


class ResourceQuotaSpec(Object):
    """The limits of a namespace's usage."""

    hard: dict[str, Quantity] = {}
    """The limit of each resource."""
    scopes: list[str] = []
    """Restricts the quota to objects that match all scopes."""
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Object):
    """The limits and the observed usage of a namespace."""

    hard: dict[str, Quantity] = {}
    """The limits that are enforced."""
    used: dict[str, Quantity] = {}
    """The current usage."""


class ResourceQuota(Resource):
    """Limits what a namespace may use in all."""

    spec: ResourceQuotaSpec = always(ResourceQuotaSpec)
    status: ResourceQuotaStatus = always(ResourceQuotaStatus)


class LimitRangeItem(Object):
    """Limits for objects of one type."""

    type: str = required(str)
    """Pod, Container or PersistentVolumeClaim."""
    max: dict[str, Quantity] = {}
    """The most that one may have."""
    min: dict[str, Quantity] = {}
    """The least that one must have."""
    default: dict[str, Quantity] = {}
    """The limits that one gets when it gives none."""
    default_request: dict[str, Quantity] = {}
    """The requests that one gets when it gives none."""
    max_limit_request_ratio: dict[str, Quantity] = {}
    """How many times the request a limit may be."""


class LimitRangeSpec(Object):
    """The limits of a LimitRange."""

    limits: list[LimitRangeItem] = required(list)
    """The limits, by type of object."""


class LimitRange(Resource):
    """Limits, and defaults, for single objects of a namespace."""

    spec: LimitRangeSpec = always(LimitRangeSpec)
