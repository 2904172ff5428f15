"""Tables about what matches: tolerations and taints, node selectors and node affinity."""

from mooring.constraints import node_selector, tolerations
from mooring.constraints.options import ConstraintOptions
from upstream_tables import case as decoding
from upstream_tables.case import NotPlayableError, Play, Tree, difference

_ALL_ON = ConstraintOptions()
_EFFECTS = {
    "{returntrue}": frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"}),
    "all": frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"}),
    "{returnfalse}": frozenset[str](),
}
"""The taint effects that upstream's filter functions select, by their source text."""


def _toleration(case: Tree) -> str | None:
    [toleration], [taint] = decoding.tolerations([case["toleration"]]), decoding.taints([case["taint"]])
    options = ConstraintOptions(numeric_tolerations=case["numeric"])
    return difference(tolerations.tolerates(toleration, taint, options), case["want"])


def _untolerated(case: Tree) -> str | None:
    effects = _EFFECTS.get(case["filter"], frozenset({"NoExecute"}))
    taints, tolerating = decoding.taints(case["taints"]), decoding.tolerations(case["tolerations"])
    found = tolerations.find_untolerated(taints, tolerating, _ALL_ON, effects)
    return difference(found is None, case["want"])


def _device_toleration(case: Tree) -> str | None:
    [toleration], [taint] = decoding.tolerations([case["toleration"]]), decoding.taints([case["taint"]])
    return difference(tolerations.tolerates_device_taint(toleration, taint, _ALL_ON), case["want"])


def _node(tree: Tree | None) -> tuple[dict[str, str], str]:
    metadata = (tree or {}).get("metadata") or {}
    return metadata.get("labels") or {}, metadata.get("name", "")


def _node_selector(case: Tree) -> str | None:
    if case["node"] is None:
        raise NotPlayableError("a selector is never evaluated without a node")
    matches = node_selector.compile_selector(decoding.node_selector(case["selector"]), _ALL_ON).matches(
        *_node(case["node"])
    )
    return difference(matches, False if case["error"] else case["want"])


def _preferred(case: Tree) -> str | None:
    if case["error"]:
        raise NotPlayableError("validation rejects the term; at run time it does not match")
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": case["terms"]}}
    score = node_selector.preferred_affinity(decoding.pod_spec({"affinity": affinity}), _ALL_ON)
    return difference(score.score(*_node(case["node"])), case["want"])


def _required(case: Tree) -> str | None:
    spec = decoding.pod_spec(case["pod"].get("spec", {}))
    return difference(
        node_selector.required_affinity(spec, _ALL_ON).matches(case["labels"], case["nodeName"]), case["want"]
    )


def _terms(case: Tree) -> str | None:
    if case["selector"] is None:
        raise NotPlayableError("there is no selector to evaluate")
    fields = case["fields"] or {}
    labels, name = _node(case["node"]) if case["node"] else (case["labels"] or {}, fields.get("metadata.name", ""))
    matches = node_selector.compile_selector(decoding.node_selector(case["selector"]), _ALL_ON).matches(labels, name)
    return difference(matches, case["want"])


TABLES: dict[str, Play] = {
    "tolerations": _toleration,
    "untolerated": _untolerated,
    "device_tolerations": _device_toleration,
    "node_selector_match": _node_selector,
    "preferred_score": _preferred,
    "required_affinity": _required,
    "match_terms": _terms,
}
