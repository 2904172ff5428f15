"""Move constraints that need the bridge from the spec of a manifest to its annotations.

Works on plain trees, so that everything else stays unchanged. Called by `mooring bridge convert`.
"""

from collections.abc import Iterator
from typing import Any

from mooring.api import codec
from mooring.api.core_v1 import NodeSelectorTerm, Toleration
from mooring.constraints.annotations import GATE, NODE_AFFINITY, TOLERATIONS
from mooring.constraints.lowering.support import is_unsupported
from mooring.constraints.lowering.terms import lower_term
from mooring.constraints.options import ConstraintOptions

Json = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TEMPLATE_PATHS = {
    "Pod": (),
    "PersistentVolume": (),
    "PodTemplate": ("template",),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"), ("spec", "template")
    ),
}
"""By kind, the path to the pod's metadata and spec."""


def convert(tree: Any) -> bool:
    """Convert an object or a list in place; return whether anything changed. Raise DecodeError for wrong fields."""
    changed = [
        _convert_volume(found) if found.get("kind") == "PersistentVolume" else _convert_pod_template(found)
        for found in _find_templates(tree)
    ]
    return any(changed)


def _convert_volume(volume: Json) -> bool:
    """Replace a volume's node affinity by labels that the bridge writes, and keep the original in an annotation."""
    affinity = volume["spec"].get("nodeAffinity") or {}
    terms = (affinity.get("required") or {}).get("nodeSelectorTerms") or []
    read = [codec.decode_tree(term, NodeSelectorTerm).object for term in terms]
    if not any(is_unsupported(term) for term in read):
        return False
    given = volume.setdefault("metadata", {}).setdefault("annotations", {})
    given[NODE_AFFINITY] = codec.to_yaml([affinity])
    lowered = [codec.to_tree(lower_term(term, ConstraintOptions())) for term in read]
    volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": lowered}}
    return True


def _find_templates(tree: Any) -> Iterator[Json]:
    if not isinstance(tree, dict):
        return
    if isinstance(tree.get("items"), list):
        for item in tree["items"]:
            yield from _find_templates(item)
        return
    way = _TEMPLATE_PATHS.get(str(tree.get("kind")))
    if way is None:
        return
    for step in way:
        tree = tree.get(step) if isinstance(tree, dict) else None
    if isinstance(tree, dict) and isinstance(tree.get("spec"), dict):
        yield tree


def _convert_pod_template(template: Json) -> bool:
    spec = template["spec"]
    moved: dict[str, Any] = {}
    tolerations = _move_tolerations(spec)
    if tolerations:
        moved[TOLERATIONS] = tolerations
    affinity = _move_node_affinity(spec)
    if affinity:
        moved[NODE_AFFINITY] = affinity
    if not moved:
        return False
    metadata = template.setdefault("metadata", {})
    given = metadata.setdefault("annotations", {})
    given |= {key: codec.to_yaml([value]) for key, value in moved.items()}
    gates = spec.setdefault("schedulingGates", [])
    if all(gate.get("name") != GATE for gate in gates):
        gates.append({"name": GATE})
    return True


def _move_tolerations(spec: Json) -> list[Any]:
    """Remove from a spec, and return, the first toleration that needs the bridge and all later ones: order matters."""
    found = spec.get("tolerations") or []
    for index, entry in enumerate(found):
        if is_unsupported(codec.decode_tree(entry, Toleration).object):
            spec["tolerations"] = found[:index]
            if not index:
                del spec["tolerations"]
            return list(found[index:])
    return []


def _move_node_affinity(spec: Json) -> Json:
    """Remove from a spec, and return, node affinity that needs the bridge: all required terms if one does."""
    affinity = spec.get("affinity") or {}
    nodes = affinity.get("nodeAffinity") or {}
    moved: Json = {}
    required = (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if any(_is_term_unsupported(term) for term in required):
        moved[_REQUIRED] = nodes.pop(_REQUIRED)
    preferred = nodes.get(_PREFERRED) or []
    foreign = [entry for entry in preferred if _is_term_unsupported(entry.get("preference") or {})]
    if foreign:
        moved[_PREFERRED] = foreign
        nodes[_PREFERRED] = [entry for entry in preferred if entry not in foreign]
        if not nodes[_PREFERRED]:
            del nodes[_PREFERRED]
    if moved and not nodes:
        del affinity["nodeAffinity"]
        if not affinity:
            del spec["affinity"]
    return moved


def _is_term_unsupported(term: Any) -> bool:
    return is_unsupported(codec.decode_tree(term, NodeSelectorTerm).object)
