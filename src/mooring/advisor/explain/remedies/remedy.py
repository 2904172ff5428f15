"""A change that may help, before it was tried."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from msgspec import structs

from mooring.advisor.explain import patches
from mooring.advisor.explain.results import Change
from mooring.advisor.explain.view import View, full_name
from mooring.api import codec
from mooring.api.base import copy_of
from mooring.api.core_v1 import Node, NodeSpec, NodeStatus, Pod, PodSpec
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.states import priority

Edit = Callable[[PodSpec], bool]
"""Changes the spec that it is given, in place; false when there is nothing to change in it."""

BOUND, SMALL, MODEST, NEW_NODE, LARGE, DRASTIC = 1, 2, 3, 4, 5, 8
"""How much a change takes: moving a bound, adding something, relaxing something, another node, giving something up,
deleting."""
_HOSTNAME = "kubernetes.io/hostname"
_SIMULATION = "simulation.mooring.dev/"
_NODE_PARTS = ("capacity", "allocatable", "conditions")
_SYSTEM_TAINTS = "node.kubernetes.io/"
_MANY_VICTIMS = 6


@dataclass(frozen=True)
class Remedy:
    plugin: str
    family: str
    """Remedies of a family do the same thing in different places: only the best few are shown."""
    size: int
    summary: str
    edit: Edit | None = None
    """Of the pod, and of the template it comes from."""
    put: tuple[Resource, ...] = ()
    """What is there then, also by the work of controllers ..."""
    remove: tuple[Resource, ...] = ()
    """... and what is not."""
    changes: tuple[Change, ...] = ()
    """What somebody has to do about objects other than the pod."""
    caveat: str = ""
    distance: float = 0
    """How far a bound is moved, to choose among remedies of the same size."""
    node: str = ""
    """Where to look whether it helps, if not at the node that refused."""


def node_change(idea: Remedy, before: Node, change: Callable[[Node], None], command: str = "") -> Remedy:
    """A remedy that changes a node."""
    after = copy_of(before)
    change(after)
    return replace(idea, put=(after,), changes=(patches.modification(before, after, command),))


def label_node(plugin: str, node: Node, labels: dict[str, str | None], *, caveat: str = "") -> Remedy | None:
    """Give a node labels, or take them away; None for labels that nobody should touch."""
    if not labels or _HOSTNAME in labels:
        return None
    name, old = node.metadata.name, node.metadata.labels
    words = [f"{key}-" if value is None else f"{key}={value}" for key, value in labels.items()]
    overwrite = ["--overwrite"] if any(key in old and value is not None for key, value in labels.items()) else []

    def change(after: Node) -> None:
        for key, value in labels.items():
            after.metadata.labels.pop(key, None)
            if value is not None:
                after.metadata.labels[key] = value

    size = sum(MODEST if key in old else SMALL for key in labels)
    summary = f"label node {name} with {' and '.join(words)}"
    command = patches.kubectl("label", "node", name, *words, *overwrite)
    return node_change(Remedy(plugin, "label node", size, summary, caveat=caveat), node, change, command)


def add_node(view: View, plugin: str, model: Node) -> Remedy:
    """Another, empty node like one that there is; of equal ones the first stands for all."""
    model = view.first_like(model)
    name = f"{model.metadata.name}-like"
    while view.engine.cluster.node(name) is not None:
        name += "-too"
    labels = {key: name if key == _HOSTNAME else value for key, value in model.metadata.labels.items()}
    simulated = {key: value for key, value in model.metadata.annotations.items() if key.startswith(_SIMULATION)}
    taints = [taint for taint in model.spec.taints if not taint.key.startswith(_SYSTEM_TAINTS)]
    old = model.status
    status = NodeStatus(capacity=old.capacity, allocatable=old.allocatable, conditions=old.conditions)
    metadata = ObjectMeta(name=name, labels=labels, annotations=simulated)
    made = Node(metadata=metadata, spec=NodeSpec(taints=taints), status=status)
    change = patches.creation(made)
    shown = codec.to_tree(made)["status"]  # a kubelet, too, registers with its status
    tree = {**(change.object or {}), "status": {part: shown[part] for part in _NODE_PARTS if part in shown}}
    return Remedy(
        plugin,
        "add node",
        NEW_NODE,
        f"add a node like {model.metadata.name}",
        put=(made,),
        changes=(structs.replace(change, object=tree, command=patches.create_command(tree) if simulated else ""),),
        distance=1,
        node=name,
    )


def delete_pods(view: View, plugin: str, victims: Iterable[Pod], why: str) -> Remedy | None:
    """Delete pods; None for too many, or for those that belong to the node itself."""
    chosen = list({id(pod): pod for pod in victims}.values())
    if not chosen or len(chosen) > _MANY_VICTIMS or any(_is_fixed(pod) for pod in chosen):
        return None
    names = " and ".join(full_name(pod) for pod in chosen)
    above = [pod for pod in chosen if priority(pod) > priority(view.pod)]
    returning = [pod for pod in chosen if pod.metadata.owner_references]
    caveat = "more important than this pod: " + ", ".join(map(full_name, above)) if above else ""
    if returning and not caveat:
        caveat = f"the owner of {full_name(returning[0])} makes another pod, which may be faster: scale it down instead"
    summary = f"delete pod {names}{why}" if len(chosen) == 1 else f"delete pods {names}{why}"
    return Remedy(
        plugin,
        "delete pods",
        DRASTIC + 2 * len(chosen) + 6 * len(above),
        summary,
        remove=tuple(chosen),
        changes=tuple(patches.deletion(pod) for pod in chosen),
        caveat=caveat,
    )


def _is_fixed(pod: Pod) -> bool:
    """Whether a pod comes back to its node whatever happens."""
    owners = {each.kind for each in pod.metadata.owner_references}
    return "DaemonSet" in owners or "Node" in owners or "kubernetes.io/config.mirror" in pod.metadata.annotations
