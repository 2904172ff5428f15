"""Publish which authorities this server trusts, and since when it tracks legacy tokens: ConfigMaps in `kube-system`.

Kubernetes' components read `extension-apiserver-authentication` to let the same clients in to their own ports, and
kube-controller-manager reads since when the use of old tokens would have been noticed. Written when a server starts.
"""

from contextlib import suppress
from datetime import datetime

from mooring.api import errors
from mooring.api.core_v1 import ConfigMap
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.registry.loopback_client import LoopbackClient

NAMESPACE = "kube-system"
TRUST = "extension-apiserver-authentication"
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
_PROXIES = {
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-username-headers": '["X-Remote-User"]',
}


async def publish(calls: LoopbackClient, clients: bytes, proxies: bytes, now: datetime) -> None:
    """Create the ConfigMaps, or bring them up to date; what else they say stays."""
    found = await calls.get(ConfigMap, TRUST, NAMESPACE)
    known = found.data.get("requestheader-client-ca-file", "") if found else ""
    own = proxies.decode("ascii")
    bundle = known if own in known else known + own  # each of several servers has its own
    trust = {"client-ca-file": clients.decode("ascii"), "requestheader-client-ca-file": bundle, **_PROXIES}
    await _keep(calls, TRUST, found, trust)
    tracking = await calls.get(ConfigMap, TRACKING, NAMESPACE)
    if tracking is None:
        await _keep(calls, TRACKING, None, {"since": now.date().isoformat()})


async def _keep(calls: LoopbackClient, name: str, found: ConfigMap | None, data: dict[str, str]) -> None:
    with suppress(errors.AlreadyExists, errors.Conflict):  # another server that starts writes the same
        if found is None:
            await calls.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=data))
        elif not data.items() <= found.data.items():
            found.data |= data
            await calls.update(found)
