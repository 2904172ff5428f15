"""An index of the nodes of a cluster for advice: labels, taints, resources, and the nearest spelling of each.

`mooring lint --cluster` and `mooring explain` share it, so that both name the same largest node and correct the same
typing mistakes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from mooring.api.core_v1 import Node, Taint
from mooring.api.quantity import Quantity, parse

_SIMILAR = 0.7
_NOTHING = parse("0")
STATE_TAINTS = "node.kubernetes.io/"
"""Taints with this prefix report a node's state (not ready, under pressure), not what it is for."""


class ValueUse(NamedTuple):
    """The number of nodes that have one value (of a label, say), and the name of one such node."""

    nodes: int
    node: str


class NodeFacts:
    """An index of the labels, taints and resources of a snapshot's nodes."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.count = 0
        self.labels: Mapping[str, dict[str, ValueUse]] = defaultdict(dict)
        """The nodes with a label, by key and value."""
        self.taints: Mapping[str, dict[str, ValueUse]] = defaultdict(dict)
        """The nodes with a taint, by key and value."""
        self.largest: dict[str, tuple[Quantity, str]] = {}
        """By resource, the largest allocatable amount of one node, and the name of that node."""
        for node in nodes:
            name = node.metadata.name
            self.count += 1
            for key, value in node.metadata.labels.items():
                _count_use(self.labels[key], value, name)
            for taint in node.spec.taints:
                _count_use(self.taints[taint.key], taint.value, name)
            for resource, amount in node.status.allocatable.items():
                if amount > _NOTHING and (resource not in self.largest or amount > self.largest[resource][0]):
                    self.largest[resource] = (amount, name)

    def nodes_with(self, key: str) -> int:
        """Return how many nodes have a label."""
        return sum(use.nodes for use in self.labels.get(key, {}).values())

    def similar_label(self, key: str) -> str:
        """Return the label key on nodes that a misspelled key probably means; empty if there is none."""
        return find_similar(key, self.labels)

    def similar_value(self, key: str, value: str) -> str:
        """Return the value of a label that a misspelled value probably means; empty if there is none."""
        return find_similar(value, self.labels.get(key, {}))

    def similar_taint(self, key: str) -> str:
        """Return the taint key that a toleration's misspelled key probably means; empty if there is none."""
        return find_similar(key, [name for name in self.taints if not name.startswith(STATE_TAINTS)])

    def similar_resource(self, resource: str) -> str:
        """Return the resource of the same vendor that a misspelled name probably means; empty if there is none."""
        vendor = resource.rpartition("/")[0]
        return find_similar(resource, [each for each in self.largest if is_near(vendor, each.rpartition("/")[0])])


def _count_use(uses: dict[str, ValueUse], value: str, node: str) -> None:
    before = uses.get(value)
    uses[value] = ValueUse(1, node) if before is None else ValueUse(before.nodes + 1, before.node)


def find_similar(word: str, known: Iterable[str]) -> str:
    """Return the known word that a misspelled one probably means; empty if none is near or the word is known.

    Case, and the domain before a slash, weigh less than the name.
    """
    names = list(known)
    if word in names or not word:
        return ""
    folded = {name.lower(): name for name in names}
    if word.lower() in folded:
        return folded[word.lower()]
    own = word.lower().rpartition("/")[2]
    same = sorted(name for name in names if name.lower().rpartition("/")[2] == own)
    if same:
        return same[0]
    if len(own) < 2:
        return ""
    near = get_close_matches(word.lower(), folded, 1, _SIMILAR) or [each for each in folded if is_near(own, each)]
    return folded[near[0]] if near else ""


def find_nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that differs from another one by a single letter or by case; empty if there is none."""
    return next((each for each in known if each != word and is_near(word.lower(), each.lower())), "")


def is_near(word: str, other: str) -> bool:
    """Return whether two words are equal, or differ by one replaced, inserted, missing or transposed letter."""
    if len(word) > len(other):
        word, other = other, word
    start = next((place for place, pair in enumerate(zip(word, other, strict=False)) if pair[0] != pair[1]), len(word))
    left, right = word[start:], other[start:]
    if len(left) < len(right):
        return left == right[1:]
    return left[1:] == right[1:] or (len(left) > 1 and left[1::-1] + left[2:] == right)


def format_taint(taint: Taint) -> str:
    """Return a taint as kubectl shows it, such as `gpu=true:NoSchedule`."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
