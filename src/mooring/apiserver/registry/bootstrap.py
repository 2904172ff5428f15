"""Create the initial namespaces and PriorityClasses of a cluster when a server starts; existing ones are unchanged."""

import asyncio
from contextlib import suppress

from mooring.admission.strategy import SYSTEM_PRIORITIES
from mooring.api import errors
from mooring.api.core_v1 import Namespace
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.scheduling_v1 import PriorityClass
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Accepted, Request
from mooring.apiserver.registry.context import Call
from mooring.apiserver.registry.handler import Resources
from mooring.apiserver.registry.parameters import WriteOptions

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


async def bootstrap(resources: Resources) -> None:
    """Create missing objects in concurrent writes, which the store commits together."""
    await asyncio.gather(
        *(
            _ensure(resources, Namespace(kind="Namespace", api_version="v1", metadata=ObjectMeta(name=name)))
            for name in NAMESPACES
        ),
        *(_ensure(resources, _priority_class(each.name, each.value)) for each in SYSTEM_PRIORITIES.values()),
    )


def _priority_class(name: str, value: int) -> PriorityClass:
    what = "the cluster" if "cluster" in name else "a node"
    return PriorityClass(
        kind="PriorityClass",
        api_version="scheduling.k8s.io/v1",
        metadata=ObjectMeta(name=name),
        value=value,
        description=f"Used for system critical pods that must not be moved from {what}.",
    )


async def _ensure(resources: Resources, obj: Resource) -> None:
    kind = resources.context.scheme.kind_of(obj)
    call = Call(
        request=Request(method="POST", path="", user=users.SERVER),
        kind=kind,
        stored=resources.context.stored(kind),
        namespace="",
        name="",
        subresource="",
        accepted=Accepted(),
    )
    with suppress(errors.AlreadyExists):
        await resources.create_object(call, obj, WriteOptions(manager="mooring"))
