"""Find label changes that make conditions on a node true. Called by ``remedies/``, which tries every result."""

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from mooring.advisor.explain.view import Unmet, View
from mooring.advisor.lint.expressions import model_of_compared_values
from mooring.api.core_v1 import Node, NodeSelectorRequirement
from mooring.api.label_selector import parse_lax_int64
from mooring.constraints import semver
from mooring.constraints.expressions import compile_node_expression

__all__ = ["adjacent_version", "labels_to_satisfy", "parse_lax_int64"]
_TRIALS = 2000
_OPPOSITE = {"Gt": "Lt", "Lt": "Gt", "SemverGt": "SemverLt", "SemverLt": "SemverGt"}
_STRANGE = re.compile(r"^0\d|-0$")
"""Matches label values that are valid but unusual, and suggested last: leading zeros and the lowest pre-releases."""


def labels_to_satisfy(view: View, node: Node, unmet: Iterable[Unmet]) -> dict[str, str | None] | None:
    """Return the labels to set on a node (None: to remove) so that all conditions hold; None if labels cannot."""
    wanted: dict[str, str | None] = {}
    for each in unmet:
        labels = {**node.metadata.labels, **{key: value for key, value in wanted.items() if value is not None}}
        if each.expression:
            found = _labels_for_expression(each.expression, labels) if view.features.constraints.cel else None
        elif each.field_name or each.requirement is None:
            found = None
        else:
            found = _labels_for_requirement(each.requirement)
        if found is None:
            return None
        wanted |= found
    return wanted


def _labels_for_requirement(requirement: NodeSelectorRequirement) -> dict[str, str | None] | None:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "In" | "SemverEq":
            return {key: values[0]}
        case "NotIn" | "DoesNotExist":
            return {key: None}
        case "Exists":
            return {key: "true"}
        case "Gt" | "Lt" | "SemverGt" | "SemverLt":
            value = accepting_bound(_OPPOSITE[requirement.operator], values[0])
            return None if value is None else {key: value}
    return None


def accepting_bound(operator: str, value: str, read: Callable[[str], int | None] = parse_lax_int64) -> str | None:
    """Return the bound with which a comparison operator only just accepts a value; None if it compares nothing."""
    if operator in ("Gt", "Lt"):
        number = read(value)
        return None if number is None else str(number - 1 if operator == "Gt" else number + 1)
    if operator in ("SemverGt", "SemverLt"):
        version = semver.parse_tolerant_or_none(value)
        return None if version is None else adjacent_version(version, above=operator == "SemverLt")
    return None


def adjacent_version(version: semver.Version, *, above: bool) -> str:
    """Return the lowest version above a version, or a version just below it."""
    major, minor, patch = version.precedence[:3]
    if above:
        return f"{major}.{minor}.{patch + 1}"
    if patch:
        return f"{major}.{minor}.{patch - 1}"
    if minor:
        return f"{major}.{minor - 1}.0"
    return f"{major - 1}.0.0" if major else "0.0.0-0"


def _labels_for_expression(expression: str, labels: Mapping[str, str]) -> dict[str, str | None] | None:
    """Return the fewest label changes that make a CEL expression true, among the values that it distinguishes.

    All spellings of these values are tried; of several that work, the most usual one is returned.
    """
    compiled, model = compile_node_expression(expression), model_of_compared_values("node", expression)
    if compiled is None or model is None:
        return None

    def holds(asked: Mapping[str, str | None]) -> bool:
        return compiled.matches({key: value for key, value in {**labels, **asked}.items() if value is not None})

    best: tuple[int, int, dict[str, str | None]] | None = None
    for given in islice(model.enumerate_inputs(), _TRIALS):
        asked = {slot.name: given.get(slot) for slot in model.slots}
        changed = {key: value for key, value in asked.items() if labels.get(key) != value}
        strange = sum(_STRANGE.search(value or "") is not None for value in changed.values())
        if (best is None or (len(changed), strange) < best[:2]) and holds(asked):
            best = len(changed), strange, changed
    return None if best is None else _prefer_release_version(best[2], holds)


def _prefer_release_version(
    changed: dict[str, str | None], holds: Callable[[Mapping[str, str | None]], bool]
) -> dict[str, str | None]:
    """Return the label changes with versions like `2.0.0-0` lowered to `1.0.0` where the condition still holds."""
    for key, value in changed.items():
        version = semver.parse_tolerant_or_none((value or "").removesuffix("-0"))
        if version is not None and (value or "").endswith("-0"):
            plainer = {**changed, key: adjacent_version(version, above=False)}
            changed = plainer if holds(plainer) else changed
    return changed
