"""DefaultBinder: writes the bindings of pods to nodes, in batches if the server supports them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mooring.api.core_v1 import Binding, ObjectReference, Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.scheduler.framework import SUCCESS, CycleState, Handle, PluginArguments, Status, error

if TYPE_CHECKING:
    from mooring.client import BulkBinding, Client


class DefaultBinder:
    name = "DefaultBinder"

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        self._bulk = None if handle.client is None else _bulk_binding(handle.client)

    async def bind(self, _cycle: CycleState, pod: Pod, node_name: str) -> Status:
        [problem] = await self.bind_all([(pod, node_name)])
        return SUCCESS if problem is None else error(str(problem))

    async def bind_all(self, pods: Sequence[tuple[Pod, str]]) -> Sequence[Exception | None]:
        if self._bulk is None:
            return [RuntimeError("there is no API to bind through")] * len(pods)
        return await self._bulk.bind([_make_binding(pod, node) for pod, node in pods])


def _bulk_binding(client: "Client") -> "BulkBinding":
    from mooring.client import BulkBinding  # noqa: PLC0415 - simulations should not wait for it to be loaded

    return BulkBinding(client)


def _make_binding(pod: Pod, node: str) -> Binding:
    meta = pod.metadata
    return Binding(
        metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
        target=ObjectReference(kind="Node", name=node),
    )
