"""Build simulated Nodes from a number, or from a file of Node manifests.

With the annotation `simulation.mooring.dev/count: "100"` a manifest creates 100 nodes, `<name>-0` and so
on; `simulation.mooring.dev/kubelet-version: "1.35"` selects the kubelet. Missing fields (capacity, host labels) are
those of a plain simulated node. `mooring up --nodes` calls `create_nodes`.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from mooring.api import errors, yaml_documents
from mooring.api.base import copy_of
from mooring.api.core_v1 import Node
from mooring.api.from_tree import FieldValidation, from_tree
from mooring.api.json_tree import DecodeError
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.simulation import NODE, PREFIX
from mooring.client import Client
from mooring.controllers.controller import for_each_concurrently
from mooring.controllers.options import Kubelet
from mooring.controllers.simulated_nodes.addresses import PodCidrAllocator
from mooring.controllers.simulated_nodes.node_status import KUBELET_VERSION, build_node_status, kubelet_labels

COUNT = f"{PREFIX}count"
_STATE_TAINTS = "node.kubernetes.io/"
_LARGEST = 100_000
_ZONES = 3
_AT_A_TIME = 32


class TemplateError(ValueError):
    """A file of node templates is invalid; the message names the document and the reason."""


def build_numbered_nodes(count: int) -> list[Node]:
    """Return identical nodes, named `node-0` and so on, in three zones."""
    template = Node(metadata=ObjectMeta(name="node"))
    nodes = list(_build_copies(template, count))
    for number, node in enumerate(nodes):
        node.metadata.labels |= {
            "topology.kubernetes.io/region": "simulated",
            "topology.kubernetes.io/zone": f"zone-{number % _ZONES + 1}",
        }
    return nodes


def read_templates(source: str | bytes) -> list[Node]:
    """Return the nodes of a YAML file of Node manifests. Raise TemplateError if one is invalid."""
    try:
        documents = yaml_documents.read(source)
    except DecodeError as error:
        raise TemplateError(str(error)) from error
    nodes: list[Node] = []
    for line, tree in ((document.line, tree) for document in documents for tree in _flatten_list(document.tree)):
        where = f"line {line}"
        if not isinstance(tree, dict) or tree.get("kind") != "Node":
            raise TemplateError(f"{where}: a node template is a manifest of kind Node")
        try:
            template = make_simulated(from_tree(tree, Node, FieldValidation.STRICT)[0])
        except DecodeError as error:
            raise TemplateError(f"{where}: {error}") from error
        if not template.metadata.name:
            raise TemplateError(f"{where}: metadata.name: Required value")
        text = template.metadata.annotations.get(KUBELET_VERSION)
        if text is not None and Kubelet().with_version(text) is None:
            raise TemplateError(f"{where}: {KUBELET_VERSION}: {text!r} is not a version such as 1.36 or v1.36.2")
        nodes += _build_copies(
            template, _parse_count(template, where), single=COUNT not in template.metadata.annotations
        )
    names = [node.metadata.name for node in nodes]
    if len(set(names)) < len(names):
        raise TemplateError("several nodes have the same name: give the templates different ones")
    return nodes


def _flatten_list(tree: object) -> list[object]:
    """Return the items of a List, as `kubectl get nodes -o yaml` prints one, or the document itself."""
    items = tree.get("items") if isinstance(tree, dict) and tree.get("kind") in ("List", "NodeList") else None
    return items if isinstance(items, list) else [tree]


def make_simulated(node: Node) -> Node:
    """Change a node of another cluster into a simulated one: remove its version, state taints and conditions."""
    meta = node.metadata
    meta.resource_version, meta.managed_fields, meta.self_link = "", [], ""
    meta.annotations[NODE] = "true"
    node.spec.taints = [taint for taint in node.spec.taints if not taint.key.startswith(_STATE_TAINTS)]
    node.status.conditions, node.status.volumes_in_use, node.status.volumes_attached = [], [], []
    return node


def _parse_count(template: Node, where: str) -> int:
    text = template.metadata.annotations.get(COUNT, "1")
    if not text.isascii() or not text.isdigit() or int(text) > _LARGEST:
        raise TemplateError(f"{where}: {COUNT}: {text!r} is not a number from 0 to {_LARGEST}")
    return int(text)


def _build_copies(template: Node, count: int, *, single: bool = False) -> Iterator[Node]:
    for number in range(count):
        node = copy_of(template)
        name = node.metadata.name = template.metadata.name if single else f"{template.metadata.name}-{number}"
        node.metadata.annotations.pop(COUNT, None)
        node.metadata.annotations[NODE] = "true"
        node.metadata.labels = kubelet_labels(name) | node.metadata.labels
        yield node


async def create_nodes(client: Client, nodes: Iterable[Node], kubelet: Kubelet | None = None) -> None:
    """Create nodes in the server, each with a pod CIDR and a complete status; existing ones are left unchanged."""
    networks, now, kubelet = PodCidrAllocator(), client.clock.now(), kubelet or Kubelet()
    known = set()
    for node in (await client.list(Node, managed_fields=False)).items:
        known.add(node.metadata.name)
        networks.mark_used(node.spec.pod_cidr, node.metadata.name)

    async def create(node: Node) -> None:
        network = "" if node.spec.pod_cidr else networks.allocate(node.metadata.name)
        if network:
            node.spec.pod_cidr, node.spec.pod_cidrs = network, [network]
        node.status = build_node_status(node, now, kubelet)
        with suppress(errors.AlreadyExists):
            await client.create(node)

    await for_each_concurrently((node for node in nodes if node.metadata.name not in known), create, _AT_A_TIME)
