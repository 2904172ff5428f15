"""Sets of pods that terms and constraints choose, counted by row.

Pods with the same namespace and labels form a group; whether a set has a group is judged once, when either is new.
Placing a pod adds one to the sets of its group and looks at no selector. A set lives as long as somebody holds it.
"""

from collections.abc import Mapping
from typing import TypeAlias
from weakref import WeakValueDictionary

import msgspec

from mooring.api.label_selector import NOTHING, Selector
from mooring.constraints.pod_affinity import AffinityTerm
from mooring.scheduler.columns.shapes import Group
from mooring.scheduler.columns.topology import RowCounts
from mooring.scheduler.columns.weak_list import WeakList

GroupKey: TypeAlias = tuple[Group, bool]
"""Namespace and labels of pods, and whether they are being deleted."""
NamespaceLabels = Mapping[str, Mapping[str, str]]


class PodChoice(msgspec.Struct, frozen=True):
    """Pods by labels and namespace."""

    selector: Selector
    namespaces: frozenset[str] = frozenset()
    namespace_selector: Selector = NOTHING
    terminating: bool = True
    """Whether pods that are being deleted count."""

    @classmethod
    def of_term(cls, term: AffinityTerm) -> "PodChoice":
        return cls(term.selector, term.namespaces, term.namespace_selector)

    def has(self, group: "PodGroup", namespaces: NamespaceLabels) -> bool:
        if group.terminating and not self.terminating:
            return False
        return self.selector.matches(group.labels) and self._covers(group.namespace, namespaces)

    def _covers(self, namespace: str, namespaces: NamespaceLabels) -> bool:
        if namespace in self.namespaces or self.namespace_selector.is_empty():
            return True
        labels = namespaces.get(namespace)  # a namespace that is not known is chosen by no selector
        return labels is not None and self.namespace_selector.matches(labels)


class PodSet(RowCounts):
    """The placed pods that all `choices` choose."""

    def __init__(self, choices: tuple[PodChoice, ...], capacity: int) -> None:
        super().__init__(capacity)
        self.choices = choices

    def has(self, group: "PodGroup", namespaces: NamespaceLabels) -> bool:
        return all(choice.has(group, namespaces) for choice in self.choices)


class PodGroup:
    """Placed pods of one namespace with the same labels."""

    __slots__ = ("by_row", "labels", "namespace", "sets", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], *, terminating: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.by_row: dict[int, int] = {}
        self.sets: WeakList[PodSet] = WeakList()


class PodSets:
    def __init__(self, namespaces: NamespaceLabels, capacity: int) -> None:
        self._namespaces = namespaces
        self._capacity = capacity
        self._groups: dict[GroupKey, PodGroup] = {}
        self._sets: WeakValueDictionary[tuple[PodChoice, ...], PodSet] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._sets)

    def pod_set(self, *choices: PodChoice) -> PodSet:
        """The set of pods that all `choices` choose; the same object for the same choices."""
        found = self._sets.get(choices)
        if found is None:
            found = self._sets[choices] = PodSet(choices, self._capacity)
            for group in self._groups.values():
                if found.has(group, self._namespaces):
                    _join(group, found)
        return found

    def add(self, row: int, key: GroupKey, labels: Mapping[str, str]) -> None:
        """A pod has been placed on a row."""
        for pods in self._joined(row, key, labels):
            pods.add(row, 1)

    def subtract(self, row: int, key: GroupKey) -> None:
        """A pod has left a row."""
        for pods in self._left(row, key):
            pods.add(row, -1)

    def move(self, row: int, before: GroupKey, after: GroupKey, labels: Mapping[str, str]) -> bool:
        """A pod on a row has got other labels, or is being deleted now; whether a set has lost or won it."""
        were, are = set(self._left(row, before)), set(self._joined(row, after, labels))
        for pods in were - are:
            pods.add(row, -1)
        for pods in are - were:
            pods.add(row, 1)
        return were != are

    def _joined(self, row: int, key: GroupKey, labels: Mapping[str, str]) -> list[PodSet]:
        """The sets of a group that has one more pod on a row."""
        group = self._groups.get(key)
        if group is None:
            (namespace, _), terminating = key
            group = self._groups[key] = PodGroup(namespace, labels, terminating=terminating)
            for pods in self._sets.values():
                if pods.has(group, self._namespaces):
                    group.sets.add(pods)
        group.by_row[row] = group.by_row.get(row, 0) + 1
        return group.sets.members()

    def _left(self, row: int, key: GroupKey) -> list[PodSet]:
        """The sets of a group that has one pod less on a row."""
        group = self._groups[key]
        group.by_row[row] -= 1
        if not group.by_row[row]:
            del group.by_row[row]
        if not group.by_row:
            del self._groups[key]
        return group.sets.members()

    def namespace_changed(self, namespace: str) -> None:
        """The labels of a namespace have changed: judge its groups again."""
        for group in self._groups.values():
            if group.namespace != namespace:
                continue
            for pods in list(self._sets.values()):
                before, after = pods in group.sets.members(), pods.has(group, self._namespaces)
                if after and not before:
                    _join(group, pods)
                elif before and not after:
                    group.sets.remove(pods)
                    for row, number in group.by_row.items():
                        pods.add(row, -number)

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for pods in self._sets.values():
            pods.grow(capacity)


def _join(group: PodGroup, pods: PodSet) -> None:
    group.sets.add(pods)
    for row, number in group.by_row.items():
        pods.add(row, number)
