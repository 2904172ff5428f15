"""Keeps the bridge's labels on nodes current: a label on each node that meets a rule, and none that nobody asks for."""

from contextlib import suppress

from mooring.api import errors
from mooring.api.core_v1 import Node, PersistentVolume
from mooring.bridge.cluster import BridgedCluster
from mooring.bridge.plan import NodeRule, wanted_by_volume
from mooring.client import Informer, PatchType
from mooring.constraints.annotations import AnnotationError
from mooring.controllers.controller import Context, Controller

_TOGETHER_SECONDS = 0.1
"""Rules that come within this time are written to a node at once."""


class NodeLabels(Controller):
    """Works on nodes."""

    name = "bridge-nodes"

    def __init__(self, context: Context, cluster: BridgedCluster) -> None:
        super().__init__(context)
        self._cluster = cluster
        nodes: Informer[Node] = context.informers.of(Node)
        nodes.add_handler(added=cluster.node_came, updated=cluster.node_changed, deleted=cluster.node_left)
        volumes: Informer[PersistentVolume] = context.informers.of(PersistentVolume)
        volumes.add_handler(added=self._volume, updated=lambda _, new: self._volume(new), deleted=self._volume_left)
        cluster.on_stale = lambda name: self.queue.add_after(name, _TOGETHER_SECONDS)

    def _volume(self, volume: PersistentVolume) -> None:
        """Volumes ask for labels, too. What cannot be read asks for none: no node has the label then."""
        rules: list[NodeRule] = []
        with suppress(AnnotationError):
            rules = wanted_by_volume(volume)
        self._cluster.is_asked(_key(volume), rules)

    def _volume_left(self, volume: PersistentVolume) -> None:
        self._cluster.asks_no_more(_key(volume))

    async def reconcile(self, key: str) -> float | None:
        changes = self._cluster.changes_on(key)  # also on one that is being deleted: pods wait for all nodes
        if changes:
            body = {"metadata": {"labels": changes}}
            with suppress(errors.NotFound):
                await self.client.patch_unread(Node, key, body, type=PatchType.MERGE)
        return None


def _key(volume: PersistentVolume) -> str:
    """Pods are known by namespace/name, so that this is nobody else's."""
    return f"persistentvolumes/{volume.metadata.namespace}/{volume.metadata.name}"
