"""Selectors indexed by a label that they require, and label sets indexed by their labels.

A pod is compared only with the selectors that share a label with it, and a selector only with the label sets that share
one with it, so the cost of one more pod does not grow with the number of apps. A selector is filed once, under the
cheapest of these:

    app=web, tier in (a, b)     the pair app=web; or both pairs of tier, where fewer selectors are filed there
    app exists                  the key app
    app notin (web)             a list that is scanned for every label set

Selectors are also filed by namespace where they name their namespaces. A candidate still has to be matched.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from mooring.api.label_selector import REQUIRES_A_LABEL, REQUIRES_A_VALUE, Selector

T = TypeVar("T")
_FilingKey: TypeAlias = tuple[str | None, str | None]
"""A label key and label value under which a selector is filed; None stands for any."""
_MAX_FILING_KEYS = 16
"""The maximum number of label values under which one selector is filed; beyond it, only the key is used."""


class SelectorIndex(Generic[T]):
    """Label selectors with their items, each filed under one label that the selector requires."""

    def __init__(self) -> None:
        self._buckets: dict[str | None, dict[_FilingKey, dict[T, None]]] = {}
        """The items by namespace (None: for all namespaces) and filing key."""
        self._keys: dict[T, tuple[Sequence[str | None], Sequence[_FilingKey]]] = {}
        """The namespaces and filing keys of each item."""

    def __iter__(self) -> Iterator[T]:
        return iter(self._keys)

    def add(self, item: T, selector: Selector, namespaces: Iterable[str] | None = None) -> None:
        """File an item under its selector; without `namespaces`, the selector applies to all namespaces."""
        if not selector.selectable:
            return
        names: Sequence[str | None] = [None] if namespaces is None else list(namespaces)
        filed: Sequence[_FilingKey] = [(None, None)]
        for number, (key, values) in enumerate(_find_required_labels(selector)):
            keys = [(key, value) for value in values]
            filed = min(filed, keys, key=lambda each: self._estimate_cost(names, each)) if number else keys
        self._keys[item] = names, filed
        for name in names:
            buckets = self._buckets.setdefault(name, {})
            for filing_key in filed:
                buckets.setdefault(filing_key, {})[item] = None

    def remove(self, item: T) -> None:
        names, filed = self._keys.pop(item, ((), ()))
        for name in names:
            buckets = self._buckets[name]
            for filing_key in filed:
                del buckets[filing_key][item]
                if not buckets[filing_key]:
                    del buckets[filing_key]
            if not buckets:
                del self._buckets[name]
        if not self._keys:
            self._keys = {}  # a dict does not shrink by itself

    def find_candidates(self, namespace: str, labels: Mapping[str, str]) -> list[T]:
        """Return the items whose selectors may select pods with the given labels, each once."""
        found: list[T] = []
        for name in (namespace, None):
            buckets = self._buckets.get(name)
            if buckets is not None:
                for label in labels.items():
                    found += buckets.get(label, ())
                    found += buckets.get((label[0], None), ())
                found += buckets.get((None, None), ())
        return found

    def _estimate_cost(self, names: Sequence[str | None], keys: Sequence[_FilingKey]) -> tuple[bool, int]:
        known = [buckets for name in names if (buckets := self._buckets.get(name))]
        is_by_key_alone = any(value is None for _, value in keys)
        return is_by_key_alone, sum(len(buckets.get(key, ())) for key in keys for buckets in known)


class LabelIndex(Generic[T]):
    """Label sets of one namespace, each filed under all of its labels."""

    def __init__(self) -> None:
        self._all: dict[T, None] = {}
        self._buckets: dict[tuple[str, str | None], dict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[T]:
        return iter(self._all)

    def add(self, item: T, labels: Mapping[str, str]) -> None:
        self._all[item] = None
        for key, value in labels.items():
            self._buckets.setdefault((key, value), {})[item] = None
            self._buckets.setdefault((key, None), {})[item] = None

    def remove(self, item: T, labels: Mapping[str, str]) -> None:
        del self._all[item]
        for key, value in labels.items():
            for filing_key in ((key, value), (key, None)):
                del self._buckets[filing_key][item]
                if not self._buckets[filing_key]:
                    del self._buckets[filing_key]

    def find_candidates(self, selector: Selector) -> list[T]:
        """Return the items whose labels a selector may match, for the caller to check."""
        if not selector.selectable:
            return []
        found = [self._all]
        for key, values in _find_required_labels(selector):
            buckets = [bucket for value in values if (bucket := self._buckets.get((key, value)))]
            if sum(map(len, buckets)) < sum(map(len, found)):
                found = buckets
        return [item for bucket in found for item in bucket]


def _find_required_labels(selector: Selector) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    for requirement in selector.requirements:
        if requirement.operator in REQUIRES_A_VALUE and len(requirement.values) <= _MAX_FILING_KEYS:
            yield requirement.key, requirement.values
        elif requirement.operator in REQUIRES_A_VALUE | REQUIRES_A_LABEL:
            yield requirement.key, (None,)
