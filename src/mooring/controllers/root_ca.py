"""Publish the API server's certificate authority in every namespace, as the ConfigMap `kube-root-ca.crt`.

The authority is the one in this component's kubeconfig; without one (system trust) nothing is published.
"""

from contextlib import suppress

from msgspec import structs

from mooring.api import errors
from mooring.api.core_v1 import ConfigMap, Namespace
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import Informer
from mooring.controllers.controller import Context, Controller

NAME = "kube-root-ca.crt"
DESCRIPTION = "kubernetes.io/description"
_TEXT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class RootCaPublisher(Controller):
    """Reconcile namespaces."""

    name = "root-ca-certificate-publisher"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._data = {"ca.crt": context.client.certificate_authority.decode("ascii", "replace")}
        self._namespaces: Informer[Namespace] = context.informers.of(Namespace)
        self._maps: Informer[ConfigMap] = context.informers.of(ConfigMap)
        self.follow(self._namespaces)
        self._maps.add_handler(updated=lambda _, new: self._map_changed(new), deleted=self._map_changed)

    def _map_changed(self, found: ConfigMap) -> None:
        if found.metadata.name == NAME:
            self.queue.add(found.metadata.namespace)

    async def reconcile(self, key: str) -> float | None:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None or not self._data["ca.crt"]:
            return None
        found = self._maps.get(NAME, key)
        if found is None:
            meta = ObjectMeta(name=NAME, namespace=key, annotations={DESCRIPTION: _TEXT})
            with suppress(errors.AlreadyExists):
                await self.client.create(ConfigMap(metadata=meta, data=self._data))
        elif found.data != self._data or not found.metadata.annotations.get(DESCRIPTION):
            annotations = {**found.metadata.annotations, DESCRIPTION: _TEXT}
            meta = structs.replace(found.metadata, annotations=annotations)
            await self.client.update(structs.replace(found, metadata=meta, data=self._data))
        return None
