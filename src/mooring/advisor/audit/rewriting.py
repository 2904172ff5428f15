"""Rewrite tolerations and node affinity in operators that every version knows.

A comparison is replaced by the values that it matches today: `Gt 900` by `Equal` for each taint value above 900, a
version operator or CEL expression by the labels or names of the matching nodes. So the change moves no pod, and
tolerates nothing new. Called by ``steps.py``, which makes patches from the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from msgspec import structs

from mooring.api.core_v1 import (
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Toleration,
)
from mooring.constraints import expressions, node_selector, semver, tolerations
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import NO_EXECUTE, NUMERIC

HOSTNAME = "kubernetes.io/hostname"
NOTHING = "no-node-matched"
"""A label value that no node has, for a requirement that matches no node: an empty list would be invalid."""
MOST_VALUES = 50


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Replaces operators that the target flags lack by the values that they match on the current nodes."""

    nodes: Sequence[Node]
    now: ConstraintOptions
    then: ConstraintOptions

    def rewrite_tolerations(self, given: Sequence[Toleration]) -> list[Toleration]:
        """Return tolerations without operators the target lacks; they tolerate the same taints of current nodes."""
        return [made for each in given for made in self._equivalent_tolerations(each)]

    def equal_tolerations_for(self, toleration: Toleration) -> list[Toleration]:
        """Return the `Equal` tolerations that replace one which the target cannot evaluate; empty if it can."""
        return self._equivalent_tolerations(toleration) if self._stops_working(toleration) else []

    def rewrite_node_affinity(self, given: NodeAffinity) -> NodeAffinity:
        """Return node affinity without operators the target lacks; it matches the same current nodes."""
        required = given.required_during_scheduling_ignored_during_execution
        preferred = given.preferred_during_scheduling_ignored_during_execution
        return structs.replace(
            given,
            required_during_scheduling_ignored_during_execution=self.rewrite_selector(required) if required else None,
            preferred_during_scheduling_ignored_during_execution=[
                structs.replace(each, preference=self._rewrite_term(each.preference)) for each in preferred
            ],
        )

    def rewrite_selector(self, given: NodeSelector) -> NodeSelector:
        return structs.replace(
            given, node_selector_terms=[self._rewrite_term(each) for each in given.node_selector_terms]
        )

    def _stops_working(self, given: Toleration) -> bool:
        if given.expression:
            return self.now.cel and not self.then.cel
        if given.operator in NUMERIC:
            return self.now.numeric_tolerations and not self.then.numeric_tolerations
        return given.operator in semver.OPERATORS and self.now.semver_operators and not self.then.semver_operators

    def _equivalent_tolerations(self, given: Toleration) -> list[Toleration]:
        if not self._stops_working(given):
            return [given]
        made: dict[tuple[str, str, str], Toleration] = {}
        for taint in chain.from_iterable(node.spec.taints for node in self.nodes):
            if tolerations.tolerates(given, taint, self.now):
                effect = taint.effect if given.expression else given.effect
                seconds = given.toleration_seconds if effect == NO_EXECUTE else None
                made[taint.key, taint.value, effect] = Toleration(
                    key=taint.key, operator="Equal", value=taint.value, effect=effect, toleration_seconds=seconds
                )
        return [made[key] for key in sorted(made)]

    def _rewrite_term(self, given: NodeSelectorTerm) -> NodeSelectorTerm:
        wanted = [self._rewrite_requirement(each) for each in given.match_expressions]
        stops = bool(given.match_cel_expressions) and self.now.cel and not self.then.cel
        if not stops:
            return structs.replace(given, match_expressions=wanted)
        conditions = [expressions.compile_node_expression(text) for text in given.match_cel_expressions]
        chosen = [
            node
            for node in self.nodes
            if all(each is not None and each.matches(node.metadata.labels) for each in conditions)
        ]
        names = sorted({node.metadata.labels.get(HOSTNAME, node.metadata.name) for node in chosen})
        wanted.append(NodeSelectorRequirement(key=HOSTNAME, operator="In", values=names or [NOTHING]))
        return structs.replace(given, match_expressions=wanted, match_cel_expressions=[])

    def _rewrite_requirement(self, given: NodeSelectorRequirement) -> NodeSelectorRequirement:
        if given.operator not in semver.OPERATORS or not self.now.semver_operators or self.then.semver_operators:
            return given
        asked = node_selector.compile_requirement(given, self.now)
        values = {
            node.metadata.labels[given.key]
            for node in self.nodes
            if given.key in node.metadata.labels and asked is not None and asked.matches(node.metadata.labels)
        }
        return structs.replace(given, operator="In", values=sorted(values) or [NOTHING])


def is_too_long(spec: PodSpec) -> bool:
    """Return whether a pod spec has too many tolerations or values of one requirement for a patch."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    terms = required.node_selector_terms if required is not None else []
    longest = max((len(entry.values) for term in terms for entry in term.match_expressions), default=0)
    return len(spec.tolerations) > MOST_VALUES or longest > MOST_VALUES
