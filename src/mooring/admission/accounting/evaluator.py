"""`Evaluator`: what quotas know of one kind of object. Each kind that uses more than its own number has a subclass."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from mooring.api.core_v1.namespace import ScopedResourceSelectorRequirement
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity

Usage: TypeAlias = dict[str, Quantity]
ONE = Quantity(1)
ZERO = Quantity(0)
_ALIASES = frozenset({"configmaps", "replicationcontrollers", "resourcequotas", "secrets"})
"""Resources of the core group that quotas count under their own name too."""


class Evaluator:
    """Objects of a kind that quotas do no more than count."""

    def __init__(self, group: str, resource: str) -> None:
        self.group = group
        self.resource = resource
        self.count_name = f"count/{resource}.{group}" if group else f"count/{resource}"
        self._own_names = frozenset({self.count_name, *({resource} & _ALIASES if not group else ())})

    def measures(self, name: str) -> bool:
        """Whether objects of this kind use what a quota names."""
        return name in self._own_names

    def measured(self, names: Iterable[str]) -> list[str]:
        """What of a quota's names objects of this kind use."""
        return [name for name in names if self.measures(name)]

    def usage(self, obj: Resource) -> Usage:
        """What an object uses."""
        return dict.fromkeys(self._own_names, ONE)

    def in_scope(self, requirement: ScopedResourceSelectorRequirement, obj: Resource) -> bool:
        """Whether an object is among those that a scope is about; most kinds are in none."""
        return False

    def missing(self, required: Iterable[str], obj: Resource) -> str:
        """What an object must say because a quota counts it, as `must specify cpu for: web`; empty if nothing."""
        return ""

    def judges(self, new: Resource, old: Resource | None, subresource: str) -> bool:
        """Whether a write is one that quotas may refuse. `old` is None for a create."""
        return old is None and not subresource

    def may_differ(self, new: Resource, old: Resource) -> bool:
        """Whether a change can have made any difference to what the object uses, or to the scopes that it is in."""
        return False


def selects(requirement: ScopedResourceSelectorRequirement, value: str) -> bool:
    """Whether a requirement on the name of a class chooses a value, which is empty where there is none."""
    match requirement.operator:
        case "In":
            return value in requirement.values if value else False
        case "NotIn":
            return value not in requirement.values if value else True
        case "Exists":
            return bool(value)
        case _:
            return not value


def added(total: Usage, more: Mapping[str, Quantity]) -> None:
    """Add to what is there."""
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity
