"""Kubernetes' own rules for tolerations and node affinity, over objects as they come from the wire.

A second implementation, for tests: it shares no code with `mooring.constraints`, and it is strict. A field that no
release of Kubernetes knows is an error, because a component would drop it and decide something else. Used by the
property tests of lowering and by the stand-in for the kubelet.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Json = Mapping[str, Any]

_INTEGER = re.compile(r"[+-]?[0-9]+")
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*")
_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def tolerates(toleration: Json, taint: Json, comparisons: bool = False) -> bool:
    """Whether a toleration matches a taint; `comparisons` as the gate TaintTolerationComparisonOperators."""
    _only(toleration, "key", "operator", "value", "effect", "tolerationSeconds")
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator", "")
    wanted, value = toleration.get("value", ""), taint.get("value", "")
    if operator in ("", "Equal"):
        return bool(wanted == value)
    if operator == "Exists":
        return True
    if operator in ("Lt", "Gt") and comparisons and _is_canonical(wanted) and _is_canonical(value):
        return int(value) < int(wanted) if operator == "Lt" else int(value) > int(wanted)
    return False


def untolerated(taints: Iterable[Json], tolerations: Iterable[Json], effect: str, comparisons: bool = False) -> Any:
    """Return the first taint with the effect that nothing tolerates; None when there is none."""
    tolerations = list(tolerations)
    for taint in taints:
        if taint["effect"] == effect and not any(tolerates(entry, taint, comparisons) for entry in tolerations):
            return taint
    return None


def stay(taints: Iterable[Json], tolerations: Iterable[Json], comparisons: bool = False) -> float:
    """How many seconds a pod may stay beside its NoExecute taints: infinity for ever, 0 for not at all."""
    tolerations, shortest = list(tolerations), float("inf")
    for taint in taints:
        if taint["effect"] == "NoExecute":
            first = next((entry for entry in tolerations if tolerates(entry, taint, comparisons)), None)
            seconds = 0 if first is None else first.get("tolerationSeconds", float("inf"))
            shortest = min(shortest, max(seconds, 0))
    return shortest


def meets_required(spec: Json, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node meets a pod's `nodeSelector` and required node affinity."""
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or meets_selector(required, labels, name)


def meets_selector(selector: Json, labels: Mapping[str, str], name: str) -> bool:
    _only(selector, "nodeSelectorTerms")
    return any(meets_term(term, labels, name) for term in selector["nodeSelectorTerms"])


def meets_term(term: Json, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node meets a term; one without conditions, or with one that is not valid, is met by none."""
    _only(term, "matchExpressions", "matchFields")
    by_label, by_field = term.get("matchExpressions", []), term.get("matchFields", [])
    if not by_label and not by_field:
        return False
    return all(_label_holds(entry, labels) for entry in by_label) and all(
        _name_holds(entry, name) for entry in by_field
    )


def _label_holds(entry: Json, labels: Mapping[str, str]) -> bool:
    _only(entry, "key", "operator", "values")
    key, values = entry["key"], entry.get("values", [])
    if not _KEY.fullmatch(key) or not all(_VALUE.fullmatch(value) for value in values):
        return False
    rule = _RULES.get(entry["operator"])
    return rule is not None and rule(labels.get(key), values)


def _compared(value: str | None, values: list[str], holds: Callable[[int, int], bool]) -> bool:
    if value is None or len(values) != 1 or not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(values[0]):
        return False
    return holds(int(value), int(values[0]))


_RULES: dict[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: bool(values) and value not in values,
    "Exists": lambda value, values: not values and value is not None,
    "DoesNotExist": lambda value, values: not values and value is None,
    "Gt": lambda value, values: _compared(value, values, lambda node, wanted: node > wanted),
    "Lt": lambda value, values: _compared(value, values, lambda node, wanted: node < wanted),
}


def _name_holds(entry: Json, name: str) -> bool:
    _only(entry, "key", "operator", "values")
    if entry["key"] != "metadata.name" or len(entry.get("values", [])) != 1:
        return False
    return entry["operator"] in ("In", "NotIn") and (entry["values"][0] == name) is (entry["operator"] == "In")


def _is_canonical(text: str) -> bool:
    return bool(_CANONICAL.fullmatch(text)) and -(1 << 63) <= int(text) < 1 << 63


def _only(part: Json, *known: str) -> None:
    unknown = set(part) - set(known)
    if unknown:
        raise AssertionError(f"stock Kubernetes does not know {sorted(unknown)}")
