"""The kubelets of simulated nodes: addresses, status, images, and Leases as heartbeats.

Heartbeats are spread over their period in one loop for all nodes. With many nodes they are less frequent, but at least
two in the grace period of a node.
"""

import zlib
from collections.abc import Awaitable, Callable, Iterable

from msgspec import structs

from mooring.api import errors, times
from mooring.api.coordination_v1 import Lease, LeaseSpec
from mooring.api.core_v1 import ContainerImage, Node, Pod
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta, OwnerReference
from mooring.api.simulation import is_simulated, is_unreachable
from mooring.base import logs
from mooring.client import ClientError, Informer, PatchType
from mooring.controllers.controller import Context, Controller, for_each_concurrently
from mooring.controllers.node_lifecycle import LEASES
from mooring.controllers.simulated_nodes import pod_status
from mooring.controllers.simulated_nodes.addresses import PodCidrAllocator
from mooring.controllers.simulated_nodes.node_status import (
    build_conditions,
    build_node_status,
    is_up_to_date,
    kubelet_labels,
)

_LEASE_SECONDS = 40
_RENEW_SECONDS, _LONGEST_RENEW_SECONDS = 10, 20
_RENEWALS_PER_SECOND = 250
_STATUS_SECONDS = 300
_AT_A_TIME = 256
"""The maximum number of concurrent writes, so that heartbeats arrive on a busy server."""
_MOST_IMAGES = 50
_IMAGES_SECONDS = 30.0
_LISTS_PER_SECOND = 100
"""The rate of writing image lists, which are less urgent than the pods of a large rollout."""

log = logs.get(__name__)


class SimulatedNodeController(Controller):
    """The controller that acts as the kubelets of simulated nodes; reconciles nodes by name."""

    name = "simulated-nodes"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._kubelet = context.options.kubelet
        self._nodes: Informer[Node] = context.informers.of(Node)
        self._leases: Informer[Lease] = context.informers.of(Lease)
        self._networks = PodCidrAllocator()
        self._slots: dict[str, int] = {}
        """By node, the number that decides when its heartbeats are due."""
        self.follow(self._nodes, self._track_node)
        self._nodes.add_handler(deleted=self._release_node)
        self.follow(context.informers.of(Pod), self._record_pulled_images)
        self._pulled: dict[str, dict[str, None]] = {}
        self.periodic = (self._send_heartbeats_periodically, self._report_images_periodically)

    def _track_node(self, node: Node) -> None:
        name = node.metadata.name
        self._networks.mark_used(node.spec.pod_cidr, name)
        if not is_simulated(node):
            self._slots.pop(name, None)
            return
        self._slots.setdefault(name, zlib.crc32(name.encode()))
        if not node.spec.pod_cidr or not is_up_to_date(node, self._kubelet):
            self.enqueue(node)

    def _release_node(self, node: Node) -> None:
        self._networks.release(node.spec.pod_cidr, node.metadata.name)
        self._slots.pop(node.metadata.name, None)

    async def reconcile(self, key: str) -> None:
        node = self._nodes.get(key)
        if node is None or not is_simulated(node) or is_unreachable(node):
            return
        if not node.spec.pod_cidr:
            node = await self._register_node(node)
        if not is_up_to_date(node, self._kubelet):
            # Images are written apart, and may have changed since.
            status = structs.replace(build_node_status(node, self.clock.now(), self._kubelet), images=[])
            body = {"metadata": {"uid": node.metadata.uid}, "status": status}
            await self.client.patch_unread(Node, key, body, subresource="status")

    async def _register_node(self, node: Node) -> Node:
        name = node.metadata.name
        network = self._networks.allocate(name)
        if network is None:
            return node
        body = {
            "metadata": {"uid": node.metadata.uid, "labels": kubelet_labels(name) | node.metadata.labels},
            "spec": {"podCIDR": network, "podCIDRs": [network]},
        }
        return await self.client.patch(Node, name, body, type=PatchType.MERGE)

    async def _send_heartbeats_periodically(self) -> None:
        await _for_each_node(
            [name for name in self._slots if self._leases.get(name, LEASES) is None], self._renew_lease
        )
        before = int(self.clock.monotonic())
        while True:
            await self.clock.sleep(1.0)
            now = int(self.clock.monotonic())
            await _for_each_node(self._find_due_nodes(before, now, renew_seconds(len(self._slots))), self._renew_lease)
            await _for_each_node(self._find_due_nodes(before, now, _STATUS_SECONDS), self._report_conditions)
            before = now

    def _find_due_nodes(self, before: int, now: int, period: int) -> list[str]:
        if now - before >= period:
            return list(self._slots)
        turns = {second % period for second in range(before + 1, now + 1)}
        return [name for name, slot in self._slots.items() if slot % period in turns]

    async def _renew_lease(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or is_unreachable(node):
            return
        now = times.to_microseconds(self.clock.now())
        lease = self._leases.get(name, LEASES)
        spec = LeaseSpec(holder_identity=name, lease_duration_seconds=_LEASE_SECONDS, renew_time=now)
        meta = ObjectMeta(name=name, namespace=LEASES)
        # Deleted with its node.
        meta.owner_references = [OwnerReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)]
        if lease is None:
            await self.client.create_unread(Lease(metadata=meta, spec=spec))
        else:
            meta.resource_version = lease.metadata.resource_version
            await self.client.update_unread(Lease(metadata=meta, spec=spec))

    async def _report_conditions(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or is_unreachable(node):
            return
        body = {"status": {"conditions": build_conditions(node, self.clock.now())}}
        await self.client.patch_unread(Node, name, body, subresource="status")

    def _record_pulled_images(self, pod: Pod) -> None:
        name = pod.spec.node_name
        if name not in self._slots or pod.status.phase != pod_status.RUNNING:
            return
        node = self._nodes.get(name)
        if node is None or len(node.status.images) >= _MOST_IMAGES:
            return
        known = {word for image in node.status.images for word in image.names}
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if pod_status.full_image(container.image) not in known:
                self._pulled.setdefault(name, {})[container.image] = None

    async def _report_images_periodically(self) -> None:
        while True:
            await self.clock.sleep(_IMAGES_SECONDS)
            names = list(self._pulled)
            for first in range(0, len(names), _LISTS_PER_SECOND):
                await _for_each_node(names[first : first + _LISTS_PER_SECOND], self._write_images)
                await self.clock.sleep(1.0)

    async def _write_images(self, name: str) -> None:
        pulled = self._pulled.pop(name)
        node = self._nodes.get(name)
        if node is None or is_unreachable(node):
            return
        new = [
            ContainerImage(
                names=[pod_status.image_id(image), pod_status.full_image(image)],
                size_bytes=pod_status.image_size(image),
            )
            for image in pulled
        ]
        images = sorted([*node.status.images, *new], key=lambda image: -image.size_bytes)[:_MOST_IMAGES]
        await self.client.patch_unread(Node, name, {"status": {"images": images}}, subresource="status")


def renew_seconds(nodes: int) -> int:
    """Return the seconds between renewals of each Lease, which grow with the number of nodes.

    >>> [renew_seconds(nodes) for nodes in (1, 4000, 50000)]
    [10, 16, 20]
    """
    return min(max(nodes // _RENEWALS_PER_SECOND, _RENEW_SECONDS), _LONGEST_RENEW_SECONDS)


async def _for_each_node(names: Iterable[str], work: Callable[[str], Awaitable[None]]) -> None:
    """Call a function with every node name, several concurrently; log failures, which the next heartbeat retries."""

    async def work_and_log_errors(name: str) -> None:
        try:
            await work(name)
        except (errors.Conflict, errors.NotFound, errors.AlreadyExists) as error:
            log.debug("node %s: the cache was stale: %s", name, error)
        except (StatusError, ClientError) as error:
            log.info("node %s: no heartbeat: %s", name, error)

    await for_each_concurrently(names, work_and_log_errors, _AT_A_TIME)
