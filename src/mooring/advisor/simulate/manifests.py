"""Read objects and node templates from manifests strictly: unknown fields are errors."""

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from mooring.advisor.node_facts import STATE_TAINTS
from mooring.advisor.simulate.changes import ScenarioError
from mooring.advisor.simulate.pods import uid_of
from mooring.advisor.snapshot.objects import decode_newest
from mooring.api import yaml_documents
from mooring.api.codec import FieldValidation
from mooring.api.core_v1 import Node, NodeStatus
from mooring.api.json_tree import DecodeError
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.quantity import parse

HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_ZONES = ("zone-a", "zone-b", "zone-c")


def read_objects(text: str | bytes, source: str) -> tuple[Resource, ...]:
    """Read objects from YAML or JSON, converted to the newest version. Raise ScenarioError with the file and line."""
    try:
        documents = yaml_documents.read(text)
    except DecodeError as problem:
        raise ScenarioError(f"{source}: {problem}") from problem
    found: list[Resource] = []
    for document in documents:
        found += (_decode(tree, f"{source}:{document.line}") for tree in _flatten(document.tree))
    if not found:
        raise ScenarioError(f"{source}: there is no object in it")
    return tuple(found)


def decode_trees(trees: list[Any], path: str) -> tuple[Resource, ...]:
    """Decode objects, given as dicts, of another document; `path` is their position there. Raise ScenarioError."""
    return tuple(_decode(tree, f"{path}[{index}]") for index, given in enumerate(trees) for tree in _flatten(given))


def _flatten(tree: Any) -> Iterator[Any]:
    items = tree.get("items") if isinstance(tree, dict) and str(tree.get("kind", "")).endswith("List") else None
    if isinstance(items, list):
        for item in items:
            yield from _flatten(item)
    else:
        yield tree


def _decode(tree: Any, place: str) -> Resource:
    try:
        return decode_newest(tree, FieldValidation.STRICT)
    except ValueError as problem:
        raise ScenarioError(f"{place}: {problem}") from problem


def read_nodes(text: str | bytes, source: str) -> tuple[Node, ...]:
    objects = read_objects(text, source)
    nodes = tuple(obj for obj in objects if isinstance(obj, Node))
    if len(nodes) != len(objects):
        other = next(obj for obj in objects if not isinstance(obj, Node))
        raise ScenarioError(f"{source}: a template for nodes has Nodes in it, not a {other.kind}")
    for node in nodes:
        if not node.status.allocatable and not node.status.capacity:
            raise ScenarioError(f"{source}: the node {node.metadata.name} has no status.allocatable: no pod would fit")
    return nodes


def copy_templates(templates: tuple[Node, ...], number: int, first: int = 0) -> Iterator[Node]:
    """Yield `number` nodes with generated names, copied from the templates by turns."""
    templates = templates or DEFAULT_TEMPLATES
    for index in range(first, first + number):
        template = templates[index % len(templates)]
        node = with_node_name(template, f"{(template.metadata.name or 'node').rstrip('-')}-{index}")
        amounts, capacity = node.status.allocatable, node.status.capacity
        status = structs.replace(node.status, allocatable=amounts or capacity, capacity=capacity or amounts)
        yield structs.replace(node, status=status)


def with_node_name(template: Node, name: str) -> Node:
    """Return a copy of a template node with this name, and a uid and `kubernetes.io/hostname` label to match."""
    meta = template.metadata
    labels = {**meta.labels, HOSTNAME: name}
    made = ObjectMeta(name=name, uid=uid_of("Node", name), labels=labels, annotations=meta.annotations)
    return structs.replace(template, metadata=made)


def node_template_of(node: Node) -> Node:
    """Return a template for new nodes from an existing one, without its identity, hostname, and taints of its state."""
    taints = [taint for taint in node.spec.taints if not taint.key.startswith(STATE_TAINTS)]
    spec = structs.replace(node.spec, taints=taints, unschedulable=False, pod_cidr="", pod_cidrs=[], provider_id="")
    labels = {key: value for key, value in node.metadata.labels.items() if key != HOSTNAME}
    meta = structs.replace(node.metadata, labels=labels, uid="", resource_version="")
    return structs.replace(node, metadata=meta, spec=spec)


def _default_node(zone: str) -> Node:
    amounts = {"cpu": parse("32"), "memory": parse("128Gi"), "pods": parse("110")}
    return Node(
        api_version="v1",
        kind="Node",
        metadata=ObjectMeta(name="node", labels={_ZONE: zone}),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


DEFAULT_TEMPLATES = tuple(_default_node(zone) for zone in _ZONES)
