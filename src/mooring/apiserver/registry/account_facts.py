"""The service accounts that admission may ask about when a pod is created (``facts.py`` calls it).

A namespace gets its account `default` a moment after it was made. As in Kubernetes, a pod that comes in between waits
for it, at most a second; but only where somebody gives accounts out at all, which the namespace `default` tells.
"""

import asyncio
from collections.abc import Mapping

from mooring.api import codec
from mooring.api.core_v1 import Pod, ServiceAccount
from mooring.base.bounded_cache import BoundedCache
from mooring.store.kv import Store

DEFAULT = "default"
_REMEMBERED = 4096
_WAITS, _WAIT_SECONDS = 20, 0.05


class AccountFacts:
    """Accounts by namespace and name, decoded once for every change of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: BoundedCache[int, ServiceAccount] = BoundedCache(_REMEMBERED)

    async def about(self, pod: Pod, namespace: str) -> Mapping[str, ServiceAccount] | None:
        """The account `default` and the one that a new pod names; None where a namespace has no `default`."""
        if pod.metadata.resource_version:
            return None  # it has its account since it was created
        default = await self._find(namespace, DEFAULT)
        if default is None and await self._find(DEFAULT, DEFAULT) is not None:
            for _ in range(_WAITS):
                await asyncio.sleep(_WAIT_SECONDS)
                default = await self._find(namespace, DEFAULT)
                if default is not None:
                    break
        if default is None:
            return None
        found = {DEFAULT: default}
        name = pod.spec.service_account_name or pod.spec.service_account or DEFAULT
        if name != DEFAULT:
            account = await self._find(namespace, name)
            found |= {name: account} if account is not None else {}
        return found

    async def _find(self, namespace: str, name: str) -> ServiceAccount | None:
        key = f"/registry/serviceaccounts/{namespace}/{name}"
        kv = self._store.peek(key) or await self._store.get(key)
        if kv is None:
            return None
        account = self._known.get(kv.mod_revision)
        if account is None:
            account = codec.decode_own(kv.value, ServiceAccount)
            self._known.put(kv.mod_revision, account)
        return account
