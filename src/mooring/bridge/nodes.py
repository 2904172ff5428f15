"""Write the bridge's labels to nodes: one for each rule that a node meets, and remove those no longer required."""

from contextlib import suppress

from mooring.api import errors
from mooring.api.core_v1 import Node, PersistentVolume
from mooring.bridge.cluster import BridgedCluster
from mooring.bridge.plan import NodeRule, required_by_volume
from mooring.client import Informer, PatchType
from mooring.constraints.annotations import AnnotationError
from mooring.controllers.controller import Context, Controller

_BATCH_SECONDS = 0.1
"""Rules that appear within this time are written to a node in one patch."""


class NodeLabels(Controller):
    """Reconcile the labels of nodes."""

    name = "bridge-nodes"

    def __init__(self, context: Context, cluster: BridgedCluster) -> None:
        super().__init__(context)
        self._cluster = cluster
        nodes: Informer[Node] = context.informers.of(Node)
        nodes.add_handler(added=cluster.add_node, updated=cluster.update_node, deleted=cluster.remove_node)
        volumes: Informer[PersistentVolume] = context.informers.of(PersistentVolume)
        volumes.add_handler(added=self._volume, updated=lambda _, new: self._volume(new), deleted=self._volume_left)
        cluster.on_stale = lambda name: self.queue.add_after(name, _BATCH_SECONDS)

    def _volume(self, volume: PersistentVolume) -> None:
        """Register the rules of a volume; an invalid annotation registers none, so that no node gets the label."""
        rules: list[NodeRule] = []
        with suppress(AnnotationError):
            rules = required_by_volume(volume)
        self._cluster.register(_key(volume), rules)

    def _volume_left(self, volume: PersistentVolume) -> None:
        self._cluster.unregister(_key(volume))

    async def reconcile(self, key: str) -> float | None:
        changes = self._cluster.changes_on(key)  # also on a terminating node: pods wait for all nodes
        if changes:
            body = {"metadata": {"labels": changes}}
            with suppress(errors.NotFound):
                await self.client.patch_unread(Node, key, body, type=PatchType.MERGE)
        return None


def _key(volume: PersistentVolume) -> str:
    return f"persistentvolumes/{volume.metadata.namespace}/{volume.metadata.name}"
