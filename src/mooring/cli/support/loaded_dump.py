"""`mooring up --from`: a dump becomes the content of a new store, with simulated nodes in place of the real ones."""

from collections.abc import Iterator

import click

from mooring.advisor.simulate.pods import uid_of
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.to_store import missing_namespaces, write_objects
from mooring.api.base import copy_of
from mooring.api.core_v1 import Node
from mooring.api.meta_v1 import Resource
from mooring.cli.support.control_plane import ControlPlane
from mooring.controllers.simulated_nodes.templates import make_simulated


async def load_dump(plane: ControlPlane, snapshot: Snapshot) -> int:
    """Write the objects of a dump into a new store; return how many. Raises ClickException for a store in use."""
    if (await plane.client.page(Node, limit=1)).items:
        raise click.ClickException("--from needs a new data directory: name one with --data-dir, or use --ephemeral")
    server = plane.server
    objects = list(_assign_uids(snapshot))
    return await write_objects(server.store, server.scheme, [*missing_namespaces(objects), *objects])


def _assign_uids(snapshot: Snapshot) -> Iterator[Resource]:
    """Yield the objects of a snapshot with uids; nodes as simulated ones. What every server has is left out."""
    for kind in snapshot.kinds():
        for given in snapshot.all(kind):
            meta = given.metadata
            if (given.kind, meta.name) in (("Namespace", "default"), ("Service", "kubernetes")):
                continue
            obj = copy_of(given)
            obj.metadata.uid = meta.uid or uid_of(given.kind, meta.namespace, meta.name)
            obj.metadata.resource_version = ""
            yield make_simulated(obj) if isinstance(obj, Node) else obj
