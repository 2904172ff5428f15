"""Advice about a node selector term: whether its conditions can be true together.

`nodeSelector` of the same pod is added to the conditions of every required term, because both must hold. Only
conditions that share a label are tried together, because others cannot contradict each other. Called by ``advice.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mooring.advisor.lint import expressions
from mooring.advisor.lint.small_models import Inputs, Model, Slot, TruthFrequency
from mooring.api import core_v1, label_selector
from mooring.api.label_selector import Operator, Requirement
from mooring.api.quoting import go_quote
from mooring.constraints import node_selector
from mooring.constraints.options import ConstraintOptions

_EVERYTHING_ON = ConstraintOptions()
_NUMERIC = (Operator.GREATER_THAN, Operator.LESS_THAN)


class _Condition(NamedTuple):
    words: str
    model: Model
    holds: Callable[[Inputs], bool]


def find_contradiction(term: core_v1.NodeSelectorTerm, node_labels: Mapping[str, str]) -> str | None:
    """Return why no node can meet a term and the pod's `nodeSelector` (`node_labels`) together; None if one may."""
    if _contradicting_names(term.match_fields):
        return "no node can meet all of matchFields"
    conditions = [found for entry in term.match_expressions if (found := _requirement_condition(entry))]
    impossible = next((each for each in conditions if _truth_frequency([each]) is TruthFrequency.NEVER), None)
    if impossible:
        return f"no node can meet {impossible.words}"
    conditions += [found for text in term.match_cel_expressions if (found := _expression_condition(text))]
    conditions += [_label_condition(key, value) for key, value in node_labels.items()]
    for group in _group_by_label(conditions):
        if len(group) > 1 and _truth_frequency(group) is TruthFrequency.NEVER:
            return f"no node can meet all of: {'; '.join(each.words for each in group)}"
    return None


def _contradicting_names(fields: Sequence[core_v1.NodeSelectorRequirement]) -> bool:
    by_name = [entry for entry in fields if entry.key == node_selector.NAME_FIELD and len(entry.values) == 1]
    wanted = {entry.values[0] for entry in by_name if entry.operator == "In"}
    excluded = {entry.values[0] for entry in by_name if entry.operator == "NotIn"}
    return len(wanted) > 1 or bool(wanted & excluded)


def _requirement_condition(entry: core_v1.NodeSelectorRequirement) -> _Condition | None:
    """Return the condition of a `matchExpressions` entry; None if it is invalid or the analysis does not support it."""
    found = node_selector.compile_requirement(entry, _EVERYTHING_ON)
    if not isinstance(found, Requirement | node_selector.VersionRequirement):
        return None
    model = Model()
    if isinstance(found, node_selector.VersionRequirement):
        understood = model.add_label(found.key, version=entry.values[0])
    elif found.operator in _NUMERIC:
        understood = model.add_label(found.key, number=label_selector.parse_lax_int64(entry.values[0]))
    else:
        understood = model.add_label(found.key, texts=found.values)
    if not understood:
        return None
    values = ", ".join(map(go_quote, entry.values))
    words = f"{entry.key} {entry.operator} {values}".rstrip()
    return _Condition(words, model, lambda inputs: found.matches(_labels_of(inputs)))


def _expression_condition(text: str) -> _Condition | None:
    """Return the condition of a CEL expression; None if the analysis does not support it or it is never true."""
    model = expressions.model_of_compared_values("node", text)
    if model is None or expressions.never_matches(text):
        return None
    return _Condition(text, model, expressions.build_evaluator("node", text))


def _label_condition(key: str, value: str) -> _Condition:
    model = Model()
    model.add_label(key, texts=[value])
    return _Condition(
        f"nodeSelector {key} = {go_quote(value)}", model, lambda inputs: _labels_of(inputs).get(key) == value
    )


def _labels_of(inputs: Inputs) -> dict[str, str]:
    return {slot.name: value for slot, value in inputs.items()}


def _truth_frequency(conditions: Sequence[_Condition]) -> TruthFrequency:
    together = Model()
    for each in conditions:
        together.merge(each.model)
    return together.truth_frequency(lambda inputs: all(each.holds(inputs) for each in conditions), len(conditions))


def _group_by_label(conditions: Sequence[_Condition]) -> list[list[_Condition]]:
    group_of: dict[Slot, list[_Condition]] = {}
    for each in conditions:
        near = {id(group): group for slot in each.model.slots if (group := group_of.get(slot)) is not None}
        joined = max(near.values(), key=len, default=[])
        for group in near.values():
            if group is not joined:
                joined += group
        joined.append(each)
        moved = [each, *(other for group in near.values() if group is not joined for other in group)]
        group_of.update((slot, joined) for condition in moved for slot in condition.model.slots)
    return list({id(group): group for group in group_of.values()}.values())
