"""Tells the cluster whom this server trusts: the ConfigMap `kube-system/extension-apiserver-authentication`.

Kubernetes' components read it to let the same clients in to their own ports. Written when a server starts.
"""

from contextlib import suppress

from mooring.api import errors
from mooring.api.core_v1 import ConfigMap
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.own_calls import OwnCalls

NAME, NAMESPACE = "extension-apiserver-authentication", "kube-system"
CLIENT_CA = "client-ca-file"


async def publish(calls: OwnCalls, authority: bytes) -> None:
    """Create the ConfigMap, or bring it up to date; what else it says stays."""
    wanted = authority.decode("ascii")
    found = await calls.get(ConfigMap, NAME, NAMESPACE)
    with suppress(errors.AlreadyExists, errors.Conflict):  # another server that starts writes the same
        if found is None:
            await calls.create(ConfigMap(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), data={CLIENT_CA: wanted}))
        elif found.data.get(CLIENT_CA) != wanted:
            found.data[CLIENT_CA] = wanted
            await calls.update(found)
