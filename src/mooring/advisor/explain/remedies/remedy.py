"""The type of a remedy: a change that may help, which ``search.py`` tries."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from msgspec import structs

from mooring.advisor.explain import patches
from mooring.advisor.explain.results import Change
from mooring.advisor.explain.view import View, full_name
from mooring.api import codec
from mooring.api.base import copy_of
from mooring.api.core_v1 import Node, NodeSpec, NodeStatus, Pod, PodSpec
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.simulation import FAILURE
from mooring.api.states import priority
from mooring.constraints.node_selector import required_terms

T = TypeVar("T", bound=Resource)
Edit = Callable[[PodSpec], bool]
"""A function that changes a pod or workload spec in place; it returns False if there is nothing to change."""

BOUND, SMALL, MODEST, NEW_NODE, LARGE, DRASTIC = 1, 2, 3, 4, 5, 8
"""The sizes of remedies, by which they are sorted: move a bound, add, relax, add a node, drop a constraint, delete."""
_HOSTNAME = "kubernetes.io/hostname"
_OF_THE_MACHINE = ("kubernetes.io/arch", "kubernetes.io/os")
_SIMULATION = "simulation.mooring.dev/"
_NODE_PARTS = ("capacity", "allocatable", "conditions")
_SYSTEM_TAINTS = "node.kubernetes.io/"
_MANY_VICTIMS = 6
CLAIM_CAVEAT = "a claim cannot be changed: it is deleted and created again"


@dataclass(frozen=True)
class Remedy:
    """A change that may resolve a plugin's rejection of a node, not tried yet."""

    family: str
    """The key of remedies that do the same thing in different places; only the best few of a family are shown."""
    size: int
    summary: str
    edit: Edit | None = None
    """The function that changes the pod's spec, and the template that the pod is created from."""
    put: tuple[Resource, ...] = ()
    """The objects that the remedy adds or replaces, including those that controllers would create."""
    remove: tuple[Resource, ...] = ()
    """The objects that the remedy deletes, including those that controllers would delete."""
    changes: tuple[Change, ...] = ()
    """The changes of other objects than the pod and its workload that the user has to make."""
    caveat: str = ""
    distance: float = 0
    """How far a bound is moved, to choose among remedies of the same size."""
    node: str = ""
    """The node on which to check whether the remedy helps; by default, the node that rejected the pod."""
    plugin: str = ""
    """The plugin whose rejection it resolves; `remedies_for` sets it."""


def with_object_change(
    idea: Remedy, before: T, change: Callable[[T], None], command: str = "", *, is_immutable: bool = False
) -> Remedy:
    """Return the remedy `idea` plus the change of an object; an immutable object is deleted and created again."""
    after = copy_of(before)
    change(after)
    made = patches.recreate_change(before, after) if is_immutable else patches.patch_change(before, after, command)
    return replace(idea, put=(after,), changes=(made,))


def label_node(view: View, node: Node, labels: dict[str, str | None], *, caveat: str = "") -> Iterator[Remedy]:
    """Yield the remedy that sets or removes (value None) labels of a node; nothing for hostname, CPU type and OS.

    A caveat names a pod on the node that selects the old value of such a label.
    """
    if not labels or _HOSTNAME in labels or any(labels.get(key) for key in _OF_THE_MACHINE):
        return
    name, old = node.metadata.name, node.metadata.labels
    words = [f"{key}-" if value is None else f"{key}={value}" for key, value in labels.items()]
    overwrite = ["--overwrite"] if any(key in old and value is not None for key, value in labels.items()) else []

    def change(after: Node) -> None:
        for key, value in labels.items():
            after.metadata.labels.pop(key, None)
            if value is not None:
                after.metadata.labels[key] = value

    selecting = _find_selecting_pod(view, node, {key for key in labels if key in old})
    if selecting:
        caveat = "; ".join(
            filter(None, (caveat, f"{selecting} selects on the old value and could not start there again"))
        )
    size = sum(LARGE if key in old else MODEST for key in labels)
    summary = f"label node {name} with {' and '.join(words)}"
    command = patches.kubectl_command("label", "node", name, *words, *overwrite)
    yield with_object_change(Remedy("label node", size, summary, caveat=caveat), node, change, command)


def _find_selecting_pod(view: View, node: Node, keys: set[str]) -> str:
    """Return the name of a pod on a node whose node selector uses one of the labels; empty if there is none."""
    info = view.engine.cluster.node(node.metadata.name) if keys else None
    for pod in info.pods if info is not None else ():
        entries = (entry for term in required_terms(pod.spec) for entry in term.match_expressions)
        used = {*pod.spec.node_selector, *(entry.key for entry in entries)}
        if used & keys:
            return f"pod {full_name(pod)}"
    return ""


def add_node(view: View, model: Node) -> Remedy:
    """Return the remedy that adds an empty, ready node, identical to an existing one except for its name."""
    model = view.first_equivalent_node(model)
    name = f"{model.metadata.name}-like"
    while view.engine.cluster.node(name) is not None:
        name += "-too"
    labels = {key: name if key == _HOSTNAME else value for key, value in model.metadata.labels.items()}
    simulated = {
        key: value
        for key, value in model.metadata.annotations.items()
        if key.startswith(_SIMULATION) and key != FAILURE
    }
    taints = [taint for taint in model.spec.taints if not taint.key.startswith(_SYSTEM_TAINTS)]
    old = model.status
    conditions = [
        structs.replace(each, status="True", reason="", message="") for each in old.conditions if each.type == "Ready"
    ]
    status = NodeStatus(capacity=old.capacity, allocatable=old.allocatable, conditions=conditions)
    metadata = ObjectMeta(name=name, labels=labels, annotations=simulated)
    made = Node(metadata=metadata, spec=NodeSpec(taints=taints), status=status)
    change = patches.create_change(made)
    shown = codec.to_tree(made)["status"]  # a kubelet, too, registers with its status
    tree = {**(change.object or {}), "status": {part: shown[part] for part in _NODE_PARTS if part in shown}}
    command = _create_node_command(tree) if simulated else ""
    return Remedy(
        "add node",
        NEW_NODE,
        f"add a node like {model.metadata.name}",
        put=(made,),
        changes=(structs.replace(change, object=tree, command=command),),
        distance=1,
        node=name,
    )


def _create_node_command(tree: dict[str, Any]) -> str:
    """Return the command that creates a simulated node, without what its kubelet fills in."""
    status = tree["status"]
    kept = {"capacity": status.get("capacity", {}), "allocatable": status.get("allocatable", {})}
    kept = kept if kept["allocatable"] != kept["capacity"] else {"capacity": kept["capacity"]}
    return patches.create_command({**{key: value for key, value in tree.items() if value}, "status": kept})


def numbered_node(model: Node, change: Change, number: int) -> tuple[Node, Change]:
    """Return a copy of a new node with a number added to its name, and the change that creates this copy."""
    old, name = model.metadata.name, f"{model.metadata.name}-{number}"
    after = copy_of(model)
    after.metadata.name = name
    after.metadata.labels = {key: name if value == old else value for key, value in after.metadata.labels.items()}
    tree: dict[str, Any] = {**(change.object or {}), "metadata": codec.to_tree(after)["metadata"]}
    command = _create_node_command(tree) if change.command else ""
    return after, structs.replace(change, target=patches.target_of(after), object=tree, command=command)


def delete_pods(view: View, victims: Iterable[Pod], why: str) -> Iterator[Remedy]:
    """Yield the remedy that deletes pods; nothing for many pods, for siblings, and for pods tied to their node."""
    chosen = list({id(pod): pod for pod in victims}.values())
    if (
        not chosen
        or len(chosen) > _MANY_VICTIMS
        or any(_is_tied_to_node(pod) or view.is_sibling(pod) for pod in chosen)
    ):
        return
    names = " and ".join(full_name(pod) for pod in chosen)
    above = [pod for pod in chosen if priority(pod) > priority(view.pod)]
    returning = [pod for pod in chosen if pod.metadata.owner_references]
    caveat = "more important than this pod: " + ", ".join(map(full_name, above)) if above else ""
    if returning and not caveat:
        caveat = f"the owner of {full_name(returning[0])} makes another pod, which may be faster: scale it down instead"
    summary = f"delete pod {names}{why}" if len(chosen) == 1 else f"delete pods {names}{why}"
    yield Remedy(
        "delete pods",
        DRASTIC + 2 * len(chosen) + 6 * len(above),
        summary,
        remove=tuple(chosen),
        changes=tuple(patches.delete_change(pod) for pod in chosen),
        caveat=caveat,
    )


def _is_tied_to_node(pod: Pod) -> bool:
    owners = {each.kind for each in pod.metadata.owner_references}
    return "DaemonSet" in owners or "Node" in owners or "kubernetes.io/config.mirror" in pod.metadata.annotations
