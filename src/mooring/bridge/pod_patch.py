"""Patch a pod unless its revision has changed. Called by ``pods.py`` and the node webhook."""

from mooring.api import errors
from mooring.api.core_v1 import Pod
from mooring.bridge.plan import Operation
from mooring.client import Client, PatchType


async def patch_pod(client: Client, pod: Pod, operations: list[Operation]) -> bool:
    """Apply operations that test the pod's revision; return False if it is gone, raise Conflict if it changed.

    The server responds to a failed `test` with 422, as to an invalid pod: only the stored pod shows which it was.
    """
    metadata = pod.metadata
    try:
        await client.patch_unread(Pod, metadata.name, operations, metadata.namespace, type=PatchType.JSON)
    except errors.NotFound:
        return False
    except errors.Invalid as error:
        if await _is_unchanged(client, pod):
            raise
        raise errors.conflict("pods", metadata.name) from error
    return True


async def _is_unchanged(client: Client, pod: Pod) -> bool:
    try:
        now = await client.get(Pod, pod.metadata.name, pod.metadata.namespace)
    except errors.NotFound:
        return False
    return now.metadata.resource_version == pod.metadata.resource_version
