"""Pod-affinity terms, compiled: which pods, in which namespaces, and over which topology domain.

Called by the scheduler (InterPodAffinity) and the advisor. Label keys (`matchLabelKeys`, `mismatchLabelKeys`) are not
looked at: the API server merged them into the selector when the pod was created.
"""

from collections.abc import Mapping

import msgspec

from mooring.api import label_selector
from mooring.api.core_v1 import PodAffinityTerm, WeightedPodAffinityTerm
from mooring.api.label_selector import NOTHING, Selector, SelectorError
from mooring.api.meta_v1 import LabelSelector


class AffinityTerm(msgspec.Struct, frozen=True):
    """A set of pods and a topology key. Terms that ask for the same are equal, so that counts can be shared."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether a pod with `labels` in `namespace`, which has `namespace_labels`, is one of the set."""
        return self.selector.matches(labels) and self.covers(namespace, namespace_labels)

    def covers(self, namespace: str, namespace_labels: Mapping[str, str]) -> bool:
        """Whether pods of a namespace can be in the set."""
        return namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)


class WeightedAffinityTerm(msgspec.Struct, frozen=True):
    weight: int
    term: AffinityTerm


def affinity_term(source: PodAffinityTerm, own_namespace: str) -> AffinityTerm:
    """A term of a pod in `own_namespace`, which is meant when the term says nothing about namespaces.

    A null selector chooses nothing, an empty one everything: for pods and for namespaces alike.
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


def weighted_affinity_term(source: WeightedPodAffinityTerm, own_namespace: str) -> WeightedAffinityTerm:
    return WeightedAffinityTerm(source.weight, affinity_term(source.pod_affinity_term, own_namespace))


def _selector(source: LabelSelector | None) -> Selector:
    try:
        return label_selector.from_label_selector(source)
    except SelectorError:  # validation refuses it; if it was stored all the same, it chooses nothing
        return NOTHING
