"""Create the initial namespaces and PriorityClasses of a cluster when a server starts; existing ones are unchanged."""

import asyncio

from mooring.admission.strategy import SYSTEM_PRIORITIES
from mooring.api.core_v1 import Namespace
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.scheduling_v1 import PriorityClass
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient
from mooring.apiserver.registry.handler import Resources

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


async def bootstrap(resources: Resources) -> None:
    """Create the initial namespaces and PriorityClasses that do not exist, concurrently."""
    calls = LoopbackClient(resources)
    namespaces = (Namespace(metadata=ObjectMeta(name=name)) for name in NAMESPACES)
    classes = (_priority_class(each.name, each.value) for each in SYSTEM_PRIORITIES.values())
    await asyncio.gather(*(calls.ensure(obj) for obj in (*namespaces, *classes)))


def _priority_class(name: str, value: int) -> PriorityClass:
    what = "the cluster" if "cluster" in name else "a node"
    return PriorityClass(
        metadata=ObjectMeta(name=name),
        value=value,
        description=f"Used for system critical pods that must not be moved from {what}.",
    )
