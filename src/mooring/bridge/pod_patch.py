"""Writes to pods that hold for the version looked at. Called by ``pods.py`` and by the node webhook."""

from mooring.api import errors
from mooring.api.core_v1 import Pod
from mooring.bridge.plan import Operation
from mooring.client import Client, PatchType


async def patch_pod(client: Client, pod: Pod, operations: list[Operation]) -> bool:
    """Patch the pod as it was looked at; False when it is gone. Raises `Conflict` when it is another meanwhile.

    A patch whose `test` fails is answered with 422, as what is not valid: only the pod itself can tell the two apart.
    """
    metadata = pod.metadata
    try:
        await client.patch_unread(Pod, metadata.name, operations, metadata.namespace, type=PatchType.JSON)
    except errors.NotFound:
        return False
    except errors.Invalid as error:
        if await _is_as_it_was(client, pod):
            raise
        raise errors.conflict("pods", metadata.name) from error
    return True


async def _is_as_it_was(client: Client, pod: Pod) -> bool:
    try:
        now = await client.get(Pod, pod.metadata.name, pod.metadata.namespace)
    except errors.NotFound:
        return False
    return now.metadata.resource_version == pod.metadata.resource_version
