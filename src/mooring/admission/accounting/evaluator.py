"""`Evaluator`: the quota rules of one kind. Kinds that use more than object counts have a subclass."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from mooring.api.core_v1.namespace import ScopedResourceSelectorRequirement
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity

Usage: TypeAlias = dict[str, Quantity]
ONE = Quantity(1)
ZERO = Quantity(0)
_ALIASES = frozenset({"configmaps", "replicationcontrollers", "resourcequotas", "secrets"})
"""Resources of the core group that quotas also accept under a second name."""


class Evaluator:
    """Computes how much of a quota an object uses. This base class suits kinds of which only the number counts."""

    def __init__(self, group: str, resource: str) -> None:
        self.group = group
        self.resource = resource
        self.count_name = f"count/{resource}.{group}" if group else f"count/{resource}"
        self._own_names = frozenset({self.count_name, *({resource} & _ALIASES if not group else ())})

    def measures(self, name: str) -> bool:
        """Return whether objects of this kind use a resource that quotas limit by this name."""
        return name in self._own_names

    def measured_names(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.measures(name)]

    def usage(self, obj: Resource) -> Usage:
        """Return the amount of each quota resource that an object uses."""
        return dict.fromkeys(self._own_names, ONE)

    def in_scope(self, requirement: ScopedResourceSelectorRequirement, obj: Resource) -> bool:
        """Whether an object matches a quota scope; objects of most kinds match none."""
        return False

    def missing(self, required: Iterable[str], obj: Resource) -> str:
        """Describe required requests that an object lacks, as `must specify cpu for: web`; empty if none."""
        return ""

    def may_reject(self, new: Resource, old: Resource | None, subresource: str) -> bool:
        """Whether quotas may reject a write of an object. `old` is None for a create."""
        return old is None and not subresource

    def may_differ(self, new: Resource, old: Resource) -> bool:
        """Whether an update can change how much of a quota the object uses, or which scopes it matches."""
        return False


def selects(requirement: ScopedResourceSelectorRequirement, value: str) -> bool:
    """Return whether a scope requirement matches a class name (empty: the object has no class)."""
    match requirement.operator:
        case "In":
            return value in requirement.values if value else False
        case "NotIn":
            return value not in requirement.values if value else True
        case "Exists":
            return bool(value)
        case _:
            return not value


def add_usage(total: Usage, more: Mapping[str, Quantity]) -> None:
    """Add the amounts of one quota usage to another, in place."""
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity
