"""Fluent builders of nodes and pods, for tests against a control plane.

    node("a").label("tier", "gold").taint("sla", "950")
    pod("web").request(cpu="500m").toleration("sla", "Gt", "900")

Every call changes the builder and returns it; `build` returns the object. The fixture's `create` accepts builders.
Set other fields on the object that `build` returns.
"""

from typing import Generic, Self, TypeVar

from mooring.api import core_v1
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity, parse
from mooring.testing import builders

T = TypeVar("T", bound=Resource)
SIMULATED = "simulation.mooring.dev/node"


def _quantities(amounts: dict[str, str]) -> dict[str, Quantity]:
    return {name: parse(text) for name, text in amounts.items()}


class Builder(Generic[T]):
    def __init__(self, wanted: T) -> None:
        self._wanted = wanted

    def label(self, key: str, value: str = "") -> Self:
        self._wanted.metadata.labels[key] = value
        return self

    def annotation(self, key: str, value: str) -> Self:
        self._wanted.metadata.annotations[key] = value
        return self

    def build(self) -> T:
        return self._wanted


class NodeBuilder(Builder[core_v1.Node]):
    """A builder of a simulated node, which becomes ready and runs the pods that are bound to it."""

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        self._wanted.spec.taints.append(core_v1.Taint(key=key, value=value, effect=effect))
        return self

    def capacity(self, **amounts: str) -> Self:
        """Set resources, as `cpu="8"`; others keep their amounts."""
        self._wanted.status.capacity |= _quantities(amounts)
        self._wanted.status.allocatable |= _quantities(amounts)
        return self

    def unschedulable(self) -> Self:
        self._wanted.spec.unschedulable = True
        return self


class PodBuilder(Builder[core_v1.Pod]):
    """A builder of a pod with one container."""

    def request(self, **amounts: str) -> Self:
        """Add requests of the container, as `cpu="500m"`."""
        resources = self._wanted.spec.containers[0].resources
        resources.requests |= _quantities(amounts)
        return self

    def toleration(
        self, key: str = "", operator: str = "Equal", value: str = "", effect: str = "", seconds: int | None = None
    ) -> Self:
        wanted = core_v1.Toleration(key=key, operator=operator, value=value, effect=effect, toleration_seconds=seconds)
        self._wanted.spec.tolerations.append(wanted)
        return self

    def tolerates(self, expression: str, seconds: int | None = None) -> Self:
        """Add a toleration with a CEL expression over `taint`."""
        self._wanted.spec.tolerations.append(core_v1.Toleration(expression=expression, toleration_seconds=seconds))
        return self

    def needs(self, key: str, operator: str, *values: str) -> Self:
        """Add a required node affinity expression; all of them must match."""
        requirement = core_v1.NodeSelectorRequirement(key=key, operator=operator, values=list(values))
        self._node_term().match_expressions.append(requirement)
        return self

    def needs_node(self, expression: str) -> Self:
        """Add a required CEL expression over `node`."""
        self._node_term().match_cel_expressions.append(expression)
        return self

    def priority_class(self, name: str) -> Self:
        self._wanted.spec.priority_class_name = name
        return self

    def scheduler(self, name: str) -> Self:
        self._wanted.spec.scheduler_name = name
        return self

    def _node_term(self) -> core_v1.NodeSelectorTerm:
        spec = self._wanted.spec
        spec.affinity = spec.affinity or core_v1.Affinity()
        nodes = spec.affinity.node_affinity = spec.affinity.node_affinity or core_v1.NodeAffinity()
        if nodes.required_during_scheduling_ignored_during_execution is None:
            nodes.required_during_scheduling_ignored_during_execution = core_v1.NodeSelector(
                node_selector_terms=[core_v1.NodeSelectorTerm()]
            )
        return nodes.required_during_scheduling_ignored_during_execution.node_selector_terms[0]


def node(name: str) -> NodeBuilder:
    """Begin a node with four cores and 16 GiB."""
    return NodeBuilder(builders.node(name)).annotation(SIMULATED, "true")


def pod(name: str, namespace: str = "default") -> PodBuilder:
    """Begin a pod without requests and tolerations."""
    wanted = builders.pod(name, namespace=namespace)
    wanted.metadata.uid = ""  # the server generates it
    return PodBuilder(wanted)
