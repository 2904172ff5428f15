"""Manifests that use the new constraints in their spec, rewritten to say them in annotations for the bridge.

Works on plain trees, so that whatever else a manifest says stays as it is. `mooring bridge convert` calls it.
"""

from collections.abc import Iterator
from typing import Any

from mooring.api import codec
from mooring.api.core_v1 import NodeSelectorTerm, Toleration
from mooring.constraints.annotations import GATE, NODE_AFFINITY, TOLERATIONS
from mooring.constraints.lowering import is_foreign, lower_term
from mooring.constraints.options import ConstraintOptions

Json = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WAYS = {
    "Pod": (),
    "PersistentVolume": (),
    "PodTemplate": ("template",),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"), ("spec", "template")
    ),
}
"""By kind, the way to what has the pod's metadata and spec."""


def convert(tree: Any) -> bool:
    """Rewrite an object, or all of a list, in place; whether anything changed. Raises DecodeError for wrong fields."""
    changed = [
        _convert_volume(found) if found.get("kind") == "PersistentVolume" else _convert(found)
        for found in _templates(tree)
    ]
    return any(changed)


def _convert_volume(volume: Json) -> bool:
    """A volume's terms ask for labels at once: it cannot wait as a pod can, and without labels no node meets them."""
    affinity = volume["spec"].get("nodeAffinity") or {}
    terms = (affinity.get("required") or {}).get("nodeSelectorTerms") or []
    read = [codec.decode_tree(term, NodeSelectorTerm).object for term in terms]
    if not any(is_foreign(term) for term in read):
        return False
    given = volume.setdefault("metadata", {}).setdefault("annotations", {})
    given[NODE_AFFINITY] = codec.to_yaml([affinity])
    lowered = [codec.to_tree(lower_term(term, ConstraintOptions())) for term in read]
    volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": lowered}}
    return True


def _templates(tree: Any) -> Iterator[Json]:
    if not isinstance(tree, dict):
        return
    if isinstance(tree.get("items"), list):
        for item in tree["items"]:
            yield from _templates(item)
        return
    way = _WAYS.get(str(tree.get("kind")))
    if way is None:
        return
    for step in way:
        tree = tree.get(step) if isinstance(tree, dict) else None
    if isinstance(tree, dict) and isinstance(tree.get("spec"), dict):
        yield tree


def _convert(template: Json) -> bool:
    spec = template["spec"]
    moved: dict[str, Any] = {}
    tolerations = _tolerations(spec)
    if tolerations:
        moved[TOLERATIONS] = tolerations
    affinity = _node_affinity(spec)
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


def _tolerations(spec: Json) -> list[Any]:
    """Take away the first toleration in new words and all behind it: their order decides whose seconds count."""
    found = spec.get("tolerations") or []
    for index, entry in enumerate(found):
        if is_foreign(codec.decode_tree(entry, Toleration).object):
            spec["tolerations"] = found[:index]
            if not index:
                del spec["tolerations"]
            return list(found[index:])
    return []


def _node_affinity(spec: Json) -> Json:
    """Take away all required terms if one has new words, since they are alternatives; of the preferred just those."""
    affinity = spec.get("affinity") or {}
    nodes = affinity.get("nodeAffinity") or {}
    moved: Json = {}
    required = (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if any(_term_is_foreign(term) for term in required):
        moved[_REQUIRED] = nodes.pop(_REQUIRED)
    preferred = nodes.get(_PREFERRED) or []
    foreign = [entry for entry in preferred if _term_is_foreign(entry.get("preference") or {})]
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


def _term_is_foreign(term: Any) -> bool:
    return is_foreign(codec.decode_tree(term, NodeSelectorTerm).object)
