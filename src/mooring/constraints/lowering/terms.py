"""Lower node selector terms: the unsupported part of a term becomes a label on the nodes that match it.

The unsupported part (semver requirements and CEL expressions, which must all hold) is a `Constraint`. The bridge keeps
the label `Constraint.label` with the value `LABEL_VALUE` on exactly the nodes that match it, and the lowered term
requires that label in addition to its supported requirements. A node without the label does not match: a label that is
set late matches less, never more.

    {kernel SemverGt 6.0, zone In [a]}  ─►  {constraints.mooring.dev/<hash> In [true], zone In [a]}
                                        and {kernel In [6.1.0, 6.8.0], zone In [a]}, as it reads one label
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

from msgspec import structs

from mooring.api.core_v1 import NodeSelectorRequirement, NodeSelectorTerm
from mooring.constraints import expressions, node_selector, semver
from mooring.constraints.lowering.support import STOCK, common_features
from mooring.constraints.node_selector import Condition
from mooring.constraints.options import ConstraintOptions

LABEL_PREFIX: Final = "constraints.mooring.dev/"
LABEL_VALUE: Final = "true"
_HASH_CHARACTERS: Final = 32
"""128 bits: no two constraints with the same label can be constructed."""
_MAX_CACHED_VALUES: Final = 256

_Requirement: TypeAlias = tuple[str, str, tuple[str, ...]]
"""Key, operator and values."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """The part of a term that upstream Kubernetes cannot evaluate: requirements and expressions."""

    requirements: tuple[_Requirement, ...]
    """The semver requirements, sorted."""
    expressions: tuple[str, ...]
    """CEL expressions over `node`, sorted."""
    _conditions: tuple[Condition, ...] | None = field(repr=False)
    """Both, compiled; None if one of them can never hold (its gate is off, or it is invalid)."""

    @cached_property
    def label(self) -> str:
        """The label key for nodes that match. Equal constraints have equal labels, in every release."""
        text = json.dumps([self.requirements, self.expressions], separators=(",", ":"))
        return LABEL_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]

    @cached_property
    def reads(self) -> tuple[str, ...] | None:
        """The label keys that it reads, sorted; None if it may read all labels."""
        keys: set[str] = set()
        for condition in self._conditions or ():
            read = node_selector.label_keys_read(condition)
            if read is None:
                return None
            keys.update(read)
        return tuple(sorted(keys))

    def is_met_by(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels meets the constraint."""
        return self._conditions is not None and all(condition.matches(labels) for condition in self._conditions)

    def known_values(self, values: Iterable[str]) -> tuple[str, list[str]] | None:
        """If it reads one label: return the key and those of `values` that match, sorted."""
        if self._conditions is None or self.reads is None or len(self.reads) != 1:
            return None
        [key] = self.reads
        known = frozenset(values)
        find = _matching_values if len(known) <= _MAX_CACHED_VALUES else _matching_values.__wrapped__
        return key, find(self, key, known)


@lru_cache(maxsize=1024)
def _matching_values(constraint: Constraint, key: str, values: frozenset[str]) -> list[str]:
    """Return the values that match a constraint, sorted and cached; the list must not be modified."""
    return sorted(value for value in values if constraint.is_met_by({key: value}))


def constraint_of(
    term: NodeSelectorTerm, options: ConstraintOptions, known: ConstraintOptions = STOCK
) -> Constraint | None:
    """Return the unsupported part of a term; None if the reader supports all of it."""
    known = common_features(known, options)
    requirements: tuple[_Requirement, ...] = ()
    if not known.semver_operators:
        found = {
            (entry.key, entry.operator, tuple(entry.values)) for entry in term.match_expressions if _is_version(entry)
        }
        requirements = tuple(sorted(found))
    texts = () if known.cel else tuple(sorted(set(term.match_cel_expressions)))
    return _compile_constraint(requirements, texts, options) if requirements or texts else None


@lru_cache(maxsize=4096)
def _compile_constraint(
    requirements: tuple[_Requirement, ...], texts: tuple[str, ...], options: ConstraintOptions
) -> Constraint:
    conditions = [
        node_selector.compile_requirement(requirement(key, operator, *values), options)
        for key, operator, values in requirements
    ]
    conditions += [expressions.compile_node_expression(text) if options.cel else None for text in texts]
    compiled = tuple(condition for condition in conditions if condition)
    return Constraint(requirements, texts, compiled if len(compiled) == len(conditions) else None)


def lower_term(term: NodeSelectorTerm, options: ConstraintOptions) -> NodeSelectorTerm:
    """Lower a term for a cluster: replace its unsupported part by the label of its constraint."""
    constraint = constraint_of(term, options)
    if constraint is None:
        return term
    return replace_unsupported(term, [requirement(constraint.label, "In", LABEL_VALUE)], STOCK)


def term_of_known_values(
    term: NodeSelectorTerm, values: Mapping[str, Iterable[str]], options: ConstraintOptions
) -> NodeSelectorTerm | None:
    """Return a second term that lists the known values of the one label that decides.

    `values` has the values in the cluster by label key. It matches no node that the original does not match. Return
    None if more than one label decides, or no known value matches.
    """
    constraint = constraint_of(term, options)
    if constraint is None or constraint.reads is None or len(constraint.reads) != 1:
        return None
    found = constraint.known_values(values.get(constraint.reads[0], ()))
    if found is None or not found[1]:
        return None
    key, wanted = found
    return replace_unsupported(term, [requirement(key, "In", *wanted)], STOCK)


def replace_unsupported(
    term: NodeSelectorTerm, replacement: list[NodeSelectorRequirement], known: ConstraintOptions
) -> NodeSelectorTerm:
    """Return the term with `replacement` in place of the parts that `known` does not support."""
    kept = [entry for entry in term.match_expressions if known.semver_operators or not _is_version(entry)]
    return structs.replace(
        term,
        match_expressions=[*kept, *replacement],
        match_cel_expressions=term.match_cel_expressions if known.cel else [],
    )


def requirement(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=list(values))


def _is_version(entry: NodeSelectorRequirement) -> bool:
    return entry.operator in semver.OPERATORS
