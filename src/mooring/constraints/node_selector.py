"""Compile node selectors: node affinity of pods (required and preferred), `nodeSelector`, PersistentVolumes.

A selector is compiled once and then matched against nodes, one at a time here and over all nodes in `columns`. A
condition that can never match (gate off, invalid operator or value, empty term) is found when compiling and drops the
whole term: an invalid condition never turns a term into "match all".

Used by the scheduler (through `columns`), the volume and DaemonSet controllers, and the advisor.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec
from msgspec import structs

from mooring.api import core_v1, label_selector, names
from mooring.api.label_selector import Operator, Requirement
from mooring.base import logs
from mooring.constraints import expressions, semver
from mooring.constraints.expressions import NodeExpression
from mooring.constraints.options import ConstraintOptions

log = logs.get(__name__)

Labels: TypeAlias = Mapping[str, str]
NAME_FIELD = "metadata.name"
"""The only node field that `matchFields` can select by."""
_LABEL_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}


class VersionRequirement(msgspec.Struct, frozen=True):
    """A condition on a label whose value is a version; the node's version is the left operand."""

    key: str
    operator: str
    version: semver.Version

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        if value is None:
            return False
        version = semver.parse_tolerant_or_none(value)
        if version is None:
            if logs.once(("semver label", self.key, value)):
                log.debug("Parse semver failed for value %s in label %s", value, self.key)
            return False
        return semver.OPERATORS[self.operator](version, self.version)


Condition: TypeAlias = Requirement | VersionRequirement | NodeExpression
"""A condition on labels. Equal conditions have equal results, so verdicts can be shared."""


def label_keys_read(condition: Condition) -> tuple[str, ...] | None:
    """Return the label keys that a condition reads; None if it may read all of them."""
    return condition.reads if isinstance(condition, NodeExpression) else (condition.key,)


class NameRequirement(msgspec.Struct, frozen=True):
    """A condition on the node's name, from `matchFields`."""

    name: str
    equal: bool

    def matches(self, name: str) -> bool:
        return (self.name == name) is self.equal


class Term(msgspec.Struct, frozen=True):
    """Conditions that must all hold."""

    names: tuple[NameRequirement, ...]
    labels: tuple[Condition, ...]

    def matches(self, labels: Labels, name: str) -> bool:
        return all(condition.matches(name) for condition in self.names) and all(
            condition.matches(labels) for condition in self.labels
        )


class Selector(msgspec.Struct, frozen=True):
    """Terms of which at least one must match; without terms nothing matches."""

    terms: tuple[Term, ...]

    def matches(self, labels: Labels, name: str) -> bool:
        return any(term.matches(labels, name) for term in self.terms)


class RequiredAffinity(msgspec.Struct, frozen=True):
    """The required placement of a pod: every pair of `nodeSelector`, and the required node affinity."""

    node_selector: tuple[Requirement, ...] = ()
    affinity: Selector | None = None

    def matches(self, labels: Labels, name: str) -> bool:
        return all(condition.matches(labels) for condition in self.node_selector) and (
            self.affinity is None or self.affinity.matches(labels, name)
        )


class PreferredAffinity(msgspec.Struct, frozen=True):
    """The preferred node affinity of a pod: terms with weights."""

    terms: tuple[tuple[int, Term], ...] = ()

    def score(self, labels: Labels, name: str) -> int:
        return sum(weight for weight, term in self.terms if term.matches(labels, name))


ANY_NODE = RequiredAffinity()
NO_PREFERENCE = PreferredAffinity()


def required_affinity(spec: core_v1.PodSpec, options: ConstraintOptions) -> RequiredAffinity:
    """Compile `nodeSelector` and the required node affinity of a pod; both must match."""
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not required and not spec.node_selector:
        return ANY_NODE
    pairs = label_selector.from_labels(spec.node_selector).requirements
    return RequiredAffinity(pairs, compile_selector(required, options) if required else None)


def possible_affinity(spec: core_v1.PodSpec, options: ConstraintOptions) -> RequiredAffinity:
    """Return the required affinity without the conditions whose gates are off.

    A node that does not match even this would not match with the gates on. For a node that matches this and not
    `required_affinity`, the result is unknown.
    """
    affinity = required_affinity(spec, options)
    if affinity.affinity is None or not features_with_gate_off(spec, options):
        return affinity
    compiled = (_possible_term(entry, options) for entry in required_terms(spec))
    return RequiredAffinity(affinity.node_selector, Selector(tuple(found for found in compiled if found)))


def features_with_gate_off(spec: core_v1.PodSpec, options: ConstraintOptions) -> list[str]:
    """List the operators and fields of the required node affinity whose gates are off."""
    terms = required_terms(spec)
    operators = {
        entry.operator
        for source in terms
        for entry in source.match_expressions
        if entry.operator in semver.OPERATORS and not options.semver_operators
    }
    has_cel = not options.cel and any(source.match_cel_expressions for source in terms)
    return [*sorted(operators), *(["matchCELExpressions"] if has_cel else [])]


def required_terms(spec: core_v1.PodSpec) -> list[core_v1.NodeSelectorTerm]:
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return required.node_selector_terms if required else []


def _possible_term(source: core_v1.NodeSelectorTerm, options: ConstraintOptions) -> Term | None:
    evaluated = [
        entry
        for entry in source.match_expressions
        if options.semver_operators or entry.operator not in semver.OPERATORS
    ]
    expressions_left = source.match_cel_expressions if options.cel else []
    rest = structs.replace(source, match_expressions=evaluated, match_cel_expressions=expressions_left)
    is_whole = len(evaluated) == len(source.match_expressions) and expressions_left == source.match_cel_expressions
    if not is_whole and not (rest.match_fields or rest.match_expressions or rest.match_cel_expressions):
        return Term((), ())  # the selector has no other conditions
    return compile_term(rest, options)


def preferred_affinity(spec: core_v1.PodSpec, options: ConstraintOptions) -> PreferredAffinity:
    """Compile the preferred node affinity of a pod."""
    affinity = spec.affinity and spec.affinity.node_affinity
    preferred = affinity and affinity.preferred_during_scheduling_ignored_during_execution
    return preferred_terms(preferred, options) if preferred else NO_PREFERENCE


def preferred_terms(
    preferred: Sequence[core_v1.PreferredSchedulingTerm], options: ConstraintOptions
) -> PreferredAffinity:
    compiled = ((entry.weight, compile_term(entry.preference, options)) for entry in preferred if entry.weight)
    return PreferredAffinity(tuple((weight, found) for weight, found in compiled if found))


def volume_matches(volume: core_v1.PersistentVolume, labels: Labels, options: ConstraintOptions) -> bool:
    """Whether a PersistentVolume can be used on a node with these labels."""
    found = volume_selector(volume, options)
    # As in Kubernetes only labels are evaluated: without a node name, `matchFields` with In never matches.
    return found is None or found.matches(labels, "")


def volume_selector(volume: core_v1.PersistentVolume, options: ConstraintOptions) -> Selector | None:
    """Compile the node affinity of a PersistentVolume; None if it can be used everywhere."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    return compile_selector(affinity.required, options)


def compile_selector(node_selector: core_v1.NodeSelector, options: ConstraintOptions) -> Selector:
    compiled = (compile_term(entry, options) for entry in node_selector.node_selector_terms)
    return Selector(tuple(found for found in compiled if found))


def named_nodes(node_selector: core_v1.NodeSelector) -> frozenset[str] | None:
    """Return the only nodes that could match if every term names its nodes; otherwise None.

    Like kube-scheduler, read the terms as written: a term that can never match counts too.
    """
    chosen: frozenset[str] | None = None
    for entry in node_selector.node_selector_terms:
        wanted = [
            frozenset(field.values)
            for field in entry.match_fields
            if field.key == NAME_FIELD and field.operator == "In"
        ]
        if not wanted:
            return None
        chosen = (chosen or frozenset()) | frozenset.intersection(*wanted)
    return chosen


def compile_term(source: core_v1.NodeSelectorTerm, options: ConstraintOptions) -> Term | None:
    """Compile a term; return None if it can never match."""
    by_name = [_name_requirement(entry) for entry in source.match_fields]
    by_label: list[Condition | None] = [compile_requirement(entry, options) for entry in source.match_expressions]
    by_label += [
        expressions.compile_node_expression(expression) if options.cel else None
        for expression in source.match_cel_expressions
    ]
    conditions_on_name = tuple(condition for condition in by_name if condition)
    conditions_on_labels = tuple(condition for condition in by_label if condition)
    impossible = len(conditions_on_name) < len(by_name) or len(conditions_on_labels) < len(by_label)
    if impossible or not (by_name or by_label):
        return None
    return Term(conditions_on_name, conditions_on_labels)


def _name_requirement(source: core_v1.NodeSelectorRequirement) -> NameRequirement | None:
    if source.key != NAME_FIELD or source.operator not in ("In", "NotIn") or len(source.values) != 1:
        return None
    return NameRequirement(source.values[0], source.operator == "In")


def compile_requirement(source: core_v1.NodeSelectorRequirement, options: ConstraintOptions) -> Condition | None:
    """Compile a `matchExpressions` entry; return None if it is invalid or its gate is off."""
    if source.operator in semver.OPERATORS and not options.semver_operators:
        return None
    return _compile_cached(source.key, source.operator, tuple(source.values))


@lru_cache(maxsize=4096)
def _compile_cached(key: str, operator: str, values: tuple[str, ...]) -> Condition | None:
    if names.label_key(key):
        return None
    if operator in semver.OPERATORS:
        # Not validated as label values: preferred terms need not be valid ones, and a version may contain `+`.
        version = semver.parse_tolerant_or_none(values[0]) if len(values) == 1 else None
        return VersionRequirement(key, operator, version) if version else None
    if any(names.label_value(value) for value in values) or not _has_right_values(operator, values):
        return None
    return Requirement(key, _LABEL_OPERATORS[operator], tuple(sorted(set(values))))


def _has_right_values(operator: str, values: tuple[str, ...]) -> bool:
    if operator in ("In", "NotIn"):
        return bool(values)
    if operator in ("Exists", "DoesNotExist"):
        return not values
    return operator in ("Gt", "Lt") and len(values) == 1 and label_selector.parse_lax_int64(values[0]) is not None
