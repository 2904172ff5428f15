"""Selectors indexed by a label that they require, and label sets indexed by their labels.

A pod is compared only with the selectors that share a label with it, and a selector only with the label sets that share
one with it, so the cost of one more pod does not grow with the number of apps. A selector is filed once, under the
cheapest of these:

    app=web, tier in (a, b)     the pair app=web; or both pairs of tier, where fewer selectors are filed there
    app exists                  the key app
    app notin (web)             a list that is scanned for every label set

Selectors are also filed by namespace where they name their namespaces. A candidate still has to be matched.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeAlias, TypeVar

from mooring.api.label_selector import REQUIRES_A_LABEL, REQUIRES_A_VALUE, Selector

T = TypeVar("T")
_FilingKey: TypeAlias = tuple[str | None, str | None, str | None]
"""A namespace, label key and label value under which a selector is filed; None stands for any."""
_MAX_FILING_KEYS = 16
"""The maximum number of label values under which one selector is filed; beyond it, only the key is used."""


class SelectorIndex(Generic[T]):
    """Label selectors with their items, each filed under one label that the selector requires."""

    def __init__(self) -> None:
        self._buckets: dict[_FilingKey, dict[T, None]] = {}
        self._keys: dict[T, list[_FilingKey]] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(self._keys)

    def add(self, item: T, selector: Selector, namespaces: Iterable[str] | None = None) -> None:
        """File an item under its selector; without `namespaces`, the selector applies to all namespaces."""
        if not selector.selectable:
            return
        wanted = [None] if namespaces is None else list(namespaces)
        filed: list[_FilingKey] = [(name, None, None) for name in wanted]
        for key, values in _required(selector):
            keys: list[_FilingKey] = [(name, key, value) for name in wanted for value in values]
            filed = min(filed, keys, key=self._cost)
        self._keys[item] = filed
        for filing_key in filed:
            self._buckets.setdefault(filing_key, {})[item] = None

    def remove(self, item: T) -> None:
        for filing_key in self._keys.pop(item, ()):
            bucket = self._buckets[filing_key]
            del bucket[item]
            if not bucket:
                del self._buckets[filing_key]
        if not self._keys:
            self._keys, self._buckets = {}, {}  # a dict does not shrink by itself

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> list[T]:
        """Return the items that may select pods with these labels, each once."""
        found: list[T] = []
        buckets = self._buckets
        if not buckets:
            return found
        for name in (namespace, None):
            for key, value in labels.items():
                found += buckets.get((name, key, value), ())
                found += buckets.get((name, key, None), ())
            found += buckets.get((name, None, None), ())
        return found

    def _cost(self, keys: list[_FilingKey]) -> tuple[int, int]:
        return max([filing_key.count(None) for filing_key in keys], default=0), sum(
            len(self._buckets.get(filing_key, ())) for filing_key in keys
        )


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

    def candidates(self, selector: Selector) -> list[T]:
        """Return the items whose labels a selector may match, for the caller to check."""
        if not selector.selectable:
            return []
        found = [self._all]
        for key, values in _required(selector):
            buckets = [bucket for value in values if (bucket := self._buckets.get((key, value)))]
            if sum(map(len, buckets)) < sum(map(len, found)):
                found = buckets
        return [item for bucket in found for item in bucket]


def _required(selector: Selector) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    for requirement in selector.requirements:
        if requirement.operator in REQUIRES_A_VALUE and len(requirement.values) <= _MAX_FILING_KEYS:
            yield requirement.key, requirement.values
        elif requirement.operator in REQUIRES_A_VALUE | REQUIRES_A_LABEL:
            yield requirement.key, (None,)
