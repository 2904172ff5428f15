"""Node selector terms in stock words: the foreign part of a term becomes a label that says which nodes meet it.

The foreign part (semver requirements and CEL expressions, which must all hold) is a `Constraint`. Whoever lowers for a
cluster keeps the label `Constraint.label` with the value `LABEL_VALUE` on exactly the nodes that meet it, and the
lowered term asks for that label beside the term's stock requirements. A node without the label is refused: a label that
comes late narrows, and never widens.

    {kernel SemverGt 6.0, zone In [a]}  ─►  {constraints.mooring.dev/<hash> In [true], zone In [a]}
                                        and {kernel In [6.1.0, 6.8.0], zone In [a]}, as one label decides
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
from mooring.constraints.lowering.words import STOCK, understood
from mooring.constraints.node_selector import Condition
from mooring.constraints.options import ConstraintOptions

LABEL_PREFIX: Final = "constraints.mooring.dev/"
LABEL_VALUE: Final = "true"
_HASH_CHARACTERS: Final = 32
"""128 bits: nobody can write two constraints that share a label."""
_MOST_REMEMBERED_VALUES: Final = 256

_Requirement: TypeAlias = tuple[str, str, tuple[str, ...]]
"""Key, operator and values."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """The part of a term that stock rules cannot judge: requirements and expressions, which must all hold."""

    requirements: tuple[_Requirement, ...]
    """The semver requirements, sorted."""
    expressions: tuple[str, ...]
    """CEL expressions over `node`, sorted."""
    _conditions: tuple[Condition, ...] | None = field(repr=False)
    """Both, compiled; None when one of them can never hold (its gate is off, or it is not valid)."""

    @cached_property
    def label(self) -> str:
        """The key of the label for nodes that meet it. Equal constraints have equal labels, in every release."""
        text = json.dumps([self.requirements, self.expressions], separators=(",", ":"))
        return LABEL_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]

    @cached_property
    def reads(self) -> tuple[str, ...] | None:
        """The keys of the labels that decide, sorted; None when it may look at all labels."""
        keys: set[str] = set()
        for condition in self._conditions or ():
            read = node_selector.reads(condition)
            if read is None:
                return None
            keys.update(read)
        return tuple(sorted(keys))

    def is_met_by(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels meets it."""
        return self._conditions is not None and all(condition.matches(labels) for condition in self._conditions)

    def known_values(self, values: Iterable[str]) -> tuple[str, list[str]] | None:
        """Where one label decides: its key, and those of its known `values` that meet the constraint, sorted."""
        if self._conditions is None or self.reads is None or len(self.reads) != 1:
            return None
        [key] = self.reads
        known = frozenset(values)
        find = _met_by if len(known) <= _MOST_REMEMBERED_VALUES else _met_by.__wrapped__
        return key, find(self, key, known)


@lru_cache(maxsize=1024)
def _met_by(constraint: Constraint, key: str, values: frozenset[str]) -> list[str]:
    """Those of the values that meet a constraint, sorted. Pods of one template ask the same; not to be changed."""
    return sorted(value for value in values if constraint.is_met_by({key: value}))


def constraint_of(
    term: NodeSelectorTerm, options: ConstraintOptions, known: ConstraintOptions = STOCK
) -> Constraint | None:
    """The foreign part of a term; None when the reader knows all of its words."""
    known = understood(known, options)
    requirements: tuple[_Requirement, ...] = ()
    if not known.semver_operators:
        found = {
            (entry.key, entry.operator, tuple(entry.values)) for entry in term.match_expressions if _is_version(entry)
        }
        requirements = tuple(sorted(found))
    texts = () if known.cel else tuple(sorted(set(term.match_cel_expressions)))
    return _constraint(requirements, texts, options) if requirements or texts else None


@lru_cache(maxsize=4096)
def _constraint(
    requirements: tuple[_Requirement, ...], texts: tuple[str, ...], options: ConstraintOptions
) -> Constraint:
    conditions = [
        node_selector.requirement(requirement(key, operator, *values), options)
        for key, operator, values in requirements
    ]
    conditions += [expressions.node_expression(text) if options.cel else None for text in texts]
    compiled = tuple(condition for condition in conditions if condition)
    return Constraint(requirements, texts, compiled if len(compiled) == len(conditions) else None)


def lower_term(
    term: NodeSelectorTerm, options: ConstraintOptions, known: ConstraintOptions = STOCK
) -> NodeSelectorTerm:
    """The term for a cluster: the label of its constraint in place of its foreign part."""
    constraint = constraint_of(term, options, known)
    if constraint is None:
        return term
    return replace_foreign(term, [requirement(constraint.label, "In", LABEL_VALUE)], understood(known, options))


def term_of_known_values(
    term: NodeSelectorTerm, values: Mapping[str, Iterable[str]], options: ConstraintOptions
) -> NodeSelectorTerm | None:
    """Where one label decides: a second term, which asks for those of its known values that meet the constraint.

    `values` has the values in the cluster by label key. It chooses no node that the original does not choose. None
    where more than one label decides, or no known value meets it.
    """
    constraint = constraint_of(term, options)
    if constraint is None or constraint.reads is None or len(constraint.reads) != 1:
        return None
    found = constraint.known_values(values.get(constraint.reads[0], ()))
    if found is None or not found[1]:
        return None
    key, wanted = found
    return replace_foreign(term, [requirement(key, "In", *wanted)], STOCK)


def replace_foreign(
    term: NodeSelectorTerm, replacement: list[NodeSelectorRequirement], known: ConstraintOptions
) -> NodeSelectorTerm:
    """The term with `replacement` in place of what is not among `known`."""
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
