"""node.k8s.io/v1: RuntimeClass, how a node runs the containers of a pod, and what that costs besides."""

from typing import Annotated

from mooring.api.base import Object, atomic, required
from mooring.api.core_v1 import Toleration
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity


class Overhead(Object):
    """The resources that a pod of a class needs besides its containers."""

    pod_fixed: dict[str, Quantity] = {}
    """Amounts of resources, for each pod."""


class Scheduling(Object):
    """Constraints on the nodes that support a class."""

    node_selector: Annotated[dict[str, str], atomic()] = {}
    """Labels that those nodes have; added to the node selector of pods."""
    tolerations: list[Toleration] = []
    """Added to the tolerations of pods."""


class RuntimeClass(Resource):
    """A way to run containers."""

    handler: str = required(str)
    """The name that container runtimes have for it; it cannot be changed."""
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None
    """Which nodes have it; all when absent."""
