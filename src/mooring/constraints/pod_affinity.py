"""Compile pod-affinity terms: a pod selector, namespaces and a topology key.

Used by the scheduler (InterPodAffinity) and the advisor. `matchLabelKeys` and `mismatchLabelKeys` are ignored: the API
server merged them into the selector when the pod was created.
"""

from collections.abc import Mapping

import msgspec

from mooring.api import label_selector
from mooring.api.core_v1 import PodAffinityTerm, WeightedPodAffinityTerm
from mooring.api.label_selector import NOTHING, Selector, SelectorError
from mooring.api.meta_v1 import LabelSelector


class AffinityTerm(msgspec.Struct, frozen=True):
    """A set of pods and a topology key. Terms with the same meaning are equal, so that counts can be shared."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether a pod with `labels` in `namespace`, which has `namespace_labels`, is in the set."""
        return self.selector.matches(labels) and self.covers(namespace, namespace_labels)

    def covers(self, namespace: str, namespace_labels: Mapping[str, str]) -> bool:
        """Whether pods of a namespace can be in the set."""
        return namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)


class WeightedAffinityTerm(msgspec.Struct, frozen=True):
    weight: int
    term: AffinityTerm


def compile_affinity_term(source: PodAffinityTerm, own_namespace: str) -> AffinityTerm:
    """Compile a term of a pod in `own_namespace`, the default if the term names no namespaces.

    A null selector selects nothing and an empty one everything, for pods and for namespaces.
    """
    namespaces = frozenset(source.namespaces)
    if not namespaces and source.namespace_selector is None:
        namespaces = frozenset({own_namespace})
    return AffinityTerm(
        namespaces=namespaces,
        namespace_selector=_selector(source.namespace_selector),
        selector=_selector(source.label_selector),
        topology_key=source.topology_key,
    )


def compile_weighted_term(source: WeightedPodAffinityTerm, own_namespace: str) -> WeightedAffinityTerm:
    return WeightedAffinityTerm(source.weight, compile_affinity_term(source.pod_affinity_term, own_namespace))


def _selector(source: LabelSelector | None) -> Selector:
    try:
        return label_selector.from_label_selector(source)
    except SelectorError:  # validation rejects it; if stored anyway, it selects nothing
        return NOTHING
